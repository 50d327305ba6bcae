"""The instructions of a compiled program, read from its text, each with the node that it computes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from graphls.base.errors import visible
from graphls.ir.graph import Graph, Node, walk

_HEADER = re.compile(r"^(ENTRY )?%?(\S+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(ROOT )?%?(\S+) = (\(.*?\)|\S+) ([\w-]+)\(")
_OPERAND = re.compile(r"%([\w.-]+)")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_SCOPE = re.compile(r'op_name="([^"]*)"')
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"')
_INDEX = re.compile(r"\bindex=(\d+)")
_ARRAY = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_TAG = "%"

CONTROL = frozenset(("conditional", "while", "call"))
"""Operations that run others, each of which is a kernel."""


@dataclass(frozen=True)
class Instruction:
    """One instruction: `shape` is the text of its result's type, `called` the computations that it runs.

    A parameter has its number as operand. `attributes` is the text behind the operands, `node` the innermost node in
    the scope of the instruction, `is_result` whether it is the result of its computation.
    """

    name: str
    operation: str
    shape: str
    operands: tuple[str, ...]
    called: tuple[str, ...]
    attributes: str
    node: Node | None
    is_result: bool = False

    @property
    def size(self) -> int:
        """The bytes of the result."""
        return sum(prod(sizes) * bits // 8 for sizes, bits in self.arrays)

    @property
    def arrays(self) -> list[tuple[tuple[int, ...], int]]:
        """The shape and the bits of an element of each array of the result."""
        arrays = _ARRAY.findall(self.shape)
        return [(tuple(map(int, filter(None, sizes.split(",")))), int(bits or 8)) for _, bits, sizes in arrays]

    @property
    def is_widened(self) -> bool:
        """Whether it has 16-bit floats of the graph in 32 bits."""
        values = () if self.node is None else self.node.outputs
        return bool(values) and all(v.type.dtype.is_half for v in values) and self.shape.lstrip("(").startswith("f32[")

    @property
    def index(self) -> int | None:
        """The index of the element that it takes from a tuple."""
        index = _INDEX.search(self.attributes) if self.operation == "get-tuple-element" else None
        return int(index[1]) if index else None

    @property
    def trips(self) -> int:
        """How often a loop runs its body; 1 where the program does not say."""
        known = _TRIPS.search(self.attributes)
        return int(known[1]) if known else 1


class Instructions:
    """The computations of a program by name, and the one that is run, `entry`."""

    def __init__(self, text: str, graph: Graph) -> None:
        nodes = {tag(node): node for node in walk(graph)}
        self.computations: dict[str, list[Instruction]] = {}
        self.entry, current = "", list[Instruction]()
        for line in text.splitlines():
            if header := _HEADER.match(line):
                current = self.computations[header[2]] = []
                self.entry = header[2] if header[1] else self.entry
            elif match := _INSTRUCTION.match(line):
                current.append(_instruction(match, line, nodes))

    def of(self, computation: str) -> Sequence[Instruction]:
        """The instructions of a computation."""
        return self.computations.get(computation, ())

    def runs(self) -> dict[str, int]:
        """How often each computation runs in one run of the program, those within kernels left out."""
        times = {self.entry: 1}
        for name in reversed(self.computations):  # a program's text has computations before those that run them
            for instruction in self.of(name) if name in times else ():
                if instruction.operation in CONTROL:
                    for called in instruction.called:
                        times[called] = times.get(called, 0) + times[name] * instruction.trips
        return times

    def nodes(self, names: Sequence[str]) -> Iterator[Node | None]:
        """The nodes of the instructions in some computations and in what these run."""
        for name in names:
            for instruction in self.of(name):
                yield instruction.node
                yield from self.nodes(instruction.called)


def tag(node: Node) -> str:
    """The part of the scope of an operation that says of which node it is."""
    return f"{_TAG}{visible(node.outputs[0].name).replace('/', '|')}" if node.outputs else ""


def _instruction(match: re.Match[str], line: str, nodes: Mapping[str, Node]) -> Instruction:
    end = line.find(")", match.end())
    operands, attributes = line[match.end() : end], line[end:]
    called = _CALLED.findall(attributes)
    for branches in _BRANCHES.findall(attributes):
        called += [name.strip().removeprefix("%") for name in branches.split(",")]
    names = tuple(_OPERAND.findall(operands) or operands.split(", "))
    node = _node(attributes, nodes)
    return Instruction(match[2], match[4], match[3], names, tuple(called), attributes, node, bool(match[1]))


def _node(attributes: str, nodes: Mapping[str, Node]) -> Node | None:
    """The innermost node in the scope of an instruction."""
    scope = _SCOPE.search(attributes)
    parts = scope[1].split("/") if scope else []
    return next((nodes[part] for part in reversed(parts) if part in nodes), None)
