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
    """The tensors of values: each has `forms` by dtype, itself and, for a 16-bit float on a CPU, a float32 copy of it.

    `deferred` values are computed in the overflow check that alone reads them; `definer` has the node of each value.
    """

    forms: ChainMap[Value, Forms]
    definer: dict[Value, Node]
    deferred: dict[Value, Node]

    def nodes(self, nodes: Sequence[Node], yielded: Iterable[Value]) -> None:
        """Lower a block that yields some values."""
        raise NotImplementedError

    def each(self, nodes: Iterable[Node]) -> None:
        """Lower these nodes."""
        raise NotImplementedError

    def form(self, value: Value, dtype: DType) -> str:
        """The name of a value in its own dtype or, for a half, of its float32 copy."""
        raise NotImplementedError

    def computed(self, kind: Type) -> Type:
        """The type in which a value is computed."""
        raise NotImplementedError

    def result(self, value: Value, kind: Type, used: set[str]) -> str:
        """Add a value as an output of the current graph."""
        raise NotImplementedError

    def add_parameters(self, values: Iterable[Value]) -> set[str]:
        """Add values as inputs of the current body; returns their names."""
        raise NotImplementedError
