"""Normalisations by statistics of the batch, of each sample, of groups and of the last axes; dropout."""

from __future__ import annotations

from math import prod

from graphls import ops
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import float32
from graphls.onnx.interpreter import Running
from graphls.onnx.table import operator
from graphls.onnx.values import Input, Ints, OptionalInput, array_of, is_known
from graphls.ops.math.transcendental import root
from graphls.ops.network.normalization import normalised_from
from graphls.ops.operands import axis_of, state_of, tensor_of


def _wide(x: Input) -> Tensor:
    """In float32 where the input has 16 bits; a parameter in its own dtype, whatever the cell computes in."""
    x = state_of(x) if isinstance(x, Parameter) else tensor_of(x)
    return ops.cast(x, float32) if x.dtype.is_half else x


@operator("BatchNormalization", untrained=(3, 4), untrained_role="running statistics")
def batch_normalization(
    node: Running, x: Input, scale: Input, bias: Input, mean: Input, variance: Input, *, epsilon: float = 1e-5,
    momentum: float = 0.9, spatial: int = 1, training_mode: int = 0, consumed_inputs: Ints | None = None,
    is_test: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """In training, statistics of the batch; running statistics are updated with its population variance, as in ONNX.

    In a module of PyTorch the attribute says which operators do so, and the variance is that of the sample.

    Until version 8 they may be those of each element of a sample (`spatial=0`), rather than of each channel.
    """
    x = tensor_of(x)
    shape = (1, -1, *[1] * (x.ndim - 2)) if x.ndim > 1 else (-1,)
    shape = shape if spatial else (1, *x.shape[1:])
    wide = _wide(x)
    running: tuple[Tensor, ...] = (_wide(mean), _wide(variance))
    used: tuple[Tensor, ...] = running
    if node.training and (training_mode or not node.is_exact):
        axes = tuple(i for i in range(x.ndim) if i != 1) if spatial else (0,)
        used = _statistics(wide, axes)
        count = prod(x.shape[i] for i in axes)
        batch = (used[0], used[1] * (count / max(count - 1, 1))) if node.is_exact else used
        running = tuple(r * momentum + b * (1 - momentum) for r, b in zip(running, batch, strict=True))
        for state, value in zip((mean, variance), running, strict=True):
            if isinstance(state, Parameter):
                ops.assign(state, ops.stop_gradient(value))
    centre, spread = (ops.reshape(s, shape) for s in used)
    y = (wide - centre) * ops.rsqrt(spread + epsilon)
    y = y * ops.reshape(_wide(scale), shape) + ops.reshape(_wide(bias), shape)
    return ops.cast(y, x.dtype), *running


def _statistics(x: Tensor, axes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The mean and the population variance along axes."""
    mean = ops.mean(x, axes, True)
    variance = ops.mean(ops.square(x - mean), axes)
    return ops.reshape(mean, variance.shape), variance


@operator("InstanceNormalization")
def instance_normalization(
    x: Input, scale: Input, bias: Input, *, epsilon: float = 1e-5, consumed_inputs: Ints | None = None
) -> Tensor:
    x = tensor_of(x)
    shape = (1, -1, *[1] * (x.ndim - 2))
    y = normalised_from(x, 2, None, None, epsilon)
    return ops.cast(_wide(y) * ops.reshape(_wide(scale), shape) + ops.reshape(_wide(bias), shape), x.dtype)


@operator("GroupNormalization")
def group_normalization(
    node: Running, x: Input, scale: Input, bias: Input, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    """Scale and bias are one number for each group in version 18, and for each channel from 21 on."""
    x = tensor_of(x)
    grouped = ops.reshape(x, (x.shape[0], num_groups, prod(x.shape[1:]) // num_groups))
    y = ops.reshape(_wide(normalised_from(grouped, 2, None, None, epsilon)), x.shape)
    shape = (1, -1, *[1] * (x.ndim - 2))
    weights = [_wide(scale), _wide(bias)]
    if node.version < 21:
        each = x.shape[1] // num_groups
        weights = [ops.repeat_interleave(w, each, 0) for w in weights]
    return ops.cast(y * ops.reshape(weights[0], shape) + ops.reshape(weights[1], shape), x.dtype)


@operator("LayerNormalization")
def layer_normalization(
    x: Input, scale: Input, bias: OptionalInput = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[Tensor, Tensor, Tensor]:
    x = tensor_of(x)
    wide = _wide(x)
    axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
    mean = ops.mean(wide, axes, True)
    centred = wide - mean
    inverse = ops.rsqrt(ops.mean(ops.square(centred), axes, True) + epsilon)
    y = centred * inverse * _wide(scale)
    return ops.cast(y if bias is None else y + _wide(bias), x.dtype), mean, inverse


@operator("RMSNormalization")
def rms_normalization(x: Input, scale: Input, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Tensor:
    x = tensor_of(x)
    wide, axes = _wide(x), tuple(range(axis_of(axis, x.ndim), x.ndim))
    y = wide * ops.rsqrt(ops.mean(ops.square(wide), axes, True) + epsilon)
    return ops.cast(y * _wide(scale), x.dtype)


@operator("MeanVarianceNormalization")
def mean_variance_normalization(x: Input, *, axes: Ints = (0, 2, 3)) -> Tensor:
    x = tensor_of(x)
    wide = _wide(x)
    centred = wide - ops.mean(wide, tuple(axes), True)
    return ops.cast(centred / (root(ops.mean(ops.square(centred), tuple(axes), True)) + 1e-9), x.dtype)


@operator("LpNormalization")
def lp_normalization(x: Input, *, axis: int = -1, p: int = 2) -> Tensor:
    x = tensor_of(x)
    norm = ops.sum(ops.abs(x), axis, True) if p == 1 else root(ops.sum(ops.square(x), axis, True))
    is_zero = ops.equal(norm, 0)
    return ops.where(is_zero, ops.zeros_like(x), x / ops.where(is_zero, ops.ones_like(norm), norm))


@operator("LRN")
def lrn(x: Input, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    x = tensor_of(x)
    before, behind = (size - 1) // 2, size // 2
    squares = ops.reshape(ops.square(_wide(x)), (x.shape[0], 1, x.shape[1], -1))
    before, behind = (min(n, x.shape[1]) for n in (before, behind))  # a window may be wider than all channels
    squares = ops.pad(squares, (0, 0, before, behind))
    shifted = (squares[:, :, i : i + x.shape[1]] for i in range(1, before + behind + 1))
    total = sum(shifted, squares[:, :, : x.shape[1]])
    root = ops.pow(ops.reshape(total, x.shape) * (alpha / size) + bias, beta)
    return ops.cast(_wide(x) / root, x.dtype)


Masked = tuple[Tensor, Tensor | None]
"""The result of dropout and its mask, None where nothing reads the mask."""


@operator("Dropout")
def dropout_of(
    node: Running, x: Input, *, ratio: float = 0.5, is_test: int = 0, consumed_inputs: Ints | None = None
) -> Masked:
    return _dropped(node, x, ratio)


@operator("Dropout", since=12)
def dropout(
    node: Running, x: Input, ratio: OptionalInput = None, training_mode: OptionalInput = None, *,
    seed: int | None = None,
) -> Masked:  # fmt: skip
    share = 0.5 if ratio is None or not is_known(ratio) else float(array_of(ratio).reshape(()))
    return _dropped(node, x, share)


def _dropped(node: Running, x: Input, ratio: float) -> Masked:
    """x after dropout, and the mask of the elements that are not dropped; in evaluation x itself."""
    x = tensor_of(x)
    if not node.training or not ratio:
        return x, ops.ones(x.shape, bool) if node.is_used(1) else None
    if not node.is_used(1):
        return ops.dropout(x, ratio), None
    mask = ops.not_equal(ops.dropout(ops.ones_like(x), ratio), 0)
    return ops.where(mask, x / (1 - ratio), ops.zeros_like(x)), mask
