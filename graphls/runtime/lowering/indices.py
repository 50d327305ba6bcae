"""Bounds checks of indices for engines without them: indices are clamped, and a fault is reported."""

from __future__ import annotations

from collections.abc import Sequence

from graphls.ir.graph import Node
from graphls.ir.types import Type, int32
from graphls.primitives.indexing import axis_size
from graphls.runtime.lowering.writer import Writer

FAULT = Type(int32)
"""The type of an output that is 0, or the number, from 1 on, of a node with an index out of range."""


class Indices:
    """The clamped indices of a model, by their names and the size of their axis.

    `guarded` are the nodes that take them first, `wrong` the flags that are set for an index out of range.
    """

    def __init__(self, e: Writer) -> None:
        self.e = e
        self.inside: dict[tuple[str, int], str] = {}
        self.guarded: list[Node] = []
        self.wrong: list[str] = []

    def clamped(self, node: Node, names: Sequence[str], kind: Type) -> list[str]:
        """The operands of a node with the indices, the second of them, clamped.

        Faults of indices that only a branch reads are not reported: tensors of a branch cannot be read outside.
        """
        first, indices, *others = names
        key = indices, axis_size(node)
        inside = self.inside.get(key) or self._clamp(*key, kind)
        if key not in self.inside and self.e.body is self.e.main:
            self.inside[key] = inside
            self.guarded.append(node)
            self.wrong.append(self._is_wrong(indices, inside))
        return [first, inside, *others]

    def _clamp(self, indices: str, size: int, kind: Type) -> str:
        e = self.e
        (inside,) = e.results("Min", [indices, e.const(size - 1, kind.dtype)], {}, 1)  # as integers are never nan
        return e.results("Max", [inside, e.const(-size, kind.dtype)], {}, 1)[0]

    def _is_wrong(self, indices: str, inside: str) -> str:
        e = self.e
        is_wrong = e.operator("Not", [e.operator("Equal", [indices, inside])])
        return e.operator("ReduceMax", [e.cast(is_wrong, int32)], {"keepdims": 0})

    def fault(self) -> str:
        """The number of the last node with an index out of range, as a tensor."""
        e, numbered = self.e, []
        for number, (e.node, wrong) in enumerate(zip(self.guarded, self.wrong, strict=True), 1):
            numbered.append(e.operator("Mul", [wrong, e.const(number, int32)]))
        return e.results("Max", numbered, {}, 1)[0] if len(numbered) > 1 else numbered[0]
