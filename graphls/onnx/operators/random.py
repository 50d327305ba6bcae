"""Random tensors, drawn anew in every step from the seed of graphls."""

from __future__ import annotations

from onnx import helper

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import DTypeLike
from graphls.onnx.table import operator
from graphls.onnx.values import Input, Ints, OptionalInput
from graphls.ops.operands import tensor_of


def _dtype(number: int | None, like: OptionalInput = None) -> DTypeLike:
    if number is not None:
        return helper.tensor_dtype_to_np_dtype(number)
    return "float32" if like is None else tensor_of(like).dtype


@operator("RandomUniform")
def random_uniform(
    *, shape: Ints, low: float = 0.0, high: float = 1.0, dtype: int | None = 1, seed: float | None = None
) -> Tensor:
    return ops.cast(ops.rand(*shape) * (high - low) + low, _dtype(dtype))


@operator("RandomNormal")
def random_normal(
    *, shape: Ints, mean: float = 0.0, scale: float = 1.0, dtype: int | None = 1, seed: float | None = None
) -> Tensor:
    return ops.cast(ops.randn(*shape) * scale + mean, _dtype(dtype))


@operator("RandomUniformLike")
def random_uniform_like(
    x: Input, *, low: float = 0.0, high: float = 1.0, dtype: int | None = None, seed: float | None = None
) -> Tensor:
    return ops.cast(ops.rand(*tensor_of(x).shape) * (high - low) + low, _dtype(dtype, x))


@operator("RandomNormalLike")
def random_normal_like(
    x: Input, *, mean: float = 0.0, scale: float = 1.0, dtype: int | None = None, seed: float | None = None
) -> Tensor:
    return ops.cast(ops.randn(*tensor_of(x).shape) * scale + mean, _dtype(dtype, x))


@operator("Bernoulli")
def bernoulli(x: Input, *, dtype: int | None = None, seed: float | None = None) -> Tensor:
    x = tensor_of(x)
    return ops.cast(ops.less(ops.rand(*x.shape), x), _dtype(dtype, x))


@operator("Multinomial")
def multinomial(x: Input, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Tensor:
    """Classes drawn by logarithms of their probabilities: the largest after adding noise of Gumbel's distribution."""
    x = ops.expand_dims(ops.cast(x, "float32"), 1)
    drawn = ops.rand(x.shape[0], sample_size, x.shape[2])
    noise = ops.neg(ops.log(ops.neg(ops.log(ops.clip_by_value(drawn, 1e-30, 1 - 2**-24)))))
    return ops.cast(ops.argmax(x + noise, -1), _dtype(dtype))
