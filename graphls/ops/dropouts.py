"""Dropout of whole channels."""

from __future__ import annotations

from typing import Any

from graphls.ops.creation import ones
from graphls.ops.elementwise import mul
from graphls.ops.network import dropout
from graphls.ops.operands import float_of
from graphls.ops.windows import check_axes
from graphls.tensor import Tensor


def dropout1d(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """x, (N, C, L) or (C, L), with whole channels set to 0 with probability `p`, as in `dropout2d`."""
    return _of_channels("dropout1d", 1, input, p, training)


def dropout2d(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """x, (N, C, H, W) or (C, H, W), with whole channels set to 0 with probability `p`, and others divided by 1 - p.

    x itself unless `training`. Errors are those of `dropout`, and GraphValueError for an x of another rank.
    """
    return _of_channels("dropout2d", 2, input, p, training)


def dropout3d(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """x, (N, C, D, H, W) or (C, D, H, W), with whole channels set to 0 with probability `p`, as in `dropout2d`."""
    return _of_channels("dropout3d", 3, input, p, training)


def _of_channels(name: str, axes: int, x: Any, p: float, training: bool) -> Tensor:
    x = float_of(x)
    check_axes(name, x, axes, unbatched=True)
    if not training or p == 0:
        return dropout(x, p, training)
    shape = (*x.shape[: x.ndim - axes], *[1] * axes)
    return mul(x, dropout(ones(shape, x.dtype), p))
