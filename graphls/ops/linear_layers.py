"""Functions of layers with weights, and of channels."""

from __future__ import annotations

from typing import Any

from graphls import dispatch
from graphls.ir.errors import GraphValueError
from graphls.ops.einstein import einsum
from graphls.ops.elementwise import add
from graphls.ops.network import matmul
from graphls.ops.operands import operand_of, tensor_of
from graphls.ops.settings import integer
from graphls.ops.shapes import reshape, swapaxes
from graphls.source import user_location
from graphls.tensor import Tensor

__all__ = ["bidense", "channel_shuffle", "dense"]


def dense(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """The matrix product of x, (..., in), with the transposed `weight`, (out, in), plus `bias`, (out,).

    A weight (in,) gives (...). Raises GraphValueError where sizes do not fit.
    """
    x, weight = dispatch.promoted(operand_of(input), operand_of(weight))
    if weight.ndim not in (1, 2) or not x.ndim or x.shape[-1] != weight.shape[-1]:
        raise GraphValueError(f"dense with a weight {weight.type} does not fit {x.type}.", user_location())
    y = matmul(x, weight if weight.ndim == 1 else swapaxes(weight, 0, 1))
    return _with_bias("dense", y, bias, weight.shape[:-1])


def bidense(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """The bilinear form of x, (..., in1), and y, (..., in2), with each matrix of `weight`, (out, in1, in2).

    Plus `bias`, (out,). Raises GraphValueError where sizes do not fit.
    """
    x, y, weight = dispatch.promoted(*map(operand_of, (input1, input2, weight)))
    fits = x.ndim and y.ndim and x.shape[:-1] == y.shape[:-1] and weight.shape[1:] == (x.shape[-1], y.shape[-1])
    if not fits or weight.ndim != 3:
        raise GraphValueError(
            f"bidense with a weight {weight.type} does not fit {x.type} and {y.type}.", user_location()
        )
    return _with_bias("bidense", einsum("...i,oij,...j->...o", x, weight, y), bias, weight.shape[:1])


def _with_bias(name: str, y: Tensor, bias: Any, shape: tuple[int, ...]) -> Tensor:
    if bias is None:
        return y
    if tensor_of(bias).shape != shape:
        message = f"The bias of {name} has the shape {shape}, not {tensor_of(bias).type}."
        raise GraphValueError(message, user_location())
    return add(y, bias)


def channel_shuffle(x: Any, groups: int) -> Tensor:
    """Channels of (N, C, ...), cut into groups, in the order of their places in the groups (Zhang et al., 2018).

    Raises GraphValueError for fewer axes than three and where the channels do not make as many groups.
    """
    images, count = tensor_of(x), integer("channel_shuffle", "groups", groups)
    if images.ndim < 3 or count < 1 or images.shape[1] % count:
        message = f"channel_shuffle cannot cut the channels of {images.type} into {count} groups."
        raise GraphValueError(message, user_location())
    n, channels, *sizes = images.shape
    grouped = reshape(images, (n, count, channels // count, *sizes))
    return reshape(swapaxes(grouped, 1, 2), images.shape)
