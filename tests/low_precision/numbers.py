"""Numbers at which a rounding to eight bits or fewer may go wrong, and what `ml_dtypes` makes of them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from graphls.ir.types import LOW, DType, bfloat16, float4_e2m1fn, float8_e8m0fnu, float16

Array = np.ndarray[Any, Any]
IDS = [dtype.long_name for dtype in LOW]


def every(dtype: DType) -> Array:
    """All numbers of a dtype of 16 bits or fewer."""
    if dtype.itemsize == 1:
        return np.arange(16 if dtype is float4_e2m1fn else 256, dtype=np.uint8).view(dtype.numpy)
    assert dtype in (float16, bfloat16)
    return np.arange(2**16, dtype=np.uint16).view(dtype.numpy)


def around_roundings() -> Array:
    """Numbers of float32 of every exponent, and both signs, close to all that eight bits may round differently."""
    fine = np.arange(0, 2**23, 2**18, dtype=np.uint32)  # all numbers of 5 bits, and the middles between those of 4
    mantissas = np.unique((fine[:, None] + np.array([0, 1, 2, 2**17, 2**23 - 1, 2**23 - 2], np.uint32)) % 2**23)
    exponents = np.arange(256, dtype=np.uint32) << 23
    bits = (exponents[:, None] + mantissas).reshape(-1)
    return np.concatenate([bits, bits | np.uint32(2**31)]).astype(np.uint32).view(np.float32)


def expected(x: Array, dtype: DType, saturate: bool) -> Array:
    """The cast of `ml_dtypes`, after NumPy bounded the numbers where it saturates."""
    with np.errstate(all="ignore"):
        wide = x if not saturate and dtype is not float4_e2m1fn else x.astype(np.float32)
        if saturate:
            limits = ml_dtypes.finfo(dtype.numpy)
            low = limits.min if dtype is not float8_e8m0fnu else 0.0
            wide = np.clip(wide, wide.dtype.type(low), wide.dtype.type(limits.max))
            if dtype is float8_e8m0fnu:
                wide = np.where((wide == 0) & ~(x < 0), limits.smallest_normal, wide)
                wide = np.where(x < 0, np.nan, wide)
        if dtype is float4_e2m1fn:
            wide = np.where(np.isnan(wide), wide.dtype.type(np.nan), wide)
        return wide.astype(dtype.numpy)


def bits(x: Array) -> Array:
    """The bytes of an array of a low dtype."""
    return x.view(np.uint8)
