"""Layers with a weight: dense, linear and bilinear."""

from __future__ import annotations

import math
from typing import Any

from graphls import ops
from graphls.initializer import HeUniform, Uniform, fans, initializer
from graphls.ir.checks import boolean, positive_int
from graphls.ir.types import DTypeLike, float32
from graphls.nn.activations import get_activation
from graphls.nn.cell import Cell
from graphls.ops.operands import apply, operand_of
from graphls.tensors.dispatch import promoted
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor, TensorLike

__all__ = ["BiDense", "Dense", "Linear"]


def new_weight(init: TensorLike, shape: tuple[int, ...], name: str = "weight", dtype: DTypeLike = float32) -> Parameter:
    """A weight; without an initializer evenly spread up to 1 / sqrt(fan in)."""
    return Parameter(initializer(HeUniform(math.sqrt(5)) if init is None else init, shape, dtype), name=name)


def new_bias(
    init: TensorLike | None,
    weight_shape: tuple[int, ...],
    name: str = "bias",
    size: int | None = None,
    dtype: DTypeLike = float32,
) -> Parameter:
    """A bias for a weight of that shape; without an initializer evenly spread up to 1 / sqrt(fan in).

    It has a number for each slice of the weight along the first axis unless a `size` is given.
    """
    default = Uniform(1 / math.sqrt(max(1, fans(weight_shape)[0])))
    shape = weight_shape[:1] if size is None else (size,)
    return Parameter(initializer(default if init is None else init, shape, dtype), name=name)


class Dense(Cell):
    """x @ weight.T + bias, then an activation: (..., in_channels) to (..., out_channels).

    `weight` has shape (out_channels, in_channels) and the `dtype`, as `bias` has. Without `weight_init` and `bias_init`
    both are spread evenly up to 1 / sqrt(in_channels). Raises GraphTypeError and GraphValueError for arguments that do
    not fit.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Any = None,
        bias_init: Any = None,
        has_bias: bool = True,
        activation: TensorLike | None = None,
        dtype: DTypeLike = float32,
    ) -> None:
        super().__init__()
        self.in_channels = positive_int("Dense", "in_channels", in_channels)
        self.out_channels = positive_int("Dense", "out_channels", out_channels)
        self.has_bias = boolean("Dense", "has_bias", has_bias)
        shape = (self.out_channels, self.in_channels)
        self.weight = new_weight(weight_init, shape, dtype=dtype)
        self.bias = new_bias(bias_init, shape, dtype=dtype) if has_bias else None
        self.activation = get_activation(activation)

    def construct(self, x: TensorLike) -> Tensor:
        x, weight = promoted(operand_of(x), operand_of(self.weight))
        y = apply("matmul", x, weight, transpose_b=True)
        y = y if self.bias is None else ops.add(y, self.bias)
        return y if self.activation is None else self.activation(y)

    def extend_repr(self) -> str:
        return f"input_channels={self.in_channels}, output_channels={self.out_channels}, has_bias={self.has_bias}"


class Linear(Cell):
    """x @ weight.T + bias: (..., in_features) to (..., out_features).

    `weight` has the shape (out_features, in_features). Without `weight_init` and `bias_init` both are spread evenly up
    to 1 / sqrt(in_features). Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        weight_init: Any = None,
        bias_init: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = positive_int("Linear", "in_features", in_features)
        self.out_features = positive_int("Linear", "out_features", out_features)
        self.has_bias, shape = boolean("Linear", "bias", bias), (out_features, in_features)
        self.weight = new_weight(weight_init, shape, dtype=dtype or float32)
        self.bias = new_bias(bias_init, shape, dtype=dtype or float32) if bias else None

    def construct(self, x: TensorLike) -> Tensor:
        x, weight = promoted(operand_of(x), operand_of(self.weight))
        y = apply("matmul", x, weight, transpose_b=True)
        return y if self.bias is None else ops.add(y, self.bias)

    def extend_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.has_bias}"


class BiDense(Cell):
    """x @ weight[k] @ y + bias[k] for each k: (..., in1_channels) and (..., in2_channels) to (..., out_channels).

    `weight` has the shape (out_channels, in1_channels, in2_channels). Without `weight_init` and `bias_init` both are
    spread evenly up to 1 / sqrt(in1_channels). Raises GraphTypeError and GraphValueError for arguments and inputs that
    do not fit.
    """

    def __init__(
        self,
        in1_channels: int,
        in2_channels: int,
        out_channels: int,
        weight_init: Any = None,
        bias_init: object = None,
        has_bias: bool = True,
        dtype: DTypeLike = float32,
    ) -> None:
        super().__init__()
        names = ("out_channels", "in1_channels", "in2_channels")
        sizes = zip(names, (out_channels, in1_channels, in2_channels), strict=True)
        shape = tuple(positive_int("BiDense", name, size) for name, size in sizes)
        self.out_channels, self.in1_channels, self.in2_channels = shape
        self.has_bias = boolean("BiDense", "has_bias", has_bias)
        spread = Uniform(1 / math.sqrt(in1_channels))
        weight = initializer(spread if weight_init is None else weight_init, shape, dtype)
        self.weight = Parameter(weight, name="weight")
        self.bias = None
        if has_bias:
            bias = initializer(spread if bias_init is None else bias_init, shape[:1], dtype)
            self.bias = Parameter(bias, name="bias")

    def construct(self, input1: TensorLike, input2: TensorLike) -> Tensor:
        return ops.bidense(input1, input2, self.weight, self.bias)

    def extend_repr(self) -> str:
        return (
            f"in1_channels={self.in1_channels}, in2_channels={self.in2_channels}, out_channels={self.out_channels}, "
            f"has_bias={self.has_bias}"
        )
