"""Operator classes of layers: normalisation, dropout, products with weights, embeddings (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.checks import number
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import bool_, float32
from graphls.ops import normalization, rearrangement, recurrence
from graphls.ops.creation import ones, zeros
from graphls.ops.elementwise import add, cast, mul, rsqrt, sub
from graphls.ops.logic import greater_equal, less, logical_and, where
from graphls.ops.movement import movedim
from graphls.ops.operands import axis_of, float_of, tensor_of
from graphls.ops.operations_convolution import as_given, channels_first
from graphls.ops.random import drawn
from graphls.ops.record import operator_class
from graphls.ops.reductions import mean
from graphls.ops.shapes import broadcast_to, gather, reshape
from graphls.ops.state import stop_gradient
from graphls.tensors.tensor import Tensor


@operator_class("BatchNorm", "is_training epsilon momentum data_format")
def _batch_norm(
    input_x: Any,
    scale: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    is_training: bool = False,
    epsilon: float = 1e-5,
    momentum: float = 0.1,
    data_format: str = "NCHW",
) -> tuple[Tensor, ...]:
    """Batch normalisation, and the mean and variance that were used, twice; see `ops.batch_norm`.

    In training they are those of the batch, the variance the biased one, and parameters `mean` and `variance` move.
    """
    x = channels_first(input_x, data_format, 2)
    if is_training:
        wide = cast(x, float32) if x.dtype.is_half else x
        used = _moments(stop_gradient(wide))
    else:
        used = normalization.kept(mean), normalization.kept(variance)
    y = normalization.batch_norm(x, mean, variance, scale, bias, bool(is_training), momentum, epsilon)
    return (as_given(y, data_format, 2), *used, *used)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    rows = reshape(movedim(x, 1, 0), (x.shape[1], -1))
    average = mean(rows, 1, keepdims=True)
    return reshape(average, (-1,)), mean(mul(sub(rows, average), sub(rows, average)), 1)


@operator_class("LayerNorm", "begin_norm_axis begin_params_axis epsilon")
def _layer_norm(
    input_x: Any,
    gamma: Any,
    beta: Any,
    begin_norm_axis: int = 1,
    begin_params_axis: int = 1,
    epsilon: float = 1e-7,
) -> tuple[Tensor, Tensor, Tensor]:
    """x normalised over the axes from `begin_norm_axis` on, times gamma plus beta; the means and the variances.

    Gamma and beta have the sizes of x from `begin_params_axis` on. Raises GraphValueError for other sizes.
    """
    x = float_of(input_x)
    first, wanted = axis_of(begin_norm_axis, x.ndim), x.shape[axis_of(begin_params_axis, x.ndim) :]
    gamma, beta = normalization.kept(gamma), normalization.kept(beta)
    if gamma.shape != wanted or beta.shape != wanted:
        message = f"LayerNorm of {x.type} takes gamma and beta of the shape {wanted}, not {gamma.type} and {beta.type}."
        raise GraphValueError(message)
    wide = cast(x, float32) if x.dtype.is_half else x
    axes = tuple(range(first, x.ndim))
    average = mean(wide, axes, keepdims=True)
    centred = sub(wide, average)
    variance = mean(mul(centred, centred), axes, keepdims=True)
    normed = mul(centred, rsqrt(add(variance, epsilon)))
    y = add(mul(normed, cast(gamma, wide.dtype)), cast(beta, wide.dtype))
    return cast(y, x.dtype), average, variance


def _kept_share(name: str, keep_prob: Any) -> float:
    return number(name, "keep_prob", keep_prob, 0, 1)


@operator_class("Dropout", "keep_prob Seed0 Seed1")
def _dropout(x: Any, keep_prob: float = 0.5, Seed0: int = 0, Seed1: int = 0) -> tuple[Tensor, Tensor]:
    """x with elements kept with the probability `keep_prob`, divided by it, and others set to 0; and ones for the kept.

    Raises GraphTypeError and GraphValueError for what is no probability.
    """
    x, kept = float_of(x), _kept_share("Dropout", keep_prob)
    if kept == 1:
        return x, ones(x.shape, x.dtype)
    mask = drawn("random_bernoulli", _seeds(Seed0, Seed1), shape=x.shape, probability=kept)
    return where(mask, mul(x, 1 / kept if kept else 0.0), 0.0), cast(mask, x.dtype)


def _seeds(first: int, second: int) -> int | None:
    return (first * 2**32 + second) or None


def _channel_dropout(name: str, axes: int) -> Callable[..., Any]:
    def dropped(x: Any, keep_prob: float = 0.5) -> tuple[Tensor, Tensor]:
        x, kept = float_of(x), _kept_share(name, keep_prob)
        if x.ndim != axes + 2:
            raise GraphValueError(f"{name} takes a tensor of {axes + 2} axes, not {x.type}.")
        if kept == 1:
            return x, ones(x.shape, bool_)
        mask = drawn("random_bernoulli", shape=(*x.shape[:2], *(1 for _ in range(axes))), probability=kept)
        return where(mask, mul(x, 1 / kept if kept else 0.0), 0.0), broadcast_to(mask, x.shape)

    dropped.__doc__ = "x with whole channels kept, divided by `keep_prob`, with that probability; and which are kept."
    return dropped


@operator_class("EmbeddingLookup")
def embedding_lookup(input_params: Any, input_indices: Any, offset: int) -> Tensor:
    """The slices along the first axis at integers less `offset`, zeros where there is none.

    Raises GraphTypeError for indices that are no integers.
    """
    table, indices = tensor_of(input_params), tensor_of(input_indices)
    if indices.dtype.kind not in ("int", "uint"):
        raise GraphTypeError(f"EmbeddingLookup takes integers, not {indices.type}.")
    places = sub(indices, offset)
    inside = logical_and(greater_equal(places, 0), less(places, table.shape[0]))
    found = gather(table, where(inside, places, 0), 0)
    rows = reshape(inside, (*inside.shape, *(1 for _ in table.shape[1:])))
    return where(rows, found, zeros((), table.dtype))


def _lstm(
    input: Any,
    h: Any,
    c: Any,
    w: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    has_bias: bool,
    bidirectional: bool,
    dropout: float,
    proj_size: int = 0,
) -> tuple[Tensor, ...]:
    if proj_size:
        raise GraphValueError(f"LSTM has no projection: 'proj_size' is 0, not {proj_size!r}.")
    found = recurrence.lstm(input, h, c, w, hidden_size, num_layers, bool(bidirectional), dropout)
    kept = zeros((1, 1), found[0].dtype)
    return (*found, kept, kept)


_lstm.__doc__ = f"{recurrence.lstm.__doc__}\n\nThe two results behind these hold nothing, as gradients need nothing."
operator_class("LSTM", "input_size hidden_size num_layers has_bias bidirectional dropout proj_size")(_lstm)


@operator_class("Padding", "pad_dim_size", like=rearrangement.padding)
def _padding(x: Any, pad_dim_size: int = 8) -> Tensor:
    return rearrangement.padding(x, pad_dim_size)


operator_class("Dropout2D", "keep_prob")(_channel_dropout("Dropout2D", 2))
operator_class("Dropout3D", "keep_prob")(_channel_dropout("Dropout3D", 3))
