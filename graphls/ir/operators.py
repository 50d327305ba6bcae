"""Operators of Python on values of graphs and on symbols of patterns: each applies a primitive."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any


class Operators:
    """A base class whose operators apply primitives by `_apply`, as operators of tensors do in a trace."""

    __slots__ = ()

    __array_ufunc__ = None
    """NumPy leaves an operator with one of its numbers to the methods below."""

    def _apply(self, primitive: str, *operands: Any) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._apply("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return self._apply("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return self._apply("sub", self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._apply("sub", other, self)

    def __mul__(self, other: Any) -> Any:
        return self._apply("mul", self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._apply("mul", other, self)

    def __truediv__(self, other: Any) -> Any:
        return self._apply("div", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._apply("div", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._apply("floor_div", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._apply("floor_div", other, self)

    def __mod__(self, other: Any) -> Any:
        return self._apply("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._apply("mod", other, self)

    def __matmul__(self, other: Any) -> Any:
        return self._apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return self._apply("matmul", other, self)

    def __pow__(self, other: Any) -> Any:
        is_square = isinstance(other, (int, float)) and other == 2
        return self._apply("square", self) if is_square else self._apply("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return self._apply("pow", other, self)

    def __neg__(self) -> Any:
        return self._apply("neg", self)

    def __abs__(self) -> Any:
        return self._apply("abs", self)

    def __lt__(self, other: Any) -> Any:
        return self._apply("less", self, other)

    def __le__(self, other: Any) -> Any:
        return self._apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return self._apply("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return self._apply("greater_equal", self, other)


current_builder: ContextVar[Any] = ContextVar("current_builder", default=None)
"""The Builder of the rule that runs, to which operators of values add nodes; None elsewhere."""
