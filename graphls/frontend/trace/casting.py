"""Casting policies of mixed precision: the dtype that the network chooses for an operation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.tensor import Tensor, is_tensor
from graphls.ir.types import DType, float32, float64


def in_dtype(leaf: object, target: DType | None) -> Any:
    """A float tensor in the target dtype; anything else as it is."""
    if target is None or not is_tensor(leaf):
        return leaf
    leaf = leaf if isinstance(leaf, Tensor) else Tensor(leaf)
    return dispatch.cast(leaf, target) if leaf.dtype.is_float and leaf.dtype is not target else leaf


@dataclass(frozen=True)
class Casting:
    """The dtypes of operations inside a cell, by their names; a cell inside that has `to_float` follows that instead.

    Float operands of operations in `lowered` are cast to `low`, a 16-bit float, and of those in `widened` to float32.
    With `gives_back`, results of the former are cast to float32 again; adjacent pairs of casts are folded away later.
    float64 stays as it is.
    """

    low: DType
    lowered: frozenset[str] = frozenset()
    widened: frozenset[str] = frozenset()
    gives_back: bool = False

    def operands(self, name: str, operands: tuple[object, ...]) -> tuple[Any, ...]:
        """The operands of an operation in the dtype that it is computed in."""
        target = self.low if name in self.lowered else float32 if name in self.widened else None
        return tuple(o if _is_exempt(o) else in_dtype(o, target) for o in operands)

    def results(self, name: str, results: tuple[object, ...]) -> tuple[Any, ...]:
        """The results of an operation in the dtype for the network."""
        if not self.gives_back or name not in self.lowered:
            return results
        return tuple(r if _is_exempt(r) else in_dtype(r, float32) for r in results)


def _is_exempt(operand: object) -> bool:
    return not isinstance(operand, Tensor) or operand.dtype is float64
