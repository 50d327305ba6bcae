"""Layers with a weight: linear and bilinear, and convolutions and dense layers with what often follows them."""

from __future__ import annotations

import math
from typing import Any

from graphls import ops
from graphls.initializer import Uniform, initializer
from graphls.ir.types import float32
from graphls.nn.activations import get_activation
from graphls.nn.activations_hard import LeakyReLU
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, positive_int
from graphls.nn.layers import Dense, new_bias, new_weight
from graphls.nn.layers_convolution import Conv2d
from graphls.nn.layers_norm import BatchNorm1d, BatchNorm2d
from graphls.ops.operands import apply, operand_of
from graphls.tensors.dispatch import promoted
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = ["BiDense", "Conv2dBnAct", "DenseBnAct", "Linear"]


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

    def construct(self, x: Any) -> Tensor:
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
        bias_init: Any = None,
        has_bias: bool = True,
        dtype: Any = float32,
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

    def construct(self, input1: Any, input2: Any) -> Tensor:
        return ops.bidense(input1, input2, self.weight, self.bias)

    def extend_repr(self) -> str:
        return (
            f"in1_channels={self.in1_channels}, in2_channels={self.in2_channels}, out_channels={self.out_channels}, "
            f"has_bias={self.has_bias}"
        )


def _activation(activation: Any, alpha: float) -> Cell | None:
    return LeakyReLU(alpha) if activation == "leakyrelu" else get_activation(activation)


class Conv2dBnAct(Cell):
    """`Conv2d`, with `has_bn` then `BatchNorm2d`, with an `activation` then that: a name, or a cell.

    `alpha` is the slope of the activation "leakyrelu"; `after_fake` is taken for MindSpore's sake and not used. Raises
    as these cells do.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        pad_mode: str = "same",
        padding: Any = 0,
        dilation: Any = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Any = "normal",
        bias_init: Any = "zeros",
        has_bn: bool = False,
        momentum: float = 0.997,
        eps: float = 1e-5,
        activation: Any = None,
        alpha: float = 0.2,
        after_fake: bool = True,
    ) -> None:
        super().__init__()
        self.conv = Conv2d(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
            bias_init,
        )  # fmt: skip
        self.has_bn = boolean("Conv2dBnAct", "has_bn", has_bn)
        if has_bn:
            self.batchnorm = BatchNorm2d(out_channels, eps, momentum)
        self.activation = _activation(activation, alpha)

    def construct(self, x: Any) -> Any:
        y = self.conv(x)
        y = self.batchnorm(y) if self.has_bn else y
        return y if self.activation is None else self.activation(y)


class DenseBnAct(Cell):
    """`Dense`, with `has_bn` then `BatchNorm1d`, with an `activation` then that; see `Conv2dBnAct`."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Any = "normal",
        bias_init: Any = "zeros",
        has_bias: bool = True,
        has_bn: bool = False,
        momentum: float = 0.9,
        eps: float = 1e-5,
        activation: Any = None,
        alpha: float = 0.2,
        after_fake: bool = True,
    ) -> None:
        super().__init__()
        self.dense = Dense(in_channels, out_channels, weight_init, bias_init, has_bias)
        self.has_bn = boolean("DenseBnAct", "has_bn", has_bn)
        if has_bn:
            self.batchnorm = BatchNorm1d(out_channels, eps, momentum)
        self.activation = _activation(activation, alpha)

    def construct(self, x: Any) -> Any:
        y = self.dense(x)
        y = self.batchnorm(y) if self.has_bn else y
        return y if self.activation is None else self.activation(y)
