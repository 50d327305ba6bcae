"""What transformers are made of: sums that are normalised, and positions by rotation."""

from __future__ import annotations

from typing import Any

from graphls.ir.checks import positive
from graphls.ir.errors import GraphValueError
from graphls.ir.types import float32
from graphls.ops.elementwise import add, cast, mul, neg, rsqrt, square, sub
from graphls.ops.normalization import kept, rms_norm
from graphls.ops.operands import floats, in_single
from graphls.ops.record import operation
from graphls.ops.reductions import mean
from graphls.ops.shapes import concat, cut, reshape, stack
from graphls.tensors.tensor import Tensor


@operation
def add_rms_norm(x1: Any, x2: Any, gamma: Any, epsilon: float = 1e-6) -> tuple[Tensor, Tensor, Tensor]:
    """`rms_norm` of x1 + x2, 1 / its root, and x1 + x2; raises GraphValueError where shapes differ."""
    x = _total("add_rms_norm", x1, x2)
    return *rms_norm(x, gamma, positive("add_rms_norm", "epsilon", epsilon)), x


@operation
def add_layer_norm(
    x1: Any, x2: Any, gamma: Any, beta: Any, epsilon: float = 1e-5, additional_output: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last axis of x = x1 + x2.

    Also the mean and 1 / that root, float32 for 16-bit floats, and x, whether `additional_output` asks for it or not.
    Raises GraphValueError where shapes differ.
    """
    x, scale, shift = _total("add_layer_norm", x1, x2), kept(gamma), kept(beta)
    if not x.ndim or {scale.shape, shift.shape} != {x.shape[-1:]}:
        message = f"add_layer_norm takes gamma and beta of the last axis of {x.type}, not {scale.type}, {shift.type}."
        raise GraphValueError(message)
    wide = cast(x, float32) if x.dtype.is_half else x
    average = mean(wide, -1, keepdims=True)
    centred = sub(wide, average)
    inverse = rsqrt(add(mean(square(centred), -1, keepdims=True), positive("add_layer_norm", "epsilon", epsilon)))
    y = add(mul(mul(centred, inverse), cast(scale, wide.dtype)), cast(shift, wide.dtype))
    return cast(y, x.dtype), average, inverse, x


def _total(name: str, x1: Any, x2: Any) -> Tensor:
    first, second = floats(x1, x2)
    if first.shape != second.shape:
        raise GraphValueError(f"{name} adds tensors of one shape, not {first.type}, {second.type}.")
    return add(first, second)


@operation
def rotary_position_embedding(x: Any, cos: Any, sin: Any, mode: int = 0) -> Tensor:
    """x * cos + r * sin, where r is x turned by a right angle along its last axis.

    In the mode 0, r is (-second half, first half); in the mode 1, each pair (a, b) of neighbours becomes (-b, a). `cos`
    and `sin` broadcast to x. From Su et al. (2021). Raises GraphValueError for another mode, an odd last axis and
    shapes that do not fit.
    """
    x, cos, sin = floats(x, cos, sin)
    if mode not in (0, 1) or not x.ndim or x.shape[-1] % 2:
        message = f"rotary_position_embedding takes an even last axis and the mode 0 or 1, not {x.type} and {mode!r}."
        raise GraphValueError(message)
    y = in_single(lambda x, c, s: add(mul(x, c), mul(_turned(x, mode), s)), x, cos, sin)
    if y.shape != x.shape:
        message = f"The shapes of cos {cos.type} and sin {sin.type} do not broadcast to {x.type}."
        raise GraphValueError(message)
    return y


def _turned(x: Tensor, mode: int) -> Tensor:
    axis, size = x.ndim - 1, x.shape[-1]
    if mode == 0:
        return concat((neg(cut(x, axis, size // 2, size)), cut(x, axis, 0, size // 2)), axis)
    pairs = reshape(x, (*x.shape[:-1], size // 2, 2))
    first, second = (reshape(cut(pairs, axis + 1, i, i + 1), (*x.shape[:-1], size // 2)) for i in range(2))
    return reshape(stack((neg(second), first), -1), x.shape)
