"""Layers as functions: dense layers, embeddings, gates, recurrent layers, parts of transformers."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

from graphls.base.checks import integer, optional, positive, positive_int
from graphls.base.errors import GraphIndexError, GraphTypeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import bfloat16, float32
from graphls.ops.arrays.creation import zeros
from graphls.ops.arrays.scattering import index_add
from graphls.ops.arrays.shapes import (
    concat,
    cut,
    expand_dims,
    gather,
    gather_elements,
    reshape,
    split,
    stack,
    swapaxes,
    transpose,
)
from graphls.ops.control_flow import scan
from graphls.ops.linear_algebra.norms import vector_norm
from graphls.ops.math.elementwise import (
    add,
    cast,
    isfinite,
    mul,
    rsqrt,
    square,
    sub,
    tanh,
    where,
)
from graphls.ops.math.reductions import mean, sum
from graphls.ops.network.convolution import conv_transpose3d
from graphls.ops.network.network import dropout as dropped
from graphls.ops.network.network import matmul, sigmoid, silu
from graphls.ops.network.normalization import in_own_dtype, rms_norm
from graphls.ops.operands import (
    ShapeLike,
    Sizes,
    apply,
    axis_of,
    float_of,
    floats,
    in_single,
    operand_of,
    single_session,
    tensor_of,
    weight_of,
)
from graphls.ops.record import cell, operation, operator_class
from graphls.ops.state import assign, stop_gradient


@operation(classes="Dense")
def dense(input: TensorLike, weight: TensorLike, bias: TensorLike | None = None) -> Tensor:
    """x @ weight.T + bias: (..., in) and (out, in) to (..., out), or (..., in) and (in,) to (...).

    Raises GraphValueError for sizes that do not fit.
    """
    x, weights = dispatch.promoted(operand_of(input), weight_of(weight))
    if weights.ndim not in (1, 2) or not x.ndim or x.shape[-1] != weights.shape[-1]:
        raise GraphValueError(f"dense cannot apply a weight {weights.type} to {x.type}.")
    biases = _bias_of("dense", bias, weights.shape[:-1])
    if weights.ndim == 2 and x.ndim > 1:
        return linear(x, weights, *biases)
    return reduce(add, biases, matmul(x, weights if weights.ndim == 1 else transpose(weights)))


@single_session
def linear(x: TensorLike, weight: TensorLike, *biases: TensorLike) -> Tensor:
    """x @ weight.T plus biases; bfloat16 is rounded once, after the sum, as kernels do."""
    x, weight = dispatch.promoted(operand_of(x), weight_of(weight))
    shifts = [operand_of(bias) for bias in biases]
    computed = dispatch.cast_operands("matmul_add", x, *shifts)
    if shifts and all(t.dtype is bfloat16 and t.ndim for t in computed):
        return apply("matmul_add", x, weight, reduce(add, shifts), transpose_b=True)
    return reduce(add, shifts, apply("matmul", x, weight, transpose_b=True))


@operation
def bidense(input1: object, input2: object, weight: Tensor, bias: TensorLike | None = None) -> Tensor:
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
    return reduce(add, _bias_of("bidense", bias, (count,)), reshape(both, (*x1.shape[:-1], count)))


def _bias_of(name: str, bias: TensorLike | None, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    """The bias, if any; raises GraphValueError for another shape."""
    if bias is None:
        return ()
    shift = tensor_of(bias)
    if shift.shape not in (shape, ()):
        raise GraphValueError(f"The bias of {name} has the shape {shape} here, not {shift.shape}.")
    return (shift,)


@operation(checks={"max_norm": optional(positive), "padding_idx": optional(integer)})
def embedding(
    input: TensorLike, weight: TensorLike, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False,
) -> Tensor:  # fmt: skip
    """The rows of a matrix (rows, size) at integer indices: (...) to (..., size).

    The row `padding_idx` gets no gradient. With `max_norm`, used rows with a norm of order `norm_type` above it are
    scaled down to it first; a parameter is written in place. `scale_grad_by_freq` divides the gradient of a row by its
    number of uses. Raises GraphTypeError for indices that are not integers, GraphValueError for a weight of other axes,
    GraphIndexError for a `padding_idx` out of range.
    """
    ids, table = tensor_of(input), tensor_of(weight)
    if ids.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"embedding takes integers, not {ids.type}.")
    if table.ndim != 2:
        raise GraphValueError(f"embedding takes a matrix as weight, not {table.type}.")
    if max_norm is not None:
        table = _renormalized(weight, table, ids, max_norm, norm_type)
    rows = gather(table, ids)
    if scale_grad_by_freq:
        rows = _with_gradient_over(rows, gather(_counts(ids, table.shape[0], table), ids))
    if padding_idx is None:
        return rows
    is_padding = ids == _row(padding_idx, table.shape[0])
    return where(expand_dims(is_padding, -1), stop_gradient(rows), rows)


def _row(row: int, count: int) -> int:
    if not -count <= row < count:
        raise GraphIndexError(f"The 'padding_idx' {row} is out of range for {count} rows.")
    return row % count


def _counts(ids: Tensor, rows: int, like: Tensor) -> Tensor:
    """The number of uses of each row."""
    flat = reshape(ids, (-1,))
    return index_add(zeros(rows), flat, zeros(flat.shape) + 1, 0) if flat.size else zeros(rows)


def _renormalized(weight: TensorLike, table: Tensor, ids: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """The matrix with rows scaled down; the gradient passes straight through."""
    norms = vector_norm(cast(table, float32) if table.dtype.is_half else table, norm_type, 1, keepdims=True)
    is_used = expand_dims(_counts(ids, table.shape[0], table), 1) > 0.0
    factor = where(is_used & (norms > max_norm), max_norm / (norms + 1e-7), 1.0)
    scaled = stop_gradient(cast(table * factor, table.dtype))
    if isinstance(weight, Parameter):
        assign(weight, scaled)
    return add(scaled, sub(table, stop_gradient(table)))


def _with_gradient_over(rows: Tensor, counts: Tensor) -> Tensor:
    """The rows, with their gradient divided by counts."""
    constant = stop_gradient(rows)
    share = cast(expand_dims(1.0 / counts, -1), rows.dtype)
    return add(constant, sub(rows, constant) * share)


@operation
def swiglu(input: TensorLike, dim: int = -1) -> Tensor:
    """silu(a) * b, for both halves a and b of x along an axis; raises GraphValueError for an odd size."""
    x = float_of(input)
    at = axis_of(dim, x.ndim)
    size = x.shape[at]
    if size % 2:
        raise GraphValueError(f"swiglu cannot halve the axis {dim} of {x.type}.")
    return in_single(lambda x: silu(cut(x, at, 0, size // 2)) * cut(x, at, size // 2, size), x)


@operation(classes="InTopK", settings="k", checks={"k": integer})
def intopk(x1: TensorLike, x2: TensorLike, k: int) -> Tensor:
    """True where the score (N, C) of the label (N,) is finite and among the k largest of its row.

    Raises GraphTypeError for labels that are not integers, GraphValueError for other shapes.
    """
    (scores,), labels = floats(x1), tensor_of(x2)
    if labels.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"intopk takes integers as labels, not {labels.type}.")
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        message = f"intopk takes scores (N, C) and labels (N,), not {scores.type} and {labels.type}."
        raise GraphValueError(message)
    own = gather_elements(scores, 1, expand_dims(labels, 1))
    above = sum(scores > own, 1)
    return (above < k) & isfinite(reshape(own, (-1,)))


@cell("ChannelShuffle", "groups", checks={"groups": positive_int}, shown="groups")
@operation(checks={"groups": integer})
def channel_shuffle(x: TensorLike, groups: int) -> Tensor:
    """Shuffles the channels of (..., C, H, W): the first of each group, then the second of each, and so on.

    Raises GraphValueError where the channels do not divide into that many groups.
    """
    x, count = tensor_of(x), groups
    if x.ndim < 3 or count < 1 or x.shape[-3] % count:
        raise GraphValueError(f"channel_shuffle cannot make {count} groups of {x.type}.")
    *outer, channels, height, width = x.shape
    grouped = reshape(x, (*outer, count, channels // count, height * width))
    rank = len(outer)
    return reshape(transpose(grouped, (*range(rank), rank + 1, rank, rank + 2)), x.shape)


@operation
def conv3d_transpose(
    inputs: TensorLike, weight: TensorLike, pad_mode: str = "valid", padding: Sizes | str = 0, stride: ShapeLike = 1,
    dilation: ShapeLike = 1, group: int = 1, output_padding: ShapeLike = 0,
) -> Tensor:  # fmt: skip
    """The transposed convolution of (N, C, D, H, W) with kernels (C, O / group, ...); see `conv_transpose3d`."""
    return conv_transpose3d(inputs, weight, None, stride, padding, output_padding, group, dilation, pad_mode=pad_mode)


@operator_class("ChannelShuffle", "group", like=channel_shuffle)
def _shuffled(x: TensorLike, group: int) -> Tensor:
    return channel_shuffle(x, group)


@operator_class("EmbeddingLookup")
def embedding_lookup(input_params: TensorLike, input_indices: TensorLike, offset: int) -> Tensor:
    """The slices along the first axis at indices minus `offset`, or zeros out of range.

    Raises GraphTypeError for indices that are not integers.
    """
    table, indices = tensor_of(input_params), tensor_of(input_indices)
    if indices.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"EmbeddingLookup takes integers, not {indices.type}.")
    positions = indices - offset
    inside = (positions >= 0) & (positions < table.shape[0])
    slices = gather(table, where(inside, positions, 0), 0)
    rows = reshape(inside, (*inside.shape, *(1 for _ in table.shape[1:])))
    return where(rows, slices, zeros((), table.dtype))


@operation(checks={"epsilon": positive})
def add_rms_norm(
    x1: TensorLike, x2: TensorLike, gamma: TensorLike, epsilon: float = 1e-6
) -> tuple[Tensor, Tensor, Tensor]:
    """`rms_norm` of x1 + x2, 1 / its root, and x1 + x2; raises GraphValueError where shapes differ."""
    x = _total("add_rms_norm", x1, x2)
    return *rms_norm(x, gamma, epsilon), x


@operation(checks={"epsilon": positive})
def add_layer_norm(
    x1: Any, x2: Any, gamma: Any, beta: Any, epsilon: float = 1e-5, additional_output: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last axis of x = x1 + x2.

    Also returns the mean and 1 / that root, float32 for 16-bit floats, which have no gradient, and x, whatever
    `additional_output` is. Raises GraphValueError where shapes differ.
    """
    x, scale, shift = _total("add_layer_norm", x1, x2), in_own_dtype(gamma), in_own_dtype(beta)
    if not x.ndim or {scale.shape, shift.shape} != {x.shape[-1:]}:
        message = f"add_layer_norm takes gamma and beta of the last axis of {x.type}, not {scale.type}, {shift.type}."
        raise GraphValueError(message)
    wide = cast(x, float32) if x.dtype.is_half else x
    average = mean(wide, -1, keepdims=True)
    centred = wide - average
    inverse = rsqrt(mean(square(centred), -1, keepdims=True) + epsilon)
    y = centred * inverse * cast(scale, wide.dtype) + cast(shift, wide.dtype)
    return cast(y, x.dtype), stop_gradient(average), stop_gradient(inverse), x


def _total(name: str, x1: TensorLike, x2: TensorLike) -> Tensor:
    first, second = floats(x1, x2)
    if first.shape != second.shape:
        raise GraphValueError(f"{name} adds tensors of one shape, not {first.type}, {second.type}.")
    return first + second


@operation
def rotary_position_embedding(x: TensorLike, cos: TensorLike, sin: TensorLike, mode: int = 0) -> Tensor:
    """x * cos + r * sin, where r is x rotated by 90 degrees along its last axis.

    In the mode 0, r is (-second half, first half); in the mode 1, each pair (a, b) of neighbours becomes (-b, a). `cos`
    and `sin` broadcast to x. From Su et al. (2021). Raises GraphValueError for another mode, an odd last axis and
    shapes that do not fit.
    """
    x, cos, sin = floats(x, cos, sin)
    if mode not in (0, 1) or not x.ndim or x.shape[-1] % 2:
        message = f"rotary_position_embedding takes an even last axis and the mode 0 or 1, not {x.type} and {mode!r}."
        raise GraphValueError(message)
    y = in_single(lambda x, c, s: mul(x, c) + mul(_rotated(x, mode), s), x, cos, sin)
    if y.shape != x.shape:
        message = f"The shapes of cos {cos.type} and sin {sin.type} do not broadcast to {x.type}."
        raise GraphValueError(message)
    return y


def _rotated(x: Tensor, mode: int) -> Tensor:
    axis, size = x.ndim - 1, x.shape[-1]
    if mode == 0:
        return concat((-cut(x, axis, size // 2, size), cut(x, axis, 0, size // 2)), axis)
    pairs = reshape(x, (*x.shape[:-1], size // 2, 2))
    first, second = (reshape(cut(pairs, axis + 1, i, i + 1), (*x.shape[:-1], size // 2)) for i in range(2))
    return reshape(stack((-second, first), -1), x.shape)


Layer = tuple[Tensor, Tensor, list[Tensor]]
"""Weights of the input and of the hidden state, and biases."""


def rounded_once(step: Callable[..., tuple[Tensor, ...]], *operands: Tensor) -> tuple[Tensor, ...]:
    """The results of elementwise functions; 16-bit floats are computed in float32 and rounded once, as by a kernel."""
    low = operands[0].dtype
    if not (low.is_half and all(operand.dtype is low for operand in operands)):
        return step(*operands)
    return tuple(cast(result, low) for result in step(*(cast(operand, float32) for operand in operands)))


def lstm_step(total: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """The next hidden and cell states from input, forget, cell and output gates (Hochreiter and Schmidhuber, 1997)."""
    i, f, g, o = split(total, total.shape[-1] // 4, axis=-1)
    after = sigmoid(f) * cell + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(after), after


def lstm(
    input: TensorLike, h: TensorLike, c: TensorLike, w: TensorLike, hidden_size: int, num_layers: int,
    bidirectional: bool, dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The hidden states at all times, and the last hidden and cell states, of stacked LSTM layers.

    The input is (T, N, input size), both states (directions * layers, N, hidden size). `w` has, for each layer and
    direction, the weights of the input, (4 * hidden, inputs), and of the state, and after all of them the biases, if
    any: one for each, or two. `dropout` acts between layers. Raises GraphValueError where sizes do not fit.
    """
    x, directions = float_of(input), 2 if bidirectional else 1
    hidden, cell = tensor_of(h), tensor_of(c)
    count = directions * num_layers
    if x.ndim != 3 or not hidden.shape == cell.shape == (count, x.shape[1], hidden_size):
        message = f"LSTM of {x.type} takes {count} states of {hidden_size} numbers, not {hidden.type}, {cell.type}."
        raise GraphValueError(message)
    layers = _layers(reshape(tensor_of(w), (-1,)), x.shape[2], hidden_size, num_layers, directions)
    states: list[tuple[Tensor, Tensor]] = []
    for layer in range(num_layers):
        x = dropped(x, dropout) if layer and dropout else x
        outputs = []
        for direction in range(directions):
            index = layer * directions + direction
            state, output = _one_direction(x, hidden[index], cell[index], next(layers), bool(direction))
            states.append(state)
            outputs.append(output)
        x = concat(outputs, -1)
    return x, stack([state[0] for state in states]), stack([state[1] for state in states])


def _layers(flat: Tensor, inputs: int, hidden: int, num_layers: int, directions: int) -> Iterator[Layer]:
    sizes = [inputs if layer == 0 else hidden * directions for layer in range(num_layers) for _ in range(directions)]
    rows, total = 4 * hidden, builtins.sum(4 * hidden * (size + hidden) for size in sizes)
    biases = (flat.size - total) / (rows * len(sizes))
    if biases not in (0, 1, 2):
        message = f"LSTM takes {total} weights and one bias or two of {rows} for each layer, not {flat.type}."
        raise GraphValueError(message)
    at, bias_at = 0, total
    for size in sizes:
        middle, end = at + rows * size, at + rows * (size + hidden)
        pair = reshape(cut(flat, 0, at, middle), (rows, size)), reshape(cut(flat, 0, middle, end), (rows, hidden))
        yield *pair, [cut(flat, 0, bias_at + i * rows, bias_at + (i + 1) * rows) for i in range(int(biases))]
        at, bias_at = end, bias_at + int(biases) * rows


def _one_direction(x: Tensor, h: Tensor, c: Tensor, layer: Layer, reverse: bool) -> Any:
    first, second, biases = layer
    projected = matmul(x, swapaxes(first, 0, 1))
    for bias in biases:
        projected = projected + bias
    recurrent = swapaxes(second, 0, 1)

    def step(state: tuple[Tensor, ...], part: Tensor) -> tuple[tuple[Tensor, ...], Tensor]:
        product = matmul(state[0], recurrent)
        after = rounded_once(lambda g, r, old: lstm_step(add(g, r), old), part, product, state[1])
        return after, after[0]

    return scan(step, (h, c), projected, reverse=reverse)


def _lstm(
    input: TensorLike, h: TensorLike, c: TensorLike, w: TensorLike, input_size: int, hidden_size: int, num_layers: int,
    has_bias: bool, bidirectional: bool, dropout: float, proj_size: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    if proj_size:
        raise GraphValueError(refusal("projections", f"proj_size={proj_size!r}"))
    results = lstm(input, h, c, w, hidden_size, num_layers, bool(bidirectional), dropout)
    reserved = zeros((1, 1), results[0].dtype)
    return (*results, reserved, reserved)


_lstm.__doc__ = f"{lstm.__doc__}\n\nThe last two results are empty, as gradients need no reserved memory."
operator_class("LSTM", "input_size hidden_size num_layers has_bias bidirectional dropout proj_size")(_lstm)
