"""The interface of a lowering for the rules of loops and of overflow checks."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Sequence

from graphls.ir.graph import Node, Value
from graphls.ir.types import DType, Type
from graphls.primitives.emitter import Emitter
from graphls.runtime.lowering.writer import Writer

Forms = dict[DType, str]
"""Tensors of one value, by their dtypes."""


class Values(Writer, Emitter):
    """A value has one or more `forms`, tensors by dtype: itself and, for a 16-bit float on a CPU, a float32 copy of it.

    `delayed` values are computed where only an overflow check needs them, and `again` are those that it computes once
    more; `definer` has the node of each value. Where iterations are written out, `elements` has what each of them gave,
    by the array that these make together.
    """

    forms: ChainMap[Value, Forms]
    elements: dict[str, Sequence[Forms]]
    definer: dict[Value, Node]
    delayed: dict[Value, Node]
    again: dict[Value, Node]

    def nodes(self, nodes: Sequence[Node], kept: Iterable[Value]) -> None:
        """Lower a block that yields `kept`."""
        raise NotImplementedError

    def each(self, nodes: Iterable[Node]) -> None:
        """Lower these nodes."""
        raise NotImplementedError

    def form(self, value: Value, dtype: DType) -> str:
        """The name of a value in its own dtype or, for a half, of its float32 copy."""
        raise NotImplementedError

    def computed(self, kind: Type) -> Type:
        """The type in which a value takes part in computation."""
        raise NotImplementedError

    def result(self, value: Value, kind: Type, taken: set[str]) -> str:
        """Make a value an output of the current graph."""
        raise NotImplementedError

    def take_parameters(self, values: Iterable[Value]) -> set[str]:
        """Make values inputs of the body that is current; returns their names."""
        raise NotImplementedError
