"""Layers without a kernel that slides: dense, flatten, dropout, identity."""

from __future__ import annotations

import math
from typing import Any

from graphls import ops
from graphls.dispatch import promoted
from graphls.initializer import HeUniform, Uniform, fans, initializer
from graphls.ir.errors import GraphValueError
from graphls.nn.activations import get_activation
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, positive_int
from graphls.ops.operands import apply, operand_of
from graphls.ops.random import check_probability
from graphls.parameter import Parameter
from graphls.source import user_location
from graphls.tensor import Tensor


def new_weight(init: Any, shape: tuple[int, ...], name: str = "weight") -> Parameter:
    """A weight; without an initializer evenly spread up to 1 / sqrt(fan in)."""
    return Parameter(initializer(HeUniform(math.sqrt(5)) if init is None else init, shape), name=name)


def new_bias(init: Any, weight_shape: tuple[int, ...], name: str = "bias") -> Parameter:
    """A bias for a weight of that shape; without an initializer evenly spread up to 1 / sqrt(fan in)."""
    default = Uniform(1 / math.sqrt(max(1, fans(weight_shape)[0])))
    return Parameter(initializer(default if init is None else init, weight_shape[:1]), name=name)


class Dense(Cell):
    """x @ weight.T + bias, then an activation: (..., in_channels) to (..., out_channels).

    `weight` has shape (out_channels, in_channels). Without `weight_init` and `bias_init` both are spread evenly up
    to 1 / sqrt(in_channels). Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        weight_init: Any = None,
        bias_init: Any = None,
        has_bias: bool = True,
        activation: Any = None,
    ) -> None:
        super().__init__()
        self.in_channels = positive_int("Dense", "in_channels", in_channels)
        self.out_channels = positive_int("Dense", "out_channels", out_channels)
        self.has_bias = boolean("Dense", "has_bias", has_bias)
        shape = (self.out_channels, self.in_channels)
        self.weight = new_weight(weight_init, shape)
        if has_bias:
            self.bias = new_bias(bias_init, shape)
        self.activation = get_activation(activation)

    def construct(self, x: Any) -> Tensor:
        x, weight = promoted(operand_of(x), operand_of(self.weight))
        y = apply("matmul", x, weight, transpose_b=True)
        y = ops.add(y, self.bias) if self.has_bias else y
        return y if self.activation is None else self.activation(y)

    def extend_repr(self) -> str:
        return f"input_channels={self.in_channels}, output_channels={self.out_channels}, has_bias={self.has_bias}"


class Flatten(Cell):
    """All axes after the first as one."""

    def construct(self, x: Any) -> Tensor:
        return ops.flatten(x)


class Identity(Cell):
    """What is given, as it is."""

    def construct(self, x: Any) -> Any:
        return x


class Dropout(Cell):
    """In training, elements set to 0 with probability `p` and the others divided by 1 - p; else x itself.

    `keep_prob`, the older argument, is 1 - p. Raises GraphTypeError for what is no number, GraphValueError unless
    some elements are kept.
    """

    def __init__(self, keep_prob: float = 0.5, p: float | None = None) -> None:
        super().__init__()
        if p is None:
            check_probability("Dropout", keep_prob)
            p = 1.0 - keep_prob
        check_probability("Dropout", p)
        if p == 1:
            raise GraphValueError("For 'Dropout', the 'p' must be in [0, 1), but got 1.", user_location())
        self.p = float(p)

    def construct(self, x: Any) -> Any:
        return ops.dropout(x, self.p) if self.training and self.p > 0 else x

    def extend_repr(self) -> str:
        return f"p={self.p}"
