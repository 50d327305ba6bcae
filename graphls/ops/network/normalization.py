"""Normalisation by mean and variance along axes or per channel: layer, group, batch and RMS norms, also over ranks.

All compute 16-bit floats in float32 and return the dtype of the input.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from graphls.base.checks import integer
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import float32
from graphls.ops.arrays.arrangement import movedim
from graphls.ops.arrays.creation import full
from graphls.ops.arrays.shapes import expand_dims, reshape, stack
from graphls.ops.collectives import all_gathered
from graphls.ops.math.elementwise import cast, maximum, rsqrt, square, sub
from graphls.ops.math.reductions import mean, sum
from graphls.ops.network.convolution import channels_first, to_format
from graphls.ops.operands import Sizes, apply, axis_of, float_of, shape_of, single_session, state_of, tensor_of
from graphls.ops.record import cell, operation, operator_class
from graphls.ops.state import assign, stop_gradient


@operation
@single_session
def layer_norm(
    input: TensorLike, normalized_shape: Sizes, weight: TensorLike | None = None, bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes, whose sizes are `normalized_shape`.

    Raises GraphValueError where the last sizes, or those of `weight` and `bias`, differ from it.
    """
    shape = shape_of(normalized_shape)
    x, weight, bias = dispatch.cast_operands("layer_norm", float_of(input), weight, bias)
    if not shape or x.shape[-len(shape) :] != shape:
        raise GraphValueError(f"layer_norm over the shape {shape} does not fit {x.type}.")
    _check_shape("layer_norm", shape, weight=weight, bias=bias)
    return normalised_from(x, -len(shape), weight, bias, eps)


@single_session
def normalised_from(x: Tensor, axis: int, weight: TensorLike | None, bias: TensorLike | None, eps: float) -> Tensor:
    """x normalised over `axis` and all later axes, then scaled and shifted by tensors that broadcast from the last."""
    wide = _wide(x)
    centred, variance = _centred(wide, tuple(range(axis % x.ndim, x.ndim)))
    y = centred * rsqrt(variance + eps)
    return cast(_affine(y, _as(weight, wide), _as(bias, wide)), x.dtype)


@operation(classes="RmsNorm", settings="epsilon")
@single_session
def rms_norm(x: TensorLike, gamma: TensorLike, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean of x ** 2 + epsilon) * gamma over the last axes, as many as gamma has, and 1 / that root.

    The root is float32 for 16-bit floats, and has no gradient. Raises GraphValueError unless the sizes of gamma are
    the last of x.
    """
    x, gamma = float_of(x), in_own_dtype(gamma)
    if not gamma.ndim or x.shape[-gamma.ndim :] != gamma.shape:
        raise GraphValueError(f"rms_norm with gamma {gamma.type} does not fit {x.type}.")
    wide = _wide(x)
    axes = tuple(range(x.ndim - gamma.ndim, x.ndim))
    inverse = rsqrt(mean(square(wide), axes, keepdims=True) + epsilon)
    return cast(wide * inverse * cast(gamma, wide.dtype), x.dtype), stop_gradient(inverse)


@operation(checks={"num_groups": integer})
@single_session
def group_norm(
    input: TensorLike, num_groups: int, weight: TensorLike | None = None, bias: TensorLike | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) over each group of channels of (N, C, ...), times `weight` plus `bias`.

    `weight` and `bias` have a number for each channel. Raises GraphTypeError and GraphValueError where the channels do
    not divide into that many groups.
    """
    x, weight, bias = dispatch.cast_operands("group_norm", float_of(input), weight, bias)
    if x.ndim < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise GraphValueError(f"group_norm cannot make {num_groups} groups of the channels of {x.type}.")  # fmt: skip
    _check_shape("group_norm", x.shape[1:2], weight=weight, bias=bias)
    wide = _wide(x)
    grouped = reshape(wide, (x.shape[0], num_groups, prod(x.shape[1:]) // num_groups))
    centred, variance = _centred(grouped, (2,))
    y = reshape(centred * rsqrt(variance + eps), x.shape)
    return cast(_affine(y, _column(weight, wide), _column(bias, wide)), x.dtype)


@operation
@single_session
def batch_norm(
    input_x: TensorLike, running_mean: TensorLike, running_var: TensorLike, weight: Any = None, bias: Any = None,
    training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias for each channel of (N, C, ...).

    In training, mean and variance are those of the batch, and running statistics that are parameters become
    (1 - momentum) * old + momentum * batch, with the unbiased variance; else the running ones are used. Raises
    GraphValueError unless there is one number for each channel.
    """

    def moments(wide: Tensor) -> tuple[Tensor, Tensor]:
        if training:
            return _by_batch(wide, running_mean, running_var, momentum)
        return wide - _per_channel(running_mean, wide), _per_channel(running_var, wide)

    return normalised_by_channel(input_x, running_mean, running_var, weight, bias, eps, moments)


def normalised_by_channel(
    input_x: TensorLike, running_mean: TensorLike, running_var: TensorLike, weight: Any, bias: Any, eps: float,
    moments: Callable[[Tensor], tuple[Tensor, Tensor]],
) -> Tensor:  # fmt: skip
    """centred / sqrt(variance + eps) * weight + bias, where `moments` returns the centred batch and its variance."""
    x, weight, bias = dispatch.cast_operands("batch_norm", float_of(input_x), weight, bias)
    if x.ndim < 2:
        raise GraphValueError(f"batch_norm takes a batch with channels, not {x.type}.")
    _check_shape("batch_norm", x.shape[1:2], running_mean=running_mean, running_var=running_var, weight=weight,
                 bias=bias)  # fmt: skip
    wide = _wide(x)
    centred, variance = moments(wide)
    scale = rsqrt(variance + eps)
    return cast(_affine(centred, _affine(scale, _column(weight, wide), None), _column(bias, wide)), x.dtype)


def _by_batch(x: Tensor, running_mean: TensorLike, running_var: TensorLike, momentum: float) -> tuple[Tensor, Tensor]:
    """The centred batch and its variance; updates the running statistics.

    The rounding error of the mean is subtracted as well: for a large constant feature it is all that is left, and
    larger than eps.
    """
    axes = batch_axes(x)
    average = mean(x, axes, keepdims=True)
    centred = x - average
    centred = sub(centred, stop_gradient(mean(centred, axes, keepdims=True)))
    variance = mean(square(centred), axes, keepdims=True)
    count = prod(x.shape[i] for i in axes)
    move(running_mean, average, momentum)
    move(running_var, variance * (count / max(1, count - 1)), momentum)
    return centred, variance


def batch_axes(x: Tensor) -> tuple[int, ...]:
    """The axes of (N, C, ...) except for that of channels."""
    return (0, *range(2, x.ndim))


def move(running: TensorLike, batch: Tensor, momentum: float) -> None:
    """Update a running statistic, if it is a parameter, to (1 - momentum) * old + momentum * batch."""
    if isinstance(running, Parameter):
        batch = reshape(stop_gradient(batch), running.shape)
        assign(running, state_of(running) * (1 - momentum) + batch * momentum)


def _wide(x: Tensor) -> Tensor:
    return cast(x, float32) if x.dtype.is_half else x


def _centred(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """x minus its mean along axes, and its variance along them."""
    centred = x - mean(x, axes, keepdims=True)
    return centred, mean(square(centred), axes, keepdims=True)


def _affine(x: Tensor, scale: Tensor | None, shift: Tensor | None) -> Tensor:
    x = x if scale is None else x * scale
    return x if shift is None else x + shift


def in_own_dtype(x: TensorLike) -> Tensor:
    """A tensor, or a parameter's value in its own dtype, whatever the `to_float` of the running cell."""
    return state_of(x) if isinstance(x, Parameter) else tensor_of(x)


def _as(x: TensorLike | None, like: Tensor) -> Tensor | None:
    return None if x is None else cast(in_own_dtype(x), like.dtype)


def _column(x: TensorLike, like: Tensor) -> Tensor | None:
    return None if x is None else _per_channel(x, like)


def _per_channel(x: TensorLike, like: Tensor) -> Tensor:
    """A number for each channel in a shape that broadcasts."""
    return reshape(cast(in_own_dtype(x), like.dtype), (1, like.shape[1], *[1] * (like.ndim - 2)))


def _check_shape(name: str, shape: tuple[int, ...], **operands: object) -> None:
    for key, operand in operands.items():
        if operand is not None and tensor_of(operand).shape != shape:
            raise GraphValueError(f"The {key!r} of {name} has the shape {shape}, not {tensor_of(operand).shape}.")


@cell("LRN", "depth_radius bias alpha beta norm_region", shown="depth_radius bias alpha beta")
@operation(classes="LRN", settings="depth_radius bias alpha beta norm_region", checks={"depth_radius": integer})
def lrn(
    x: TensorLike, depth_radius: int = 5, bias: float = 1.0, alpha: float = 1.0, beta: float = 0.5,
    norm_region: str = "ACROSS_CHANNELS",
) -> Tensor:  # fmt: skip
    """x / (bias + alpha * sum of x ** 2 over the channels up to `depth_radius` away) ** beta, for images (N, C, H, W).

    The local response normalisation of Krizhevsky et al. (2012). Raises GraphTypeError and GraphValueError for
    arguments that do not fit.
    """
    x = float_of(x)
    if x.ndim != 4 or depth_radius < 0 or norm_region != "ACROSS_CHANNELS":
        raise GraphValueError(
            f"lrn takes images of rank 4, a 'depth_radius' of 0 or more and the 'norm_region' 'ACROSS_CHANNELS', not "
            f"{x.type}, {depth_radius} and {norm_region!r}.",
        )
    wide, (batch, channels, height, width) = _wide(x), x.shape
    squares = reshape(square(wide), (batch, 1, channels, height * width))
    kernel, pads = (2 * depth_radius + 1, 1), (depth_radius, 0, depth_radius, 0)
    means = apply("avg_pool", squares, kernel=kernel, strides=(1, 1), pads=pads, count_include_pad=True)
    total = reshape(means, x.shape) * (alpha * kernel[0]) + bias
    return cast(wide / total**beta, x.dtype)


@operator_class("BatchNorm", "is_training epsilon momentum data_format")
def _batch_norm(
    input_x: TensorLike, scale: TensorLike, bias: TensorLike, mean: TensorLike, variance: TensorLike,
    is_training: bool = False, epsilon: float = 1e-5, momentum: float = 0.1, data_format: str = "NCHW",
) -> tuple[Tensor, ...]:  # fmt: skip
    """Batch normalisation, and twice the mean and variance that it used; see `ops.batch_norm`.

    In training they are those of the batch, with the biased variance, and parameters `mean` and `variance` are updated.
    """
    x = channels_first(input_x, data_format, 2)
    if is_training:
        wide = cast(x, float32) if x.dtype.is_half else x
        used = _moments(stop_gradient(wide))
    else:
        used = in_own_dtype(mean), in_own_dtype(variance)
    y = batch_norm(x, mean, variance, scale, bias, bool(is_training), momentum, epsilon)
    return (to_format(y, data_format, 2), *used, *used)


def _moments(x: Tensor) -> tuple[Tensor, Tensor]:
    rows = reshape(movedim(x, 1, 0), (x.shape[1], -1))
    average = mean(rows, 1, keepdims=True)
    return reshape(average, (-1,)), mean((rows - average) * (rows - average), 1)


@operator_class("LayerNorm", "begin_norm_axis begin_params_axis epsilon")
def _layer_norm(
    input_x: TensorLike, gamma: TensorLike, beta: TensorLike, begin_norm_axis: int = 1, begin_params_axis: int = 1,
    epsilon: float = 1e-7,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """x normalised over the axes from `begin_norm_axis`, times gamma plus beta; and the means and the variances.

    The last two have no gradient, as in MindSpore. Gamma and beta have the sizes of x from `begin_params_axis`. Raises
    GraphValueError for other sizes.
    """
    x = float_of(input_x)
    first, expected = axis_of(begin_norm_axis, x.ndim), x.shape[axis_of(begin_params_axis, x.ndim) :]
    gamma, beta = in_own_dtype(gamma), in_own_dtype(beta)
    if gamma.shape != expected or beta.shape != expected:
        text = f"LayerNorm of {x.type} takes gamma and beta of the shape {expected}"
        raise GraphValueError(f"{text}, not {gamma.type} and {beta.type}.")
    wide = cast(x, float32) if x.dtype.is_half else x
    axes = tuple(range(first, x.ndim))
    average = mean(wide, axes, keepdims=True)
    centred = wide - average
    variance = mean(centred * centred, axes, keepdims=True)
    normed = centred * rsqrt(variance + epsilon)
    y = normed * cast(gamma, wide.dtype) + cast(beta, wide.dtype)
    return cast(y, x.dtype), stop_gradient(average), stop_gradient(variance)


def batch_norm_over_ranks(
    x: TensorLike, running_mean: TensorLike, running_var: TensorLike, weight: Any, bias: Any, momentum: float,
    eps: float, group: str,
) -> Tensor:  # fmt: skip
    """`ops.batch_norm` in training, with the mean and variance of the joined batches of all ranks of a group.

    Ranks may have different numbers of rows. They communicate once in the forward and once in the backward.
    """

    def moments(wide: Tensor) -> tuple[Tensor, Tensor]:
        average, left, variance, count = _of_all(wide, group)
        move(running_mean, average + left, momentum)
        move(running_var, variance * (count / maximum(count - 1, 1)), momentum)
        column = (1, wide.shape[1], *[1] * (wide.ndim - 2))
        centred = wide - reshape(average, column) - reshape(left, column)
        return centred, reshape(variance, column)

    return normalised_by_channel(x, running_mean, running_var, weight, bias, eps, moments)


def _of_all(x: Tensor, group: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The mean, its rounding error, the variance and the number of elements of each channel over all ranks.

    The means of ranks and the sums of squares around them are combined by Chan, Golub and LeVeque's formula (Updating
    formulae and a pairwise algorithm for computing sample variances, 1979), without a difference of large squares. The
    rounding error of a mean has no gradient of its own; see `ops.batch_norm`.
    """
    means, lefts, squares, counts = _gathered(x, group)
    total = sum(counts, 0)
    shares = counts / total
    average = sum(shares * means, 0)
    apart = means - average + lefts
    left = stop_gradient(sum(shares * apart, 0))
    between = counts * square(sub(apart, left))
    return average, left, sum(squares + between, 0) / total, total


def _gathered(x: Tensor, group: str) -> list[Tensor]:
    """The mean, its rounding error, the squares around it and the number of elements, of each rank and channel."""
    axes, shape = batch_axes(x), (x.shape[1],)
    average = mean(x, axes, keepdims=True)
    centred = x - average
    left = stop_gradient(mean(centred, axes, keepdims=True))
    squares = sum(square(sub(centred, left)), axes)
    count = full(shape, prod(x.shape[i] for i in axes), dtype=x.dtype)
    own = stack([reshape(average, shape), reshape(left, shape), squares, count])
    rows = all_gathered(expand_dims(own, 0), group)
    return [rows[:, i] for i in range(4)]
