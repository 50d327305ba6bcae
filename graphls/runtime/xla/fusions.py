"""The kernels of a compiled program, and the nodes that XLA fused into each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphls.ir.graph import Graph, Node, walk
from graphls.runtime.kernels import FusedKernel

_HEADER = re.compile(r"^(ENTRY )?%?(\S+) \(.*\{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?(\S+) = (?:\(.*?\)|\S+) ([\w-]+)\(")
_CALLED = re.compile(r"(?:calls|to_apply|body|condition|true_computation|false_computation)=%?([\w.-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_SCOPE = re.compile(r'op_name="([^"]*)"')
_TAG = "%"

NO_KERNELS = frozenset(("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "iota", "after-all"))
"""Operations that compute nothing."""
CONTROL = frozenset(("conditional", "while", "call"))
"""Operations that run others, each of which is a kernel."""


@dataclass
class _Computation:
    """The instructions of a function in a program: their names, operations, called functions and nodes."""

    instructions: list[tuple[str, str, list[str], Node | None]] = field(default_factory=list)


def tag(node: Node) -> str:
    """The part of the scope of an operation that says of which node it is."""
    return f"{_TAG}{node.outputs[0].name.replace('/', '|')}" if node.outputs else ""


def fused_kernels(program: Any, graph: Graph) -> Iterator[FusedKernel]:
    """The kernels of a compiled program of a graph, in the order of its text, those in branches and loops included."""
    computations, entry = _parsed(program.as_text(), {tag(node): node for node in walk(graph)})
    left, seen = [entry], {entry}
    while left:
        for name, operation, called, own in computations[left.pop(0)].instructions:
            if operation in CONTROL:
                inner = [other for other in called if other in computations and other not in seen]
                seen.update(inner)
                left += inner
            elif operation not in NO_KERNELS:
                nodes = dict.fromkeys([own, *_nodes(computations, called)])
                yield FusedKernel(name, operation, tuple(node for node in nodes if node is not None))


def _nodes(computations: Mapping[str, _Computation], called: Iterable[str]) -> Iterator[Node | None]:
    for function in called:
        for _, _, inner, node in computations.get(function, _Computation()).instructions:
            yield node
            yield from _nodes(computations, inner)


def _parsed(text: str, nodes: Mapping[str, Node]) -> tuple[dict[str, _Computation], str]:
    """The functions of a program by name, and the name of the one that is run."""
    computations: dict[str, _Computation] = {}
    entry, current = "", _Computation()
    for line in text.splitlines():
        if header := _HEADER.match(line):
            current = computations[header[2]] = _Computation()
            entry = header[2] if header[1] else entry
        elif instruction := _INSTRUCTION.match(line):
            called = _CALLED.findall(line)
            for branches in _BRANCHES.findall(line):
                called += [name.strip().removeprefix("%") for name in branches.split(",")]
            current.instructions.append((instruction[1], instruction[2], called, _node(line, nodes)))
    return computations, entry


def _node(line: str, nodes: Mapping[str, Node]) -> Node | None:
    """The innermost node in the scope of an instruction."""
    scope = _SCOPE.search(line)
    parts = scope[1].split("/") if scope else []
    return next((nodes[part] for part in reversed(parts) if part in nodes), None)
