"""Indices for engines that do not look whether they are in range: kept in it, and which node's were not."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.backends.onnx.writer import Writer
from graphls.ir.graph import Node
from graphls.ir.types import Type, int32
from graphls.primitives.indexing import axis_size

FAULT = Type(int32)
"""The type of an output that is 0, or the number of a node, from 1 on, that was given an index out of range."""


class Indices:
    """The nodes of a model that take indices, with a bool each that says whether one was out of range."""

    def __init__(self, e: Writer) -> None:
        self.e = e
        self.inside: dict[Node, str] = {}
        self.wrong: list[str] = []

    def kept(self, node: Node, names: Sequence[str], kind: Type) -> list[str]:
        """The operands of a node with the indices, the second of them, brought into range."""
        first, given, *others = names
        if node not in self.inside:
            self.inside[node] = self._brought_inside(given, axis_size(node), kind)
        return [first, self.inside[node], *others]

    def _brought_inside(self, given: str, size: int, kind: Type) -> str:
        e = self.e
        (inside,) = e.results("Min", [given, e.const(size - 1, kind.dtype)], {}, 1)  # as integers are never nan
        (inside,) = e.results("Max", [inside, e.const(-size, kind.dtype)], {}, 1)
        is_wrong = e.operator("Not", [e.operator("Equal", [given, inside])])
        self.wrong.append(e.operator("ReduceMax", [e.cast(is_wrong, int32)], {"keepdims": 0}))
        return inside

    def fault(self) -> str:
        """The number of the last node that has a wrong index, as a tensor."""
        e, numbered = self.e, []
        for number, (e.node, wrong) in enumerate(zip(self.inside, self.wrong, strict=True), 1):
            numbered.append(e.operator("Mul", [wrong, e.const(number, int32)]))
        return e.results("Max", numbered, {}, 1)[0] if len(numbered) > 1 else numbered[0]
