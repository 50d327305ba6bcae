"""The range of one float value, and how numbers and scales are written."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.ir.types import Type

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Range:
    """The numbers of infinite and nan elements of a float tensor, and its least and greatest finite element.

    `least` and `greatest` are None where no element is finite, or the tensor was not computed (`was_made` is False).

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import ops
        >>> step = graphls.compile(lambda x: ops.log(x) + 1, np.ones(3, np.float32))
        >>> found = step.explain_overflow(np.float32([1, 0, -1])).first.range
        >>> found.infinite, found.nan, found.greatest
        (1, 1, 0.0)
    """

    type: Type
    infinite: int
    nan: int
    least: float | None
    greatest: float | None
    was_made: bool = True

    @classmethod
    def of(cls, type: Type, array: Array, was_made: bool = True) -> Range:
        """The range of an array; an empty one where it was not computed."""
        if not was_made:
            return cls(type, 0, 0, None, None, False)
        if type.dtype.is_half:
            array = array.astype(np.float32)
        finite = np.isfinite(array)
        nan = int(np.isnan(array).sum())
        infinite = array.size - int(finite.sum()) - nan
        if infinite + nan == array.size:
            return cls(type, infinite, nan, None, None)
        least, greatest = (f(array, where=finite, initial=i) for f, i in ((np.min, np.inf), (np.max, -np.inf)))
        return cls(type, infinite, nan, float(least), float(greatest))

    @property
    def not_finite(self) -> int:
        """The number of elements that are infinite or nan."""
        return self.infinite + self.nan

    @property
    def largest(self) -> float | None:
        """The largest finite magnitude."""
        if self.least is None or self.greatest is None:
            return None
        return max(abs(self.least), abs(self.greatest))

    def __str__(self) -> str:
        if not self.was_made:
            return "not made"
        if self.largest is None:
            numbers = "no element is finite"
        else:
            numbers = f"{number(self.least)} to {number(self.greatest)}, at most {number(self.largest)} in magnitude"
        return f"{numbers}; {self.count()}"

    def count(self) -> str:
        """The elements that are not finite, in words."""
        if not self.not_finite:
            return "all finite"
        return f"{self.infinite} infinite and {self.nan} nan of {self.type.size}"


def number(value: float | None) -> str:
    """A number with four digits."""
    return "-" if value is None else f"{value:.4g}"


def power(scale: float | None) -> str:
    """A scale, as a power of two where it is one: `2^15`."""
    if scale is None or not math.isfinite(scale) or scale <= 0 or scale == 1:
        return "unknown" if scale is None else f"{scale:g}"
    mantissa, exponent = math.frexp(scale)
    return f"2^{exponent - 1}" if mantissa == 0.5 else f"{scale:g}"
