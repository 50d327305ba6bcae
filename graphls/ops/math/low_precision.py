"""Low dtypes: rounding to them at random, and two numbers of float4 in a byte."""

from __future__ import annotations

from typing import Any

from graphls.base.checks import integer
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import as_dtype, float4_e2m1fn
from graphls.ops.math.elementwise import floor
from graphls.ops.operands import apply, float_of, tensor_of
from graphls.ops.randomness.random import standard_uniform
from graphls.ops.record import operation

BITS = 16
"""The random bits of a stochastic rounding."""


@operation(method=False)
def round_stochastically(x: TensorLike, dtype: Any = float4_e2m1fn, seed: int | None = None) -> Tensor:
    """x in a low dtype, up or down at random: each neighbour the more often the nearer it is, so that the mean is x.

    Numbers beyond the range become its ends. In a compiled step the random numbers are those of `set_seed`, the step
    and the call site, as for all random tensors. No gradient passes. Raises GraphTypeError for dtypes that are not low,
    and for float8_e8m0fnu.
    """
    x = float_of(x)
    parts = floor(standard_uniform(x.shape, seed) * 2.0**BITS)
    return apply("round_stochastically", x, parts * 2.0**-BITS + (0.5**BITS - 1) / 2, dtype=as_dtype(dtype))


@operation(method=False)
def pack_float4(x: TensorLike) -> Tensor:
    """Pairs of float4_e2m1fn along the last axis as uint8, the first in the lower half, as in ONNX and safetensors.

    The last element of an odd number has 0 beside it. Raises GraphTypeError for other dtypes, and for no axis.
    """
    return apply("pack", tensor_of(x))


@operation(method=False, checks={"size": integer})
def unpack_float4(x: TensorLike, *, size: int | None = None) -> Tensor:
    """The float4_e2m1fn in bytes of `pack_float4` along the last axis: two for each, or `size`, which may be one less.

    Raises GraphTypeError for other dtypes than uint8, GraphValueError for another size.
    """
    packed = tensor_of(x)
    count = 2 * packed.shape[-1] if packed.ndim else 0
    return apply("unpack", packed, size=count if size is None else size)
