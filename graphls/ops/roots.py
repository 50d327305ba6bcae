"""Roots that have a gradient everywhere."""

from __future__ import annotations

import math

from graphls.ops.elementwise import pow, sqrt
from graphls.ops.logic import equal, where
from graphls.tensors.tensor import Tensor


def root(x: Tensor, order: float = 2) -> Tensor:
    """x ** (1 / order), whose gradient at 0 is 0 where the slope would be infinite.

    Its second derivatives there are 0, too, because no infinity is multiplied by 0 anywhere.
    """
    is_zero = equal(x, 0.0)
    safe = where(is_zero, 1.0, x)
    found = sqrt(safe) if order == 2 else pow(safe, 1 / order)
    return where(is_zero, 0.0 if order > 0 else math.inf, found)
