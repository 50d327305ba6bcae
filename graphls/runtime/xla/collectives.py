"""The collectives of a compiled program: the bytes of each, and the mesh axes along which devices exchange them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from graphls.ir.graph import Node
from graphls.ir.sharding import Mesh
from graphls.runtime.xla.instructions import Instruction, Instructions

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
SEND = "send"
"""What a stage of a pipeline sends to another one."""

SLICED = "all-reduce, sliced"
"""An all-reduce of which each device reads only its part: compilers for accelerators make a reduce-scatter of it."""



def sliced_as(kind: str) -> str:
    """The kind of collective that compilers for accelerators make of one."""
    return "reduce-scatter" if kind == SLICED else kind


_LISTED = re.compile(r"replica_groups=\{(\{[\d,{}]*\})\}")
_GRID = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_AXES = re.compile(r"replica_groups=\w*mesh\[([^\]]*)\]\s*(?:,\s*device_ids=\(?\[[^)]*\)?)?\s*\{([^}]*)\}")
_PAIRS = re.compile(r"source_target_pairs=\{([\d,{}]*)\}")
_MOVES = frozenset(("bitcast", "reshape", "copy", "transpose", "convert"))
_SLICES = frozenset(("dynamic-slice", "slice"))


@dataclass(frozen=True)
class Collective:
    """A collective: its kind, the mesh axes along which `devices` exchange, and the bytes of the whole array of each.

    `times` is how often a step runs it, `node` whose computation it belongs to, and `is_widened` says whether it has
    16-bit floats in 32 bits.
    """

    kind: str
    axes: tuple[str, ...]
    devices: int
    size: int
    times: int
    node: Node | None
    is_widened: bool = False

    @property
    def sent(self) -> int:
        """The bytes that each device sends in a step, where a ring of devices passes on parts."""
        part = (self.devices - 1) / self.devices
        factor = {"all-reduce": 2 * part, "collective-permute": 1.0, SEND: 1.0}.get(self.kind, part)
        return round(factor * self.size) * self.times


def collectives(instructions: Instructions, mesh: Mesh) -> Iterator[Collective]:
    """The collectives of a program, with those in loops and branches; those within one device are none.

    One that several arrays share counts as two where some of them are sliced and others are not.
    """
    for name, times in instructions.runs().items():
        for instruction in instructions.of(name):
            kind = instruction.operation
            if kind not in KINDS:
                continue
            groups = _pairs(instruction) if kind == "collective-permute" else _groups(instruction, mesh)
            axes, devices = _axes(groups, mesh), len(next(iter(groups), ()))
            for own, size in _sizes(instruction, kind, instructions.of(name), instructions).items():
                size *= devices if kind == "reduce-scatter" else 1
                if axes and size:
                    yield Collective(own, axes, devices, size, times, instruction.node, instruction.is_widened)


def _sizes(
    instruction: Instruction, kind: str, computation: Sequence[Instruction], instructions: Instructions
) -> dict[str, int]:
    """The bytes of the result by kind, where the arrays of an all-reduce may be sliced or not."""
    if kind != "all-reduce":
        return {kind: instruction.size}
    if not instruction.shape.startswith("("):
        return {SLICED if _reads_part(instruction.name, computation, instructions) else kind: instruction.size}
    sizes = {SLICED: 0, kind: 0}
    for number, (shape, bits) in enumerate(instruction.arrays):
        elements = [e for e in computation if instruction.name in e.operands and e.index == number]
        is_sliced = bool(elements) and all(_reads_part(e.name, computation, instructions) for e in elements)
        sizes[SLICED if is_sliced else kind] += prod(shape) * bits // 8
    return sizes


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def _listed(text: str) -> list[list[int]]:
    return [_numbers(group) for group in re.findall(r"\{([\d,]*)\}", text)]


def _pairs(instruction: Instruction) -> list[list[int]]:
    """The pairs of a source and a target, other than itself."""
    match = _PAIRS.search(instruction.attributes)
    return [pair for pair in _listed(match[1]) if pair[0] != pair[1]] if match else []


def _groups(instruction: Instruction, mesh: Mesh) -> list[list[int]]:
    """The groups of devices that exchange, in any of the forms in which XLA writes them."""
    if match := _LISTED.search(instruction.attributes):
        return _listed(match[1])
    if match := _GRID.search(instruction.attributes):
        count, size = _numbers(match[1])
        order = np.arange(count * size).reshape(_numbers(match[2]))
        order = order.transpose(_numbers(match[3])) if match[3] else order
        return [list(map(int, group)) for group in order.reshape(count, size)]
    if match := _AXES.search(instruction.attributes):
        sizes = dict(re.findall(r"'(\w+)'=(\d+)", match[1]))
        moved = [list(sizes).index(name) for name in re.findall(r"'(\w+)'", match[2])]
        order = np.arange(mesh.size).reshape([int(size) for size in sizes.values()])
        order = np.moveaxis(order, moved, range(order.ndim - len(moved), order.ndim))
        size = int(np.prod(order.shape[order.ndim - len(moved) :]))
        return [list(map(int, group)) for group in order.reshape(-1, size)]
    return [list(range(mesh.size))]


def _axes(groups: Sequence[Sequence[int]], mesh: Mesh) -> tuple[str, ...]:
    """The mesh axes along which the devices of a group differ."""
    differing: set[int] = set()
    for group in groups:
        places = np.array(np.unravel_index(group, tuple(mesh.sizes.values())))
        differing.update(map(int, np.nonzero((places != places[:, :1]).any(axis=1))[0]))
    return tuple(name for number, name in enumerate(mesh.names) if number in differing)


def _reads_part(name: str, computation: Sequence[Instruction], instructions: Instructions) -> bool:
    """Whether all that reads a value in a computation reads only a part of it."""
    readers = [each for each in computation if name in each.operands]
    return bool(readers) and all(_takes_part(each, name, computation, instructions) for each in readers)


def _takes_part(
    reader: Instruction, name: str, computation: Sequence[Instruction], instructions: Instructions
) -> bool:
    if reader.operation in _SLICES:
        return reader.operands[0] == name
    if reader.operation in _MOVES:
        return not reader.is_result and _reads_part(reader.name, computation, instructions)
    if reader.operation != "fusion":
        return False
    inner = instructions.of(reader.called[0])
    places = {str(place) for place, operand in enumerate(reader.operands) if operand == name}
    own = [each for each in inner if each.operation == "parameter" and each.operands[0] in places]
    return all(_reads_part(parameter.name, inner, instructions) for parameter in own)
