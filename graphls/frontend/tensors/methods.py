"""The methods and operators of tensors, filled in by the operations that `graphls.ops` declares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.frontend.tensors.foreign import offers_array

UNARY = ("neg", "pos", "abs", "invert")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


METHODS: dict[str, Callable[..., Any]] = {}
"""The methods of tensors by their names."""


class Methods:
    """The base class of tensors. Records of operations (`ops/record.py`) fill it; the stub beside it lists them all."""

    __slots__ = ()


def give_operator(symbol: str, function: Callable[..., object]) -> None:
    """Set the function of an operator of tensors: `__add__`, and `__radd__` with the tensor on its right."""
    if symbol in UNARY:
        setattr(Methods, f"__{symbol}__", lambda self: function(self))
        return
    setattr(Methods, f"__{symbol}__", lambda self, other: function(self, other) if _fits(other) else NotImplemented)
    if symbol not in COMPARISONS:
        swapped = lambda self, other: function(other, self) if _fits(other) else NotImplemented  # noqa: E731
        setattr(Methods, f"__r{symbol}__", swapped)


def _fits(other: object) -> bool:
    return isinstance(other, (Methods, int, float, np.ndarray, np.generic)) or offers_array(other)
