"""Which powers of two fit as a loss scale, found by running with them."""

from __future__ import annotations

import math
from collections.abc import Callable

LOWEST, HIGHEST = -60, 120
"""The exponents of the scales that are tried."""


def largest_fitting(fits: Callable[[float], bool], scale: float, highest: int | None = None) -> float | None:
    """The largest factor of `scale` that makes it a power of two, at most 2^highest, with which it fits.

    Every power of two below one that fits is taken to fit. None where 2^LOWEST does not fit, or the scale is no
    positive number.
    """
    if not (math.isfinite(scale) and scale > 0):
        return None
    low, high = LOWEST, HIGHEST if highest is None else highest
    if not fits(2.0**low / scale):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(2.0**middle / scale) else (low, middle - 1)
    return 2.0**low / scale
