"""Operator placement of a model: on the device, on the CPU, or refused.

It is predicted from the tables of kernels (onnx/kernel_tables.py), so that it needs neither a card nor the runtime.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from onnx import ModelProto, NodeProto

from graphls.base.text.plain import shown, size
from graphls.ir.graph import Node
from graphls.runtime.lowering.kernel_tables import table, unknown
from graphls.runtime.lowering.metadata import LOCATION
from graphls.runtime.lowering.protos import with_types
from graphls.runtime.onnxruntime.kernel_search import Search


@dataclass(frozen=True)
class PlacedNode:
    """An operator of a model and where it runs.

    `device` is where it has a kernel: the one that was asked for, "cpu", or "" where the runtime refuses the model;
    `reason` says why it is not the first. `line` is the user's, "" where the model does not tell. `copies` and `copied`
    are how many tensors, and bytes of tensors whose shapes are known, are copied for it between device and CPU.
    """

    operator: str
    name: str
    device: str
    reason: str = ""
    line: str = ""
    copies: int = 0
    copied: int = 0


@dataclass(frozen=True)
class Placement:
    """The operators of a model, those of branches and bodies included, with where each runs.

    `unknown` is a sentence on what the tables of kernels do not tell of this version, or "".
    """

    runtime: str
    device: str
    opset: int
    nodes: tuple[PlacedNode, ...]
    unknown: str = ""

    @property
    def elsewhere(self) -> tuple[PlacedNode, ...]:
        """The operators that run on the CPU for want of a kernel on the device."""
        return tuple(node for node in self.nodes if node.device not in (self.device, ""))

    @property
    def refused(self) -> tuple[PlacedNode, ...]:
        """The operators that no provider has a kernel for, so that the runtime refuses the model."""
        return tuple(node for node in self.nodes if not node.device)

    @property
    def copies(self) -> int:
        """How many tensors a run copies between the device and the CPU."""
        return sum(node.copies for node in self.nodes)

    @property
    def copied(self) -> int:
        """How many bytes that is, of tensors whose shapes are known."""
        return sum(node.copied for node in self.nodes)

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences about the placement: none where every operator has a kernel on the device."""
        found = []
        if self.elsewhere:
            copied = f"{self.copies} copies of {size(self.copied)} in a run"
            found.append(f"{_count(self.elsewhere)} on the CPU and not on {self.device!r}, with {copied}.")
        if self.refused:
            found.append(f"{_count(self.refused)} nowhere, so that ONNX Runtime {self.runtime} refuses the model.")
        return (*found, *filter(None, [self.unknown if found else ""]))

    @property
    def groups(self) -> list[tuple[int, PlacedNode]]:
        """The operators that are not on the device, those of one reason and line together: how many, and all as one."""
        found: dict[tuple[str, str, str], list[PlacedNode]] = {}
        for node in self.nodes:
            if node.device != self.device:
                found.setdefault((node.device, node.reason, node.line), []).append(node)
        return [(len(nodes), _joined(nodes)) for nodes in found.values()]

    def __str__(self) -> str:
        whole = f"ONNX Runtime {self.runtime}, {self.device}, opset {self.opset}: {len(self.nodes)} operators"
        return "\n".join([f"{whole}, {self._located()}.", *self.sentences, *map(_line, self.groups)])

    def _located(self) -> str:
        if len(self.nodes) == len(self.elsewhere) + len(self.refused):
            return f"none of them on {self.device!r}" if self.nodes else "none"
        here = len(self.nodes) - len(self.elsewhere) - len(self.refused)
        return f"all of them on {self.device!r}" if here == len(self.nodes) else f"{here} of them on {self.device!r}"


def _count(nodes: Sequence[PlacedNode]) -> str:
    return "1 operator runs" if len(nodes) == 1 else f"{len(nodes)} operators run"


def _joined(nodes: Sequence[PlacedNode]) -> PlacedNode:
    return replace(nodes[0], copies=sum(n.copies for n in nodes), copied=sum(n.copied for n in nodes))


def _line(group: tuple[int, PlacedNode]) -> str:
    """A line of text on operators with one reason."""
    count, node = group
    times = f"{count} times " if count > 1 else ""
    place = "on the CPU" if node.device else "refused"
    copied = f", {node.copies} copies of {size(node.copied)}" if node.copies else ""
    line = f" ({shown(node.line)})" if node.line else ""
    return f"  {times}{shown(node.operator)} {place}: {node.reason}{copied}{line}"


def place(
    model: ModelProto, runtime: str, device: str = "cuda", origins: Mapping[str, Node] | None = None,
    infer: Callable[[ModelProto], ModelProto] = with_types,
) -> Placement:  # fmt: skip
    """Where the operators of a model run on a version of ONNX Runtime, with the provider of a device beside the CPU's.

    The model may be any; `infer` gives one with the types of its tensors. `origins` tells the nodes that operators come
    from, by the names of these, and so the user's lines; else they are those that a model which graphls has saved tells
    itself. What the attributes of an operator ask for is not looked at, and neither is what the runtime makes of a
    model before it places it, such as the operators that it puts in the place of one that is defined by others. Raises
    GraphValueError for a device or a version without a table.
    """
    search = Search(infer(model), device, table(device, runtime), table("cpu", runtime))
    copies = search.copies()
    nodes = []
    for number, found in enumerate(search.choices):
        bytes_copied = copies.get(number, [])
        line = _user_line(found.proto, origins)
        numbers = len(bytes_copied), sum(bytes_copied)
        nodes.append(PlacedNode(found.proto.op_type, found.proto.name, found.device, found.reason, line, *numbers))
    return Placement(runtime, device, search.opsets.get("", 1), tuple(nodes), unknown(device, runtime))


def _user_line(proto: NodeProto, origins: Mapping[str, Node] | None) -> str:
    if origins is None:
        return next((entry.value for entry in proto.metadata_props if entry.key == LOCATION), "")
    node = origins.get(proto.name)
    return "" if node is None or node.loc is None else str(node.loc)
