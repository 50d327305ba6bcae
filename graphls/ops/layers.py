"""Layers as functions: products with weights, embeddings, gates, channels in another order."""

from __future__ import annotations

from typing import Any

from graphls.ir.checks import integer, positive
from graphls.ir.errors import GraphIndexError, GraphTypeError, GraphValueError
from graphls.ir.types import float32
from graphls.ops.convolution import conv_transpose3d
from graphls.ops.creation import zeros
from graphls.ops.elementwise import add, cast, div, mul, sub
from graphls.ops.logic import equal, greater, isfinite, less, logical_and, where
from graphls.ops.network import matmul, silu
from graphls.ops.norms import vector_norm
from graphls.ops.operands import apply, axis_of, float_of, floats, in_single, operand_of, tensor_of
from graphls.ops.record import operation
from graphls.ops.reductions import sum
from graphls.ops.scattering import index_add
from graphls.ops.shapes import cut, expand_dims, gather, gather_elements, reshape, transpose
from graphls.ops.state import assign, stop_gradient
from graphls.tensors import dispatch
from graphls.tensors.parameter import Parameter
from graphls.tensors.tensor import Tensor


@operation(classes="Dense")
def dense(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """x @ weight.T + bias: (..., in) and (out, in) to (..., out), or (..., in) and (in,) to (...).

    Raises GraphValueError for sizes that do not fit.
    """
    x, weights = dispatch.promoted(operand_of(input), operand_of(weight))
    if weights.ndim not in (1, 2) or not x.ndim or x.shape[-1] != weights.shape[-1]:
        raise GraphValueError(f"dense cannot apply a weight {weights.type} to {x.type}.")
    if weights.ndim == 1 or x.ndim == 1:
        y = matmul(x, weights if weights.ndim == 1 else transpose(weights))
    else:
        y = apply("matmul", x, weights, transpose_b=True)
    return _with_bias("dense", y, bias, weights.shape[:-1])


@operation
def bidense(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """x1 @ weight[o] @ x2 + bias[o] for each o: (..., n), (..., m) and (out, n, m) to (..., out).

    Raises GraphValueError for sizes that do not fit.
    """
    x1, x2, weights = dispatch.promoted(*map(operand_of, (input1, input2, weight)))
    fits = x1.ndim and x2.ndim and x1.shape[:-1] == x2.shape[:-1]
    if not fits or weights.shape[1:] != (x1.shape[-1], x2.shape[-1]):
        message = f"bidense cannot apply a weight {weights.type} to {x1.type} and {x2.type}."
        raise GraphValueError(message)
    count, n, m = weights.shape
    first = matmul(reshape(x1, (-1, n)), reshape(transpose(weights, (1, 0, 2)), (n, count * m)))
    both = matmul(reshape(first, (-1, count, m)), reshape(x2, (-1, m, 1)))
    return _with_bias("bidense", reshape(both, (*x1.shape[:-1], count)), bias, (count,))


def _with_bias(name: str, y: Tensor, bias: Any, shape: tuple[int, ...]) -> Tensor:
    if bias is None:
        return y
    shift = tensor_of(bias)
    if shift.shape not in (shape, ()):
        raise GraphValueError(f"The bias of {name} has the shape {shape} here, not {shift.shape}.")
    return add(y, shift)


@operation
def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
) -> Tensor:
    """The rows of a matrix (rows, size) that integers name: (...) to (..., size).

    The row `padding_idx` gets no gradient. With `max_norm`, rows that are named and have a norm of the order
    `norm_type` above it are scaled down to it first; a parameter is written. `scale_grad_by_freq` divides the gradient
    of a row by how often it is named. Raises GraphTypeError for indices that are no integers, GraphValueError for a
    weight of other axes, GraphIndexError for a `padding_idx` out of range.
    """
    ids, table = tensor_of(input), tensor_of(weight)
    if ids.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"embedding takes integers, not {ids.type}.")
    if table.ndim != 2:
        raise GraphValueError(f"embedding takes a matrix as weight, not {table.type}.")
    if max_norm is not None:
        table = _limited(weight, table, ids, positive("embedding", "max_norm", max_norm), norm_type)
    rows = gather(table, ids)
    if scale_grad_by_freq:
        rows = _with_gradient_over(rows, gather(_counts(ids, table.shape[0], table), ids))
    if padding_idx is None:
        return rows
    is_padding = equal(ids, _row(padding_idx, table.shape[0]))
    return where(expand_dims(is_padding, -1), stop_gradient(rows), rows)


def _row(padding_idx: Any, count: int) -> int:
    row = integer("embedding", "padding_idx", padding_idx)
    if not -count <= row < count:
        raise GraphIndexError(f"The 'padding_idx' {row} is out of range for {count} rows.")
    return row % count


def _counts(ids: Tensor, rows: int, like: Tensor) -> Tensor:
    """How often each row is named."""
    flat = reshape(ids, (-1,))
    return index_add(zeros(rows), flat, zeros(flat.shape) + 1, 0) if flat.size else zeros(rows)


def _limited(weight: Any, table: Tensor, ids: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The matrix with rows scaled down, through which the gradient goes as it is."""
    norms = vector_norm(cast(table, float32) if table.dtype.is_half else table, norm_type, 1, keepdims=True)
    is_named = greater(expand_dims(_counts(ids, table.shape[0], table), 1), 0.0)
    factor = where(logical_and(is_named, greater(norms, max_norm)), div(max_norm, add(norms, 1e-7)), 1.0)
    scaled = stop_gradient(cast(mul(table, factor), table.dtype))
    if isinstance(weight, Parameter):
        assign(weight, scaled)
    return add(scaled, sub(table, stop_gradient(table)))


def _with_gradient_over(rows: Tensor, counts: Tensor) -> Tensor:
    """The rows, whose gradient is divided by counts."""
    held = stop_gradient(rows)
    share = cast(expand_dims(div(1.0, counts), -1), rows.dtype)
    return add(held, mul(sub(rows, held), share))


@operation
def swiglu(input: Any, dim: int = -1) -> Tensor:
    """silu(a) * b, for both halves a and b of x along an axis; raises GraphValueError for an odd size."""
    x = float_of(input)
    at = axis_of(dim, x.ndim)
    size = x.shape[at]
    if size % 2:
        raise GraphValueError(f"swiglu cannot halve the axis {dim} of {x.type}.")
    return in_single(lambda x: mul(silu(cut(x, at, 0, size // 2)), cut(x, at, size // 2, size)), x)


@operation(classes="InTopK", settings="k")
def intopk(x1: Any, x2: Any, k: int) -> Tensor:
    """Whether fewer than k scores (N, C) of a row are above that of its label (N,), which is finite.

    Raises GraphTypeError for labels that are no integers, GraphValueError for other shapes.
    """
    (scores,), labels = floats(x1), tensor_of(x2)
    if labels.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"intopk takes integers as labels, not {labels.type}.")
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        message = f"intopk takes scores (N, C) and labels (N,), not {scores.type} and {labels.type}."
        raise GraphValueError(message)
    own = gather_elements(scores, 1, expand_dims(labels, 1))
    above = sum(greater(scores, own), 1)
    return logical_and(less(above, integer("intopk", "k", k)), isfinite(reshape(own, (-1,))))


@operation
def channel_shuffle(x: Any, groups: int) -> Tensor:
    """The channels of (..., C, H, W) in another order: the first of each group, the second of each, and so on.

    Raises GraphValueError where the channels do not make as many groups.
    """
    x, count = tensor_of(x), integer("channel_shuffle", "groups", groups)
    if x.ndim < 3 or count < 1 or x.shape[-3] % count:
        raise GraphValueError(f"channel_shuffle cannot make {count} groups of {x.type}.")
    *outer, channels, height, width = x.shape
    grouped = reshape(x, (*outer, count, channels // count, height * width))
    rank = len(outer)
    return reshape(transpose(grouped, (*range(rank), rank + 1, rank, rank + 2)), x.shape)


@operation
def conv3d_transpose(
    inputs: Any,
    weight: Any,
    pad_mode: str = "valid",
    padding: Any = 0,
    stride: Any = 1,
    dilation: Any = 1,
    group: int = 1,
    output_padding: Any = 0,
) -> Tensor:
    """The transposed convolution of (N, C, D, H, W) with kernels (C, O / group, ...); see `conv_transpose3d`."""
    return conv_transpose3d(inputs, weight, None, stride, padding, output_padding, group, dilation, pad_mode=pad_mode)
