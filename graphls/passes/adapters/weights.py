"""Finds the products of a graph whose second operand is a weight, and matches weights by name patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from graphls.ir.graph import Node, Value
from graphls.ir.types import DType
from graphls.passes.rewriter import Rewriter


def matches(patterns: str | Sequence[str] | None, *names: str) -> bool:
    """Whether a shell-style pattern, or one of several, matches one of the names; None matches all."""
    if patterns is None:
        return True
    patterns = (patterns,) if isinstance(patterns, str) else patterns
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns for name in names if name)


@dataclass(frozen=True)
class Weight:
    """A weight as a product uses it: the axis of the state that is summed over, and whether the state is cast first.

    Kernels of a convolution have no such axis, and may be in groups.
    """

    state: Value
    axis: int | None
    is_cast: bool
    groups: int = 1


class WeightFinder(Rewriter):
    """A rewriter that finds the weight of each product."""

    def product(self, node: Node) -> Weight | None:
        """The weight that a product of the forward has as its second operand: a matrix, or kernels."""
        if node.phase != "forward" or not node.primitive.is_product or "shape" in node.attrs:
            return None  # an adjoint of a convolution names the shape of its result
        state, is_swapped, is_cast = self.origin(node.inputs[1])
        if not state.is_state:
            return None
        if node.primitive.is_convolution:
            return None if is_swapped else Weight(state, None, is_cast, node.attrs.get("groups", 1))
        axis = int(node.attrs.get("transpose_b", False) != is_swapped)
        return Weight(state, axis, is_cast) if state.type.rank == 2 else None

    def origin(self, value: Value) -> tuple[Value, bool, bool]:
        """The value behind casts and transpositions, and whether there are any of either."""
        is_swapped = is_cast = False
        while (node := self.definer.get(value)) is not None and self.passes_on(node):
            is_swapped ^= node.primitive.name == "transpose"
            is_cast |= node.primitive.name == "cast"
            (value,) = node.inputs
        return value, is_swapped, is_cast

    def cast(self, value: Value, dtype: DType) -> Value:
        """The value in a dtype; itself where it has that already."""
        result: Value = value if value.type.dtype is dtype else self.e.cast(value, dtype=dtype)
        return result

    def passes_on(self, node: Node) -> bool:
        """Whether a node is a cast, a transposition of a matrix, or a `depend`."""
        kind = node.primitive.name
        return kind in ("cast", "depend") or (kind, node.attrs.get("permutation")) == ("transpose", (1, 0))
