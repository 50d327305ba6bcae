"""Layers without a kernel that slides: dense, flatten, dropout, identity."""

from __future__ import annotations

import math
from typing import Any

from graphls import ops
from graphls.initializer import HeUniform, Uniform, fans, initializer
from graphls.ir.errors import GraphValueError
from graphls.ir.types import float32
from graphls.nn.activations import get_activation
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, positive_int
from graphls.ops.operands import apply, axis_of, operand_of, shape_of, tensor_of
from graphls.ops.random import check_probability
from graphls.tensors.dispatch import promoted
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor

__all__ = ["Dense", "Dropout", "Flatten", "Identity", "Unflatten"]


def new_weight(init: Any, shape: tuple[int, ...], name: str = "weight", dtype: Any = float32) -> Parameter:
    """A weight; without an initializer evenly spread up to 1 / sqrt(fan in)."""
    return Parameter(initializer(HeUniform(math.sqrt(5)) if init is None else init, shape, dtype), name=name)


def new_bias(
    init: Any, weight_shape: tuple[int, ...], name: str = "bias", size: int | None = None, dtype: Any = float32
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
        activation: Any = None,
        dtype: Any = float32,
    ) -> None:
        super().__init__()
        self.in_channels = positive_int("Dense", "in_channels", in_channels)
        self.out_channels = positive_int("Dense", "out_channels", out_channels)
        self.has_bias = boolean("Dense", "has_bias", has_bias)
        shape = (self.out_channels, self.in_channels)
        self.weight = new_weight(weight_init, shape, dtype=dtype)
        self.bias = new_bias(bias_init, shape, dtype=dtype) if has_bias else None
        self.activation = get_activation(activation)

    def construct(self, x: Any) -> Tensor:
        x, weight = promoted(operand_of(x), operand_of(self.weight))
        y = apply("matmul", x, weight, transpose_b=True)
        y = y if self.bias is None else ops.add(y, self.bias)
        return y if self.activation is None else self.activation(y)

    def extend_repr(self) -> str:
        return f"input_channels={self.in_channels}, output_channels={self.out_channels}, has_bias={self.has_bias}"


class Flatten(Cell):
    """The axes from `start_dim` to `end_dim` as one: without arguments, all after the first."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def construct(self, x: Any) -> Tensor:
        return ops.flatten(x, start_dim=self.start_dim, end_dim=self.end_dim)


class Unflatten(Cell):
    """One axis as several, of sizes that multiply to its own; one of them may be -1."""

    def __init__(self, axis: int, unflattened_size: Any) -> None:
        super().__init__()
        self.axis, self.unflattened_size = axis, shape_of(unflattened_size)

    def construct(self, x: Any) -> Tensor:
        x = tensor_of(x)
        at = axis_of(self.axis, x.ndim)
        known = math.prod(n for n in self.unflattened_size if n != -1)
        sizes = tuple(x.shape[at] // max(known, 1) if n == -1 else n for n in self.unflattened_size)
        if math.prod(sizes) != x.shape[at] or min(sizes, default=0) < 0:
            raise GraphValueError(
                f"Unflatten cannot give an axis of size {x.shape[at]} the sizes {self.unflattened_size}.",
            )
        return ops.reshape(x, (*x.shape[:at], *sizes, *x.shape[at + 1 :]))

    def extend_repr(self) -> str:
        return f"axis={self.axis}, unflattened_size={self.unflattened_size}"


class Identity(Cell):
    """What is given, as it is."""

    def construct(self, x: Any) -> Any:
        return x


class Dropout(Cell):
    """In training, elements set to 0 with probability `p` and the others divided by 1 - p; else x itself.

    `keep_prob`, the older argument, is 1 - p, and `dtype` changes nothing. Raises GraphTypeError for what is no number,
    GraphValueError unless some elements are kept.
    """

    def __init__(self, keep_prob: float = 0.5, p: float | None = None, dtype: Any = float32) -> None:
        super().__init__()
        if p is None:
            check_probability("Dropout", keep_prob)
            p = 1.0 - keep_prob
        check_probability("Dropout", p)
        if p == 1:
            raise GraphValueError("For 'Dropout', the 'p' must be in [0, 1), but got 1.")
        self.p = float(p)

    def construct(self, x: Any) -> Any:
        return ops.dropout(x, self.p) if self.training and self.p > 0 else x

    def extend_repr(self) -> str:
        return f"p={self.p}"
