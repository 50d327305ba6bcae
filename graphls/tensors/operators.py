"""The operators of tensors: which function of `graphls.ops` each is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.tensors.vocabulary import function

if TYPE_CHECKING:
    from graphls.tensors.tensor import Tensor

Binary = Callable[[Any, Any], "Tensor"]


def _unary(name: str) -> Callable[[Any], Tensor]:
    def method(self: Tensor) -> Tensor:
        result: Tensor = function(name)(self)
        return result

    return method


def _binary(name: str, swap: bool = False) -> Binary:
    def method(self: Tensor, other: Any) -> Any:
        if not isinstance(other, (Operators, int, float, np.ndarray, np.generic)):
            return NotImplemented
        return function(name)(other, self) if swap else function(name)(self, other)

    return method


def _both(name: str) -> tuple[Binary, Binary]:
    """An operator with the tensor on its left, and with it on its right."""
    return _binary(name), _binary(name, swap=True)


class Operators:
    """What makes an object a tensor in Python's formulas."""

    __slots__ = ()

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("sub")
    __mul__, __rmul__ = _both("mul")
    __truediv__, __rtruediv__ = _both("div")
    __floordiv__, __rfloordiv__ = _both("floor_div")
    __mod__, __rmod__ = _both("mod")
    __pow__, __rpow__ = _both("pow")
    __matmul__, __rmatmul__ = _both("matmul")
    __and__, __rand__ = _both("bitwise_and")
    __or__, __ror__ = _both("bitwise_or")
    __xor__, __rxor__ = _both("bitwise_xor")
    __lshift__, __rlshift__ = _both("bitwise_left_shift")
    __rshift__, __rrshift__ = _both("bitwise_right_shift")
    __eq__ = _binary("equal")  # type: ignore[assignment]
    __ne__ = _binary("not_equal")  # type: ignore[assignment]
    __lt__, __le__ = _binary("less"), _binary("less_equal")
    __gt__, __ge__ = _binary("greater"), _binary("greater_equal")
    __neg__, __pos__, __abs__ = _unary("neg"), _unary("positive"), _unary("abs")
    __invert__ = _unary("logical_not")
