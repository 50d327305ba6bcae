"""Operators of com.microsoft on floats beside those of BERT: normalisations, biases, gates, early forms of ONNX's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.ir.types import float32
from graphls.onnx.interpreter import Running
from graphls.onnx.operators.contrib import fast_gelu, fused_conv
from graphls.onnx.operators.conversion import range_of
from graphls.onnx.operators.indexing import gather_nd
from graphls.onnx.operators.normalization import dropout
from graphls.onnx.operators.products import ConvolutionAttributes
from graphls.onnx.operators.sampling import grid_sample
from graphls.onnx.operators.shapes import pad, trilu
from graphls.onnx.table import MICROSOFT, operator
from graphls.onnx.values import Floats, Input, OptionalInput, integers
from graphls.ops.operands import axis_of, tensor_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

operator("GatherND", domain=MICROSOFT)(gather_nd)
operator("GridSample", domain=MICROSOFT)(grid_sample)
operator("Inverse", domain=MICROSOFT)(ops.inverse)
operator("Pad", domain=MICROSOFT, known=(1,))(pad)
operator("Trilu", domain=MICROSOFT, known=(1,))(trilu)


@operator("ExpandDims", domain=MICROSOFT, known=(1,))
def expand_dims(x: Input, axis: Array) -> Tensor:
    return ops.expand_dims(x, integers(axis)[0])


@operator("Range", domain=MICROSOFT, known=(0, 1, 2))
def range_by(start: Array, limit: Array, delta: Array | None = None) -> Tensor:
    return range_of(start, limit, np.ones_like(start) if delta is None else delta)


@operator("UnfoldTensor", domain=MICROSOFT)
def unfold_tensor(x: Input, *, size: int, dim: int = -1, step: int = 1) -> Tensor:
    """All slices of some size along an axis, as a further axis at the end."""
    x = tensor_of(x)
    axis = axis_of(dim, x.ndim)
    places = np.arange(0, x.shape[axis] - size + 1, step)[:, None] + np.arange(size)
    return ops.movedim(ops.gather(x, Tensor(places), axis), axis + 1, -1)


@operator("CDist", domain=MICROSOFT)
def distances(a: Input, b: Input, *, metric: str = "sqeuclidean") -> Tensor:
    """The distances between all rows of two matrices."""
    a, b = tensor_of(a), tensor_of(b)
    squares = ops.sum(ops.square(ops.expand_dims(a, 1) - ops.expand_dims(b, 0)), -1)
    if metric not in ("euclidean", "sqeuclidean"):
        raise GraphValueError(f"the distance {metric!r} is not computed, only euclidean and sqeuclidean.")
    return ops.sqrt(squares) if metric == "euclidean" else squares


@operator("IsAllFinite", domain=MICROSOFT)
def is_all_finite(*operands: Input, isinf_only: int = 0, isnan_only: int = 0) -> Tensor:
    """True if no element of any tensor is infinite or nan, or only one of these."""
    kinds = [ops.isinf] * (not isnan_only) + [ops.isnan] * (not isinf_only)
    flags = [ops.any(kind(x)) for x in operands for kind in kinds]
    return ops.logical_not(ops.any(ops.stack(flags)))


@operator("BiasAdd", domain=MICROSOFT)
def bias_add(x: Input, bias: Input, skip: Input) -> Tensor:
    return ops.add(ops.add(x, bias), skip)


@operator("BiasSplitGelu", domain=MICROSOFT)
def bias_split_gelu(x: Input, bias: Input) -> Tensor:
    """One half of the sum times GELU of the other."""
    first, second = ops.split(ops.add(x, bias), tensor_of(bias).shape[0] // 2, -1)
    return first * ops.gelu(second)


@operator("BiasSoftmax", domain=MICROSOFT)
def bias_softmax(x: Input, bias: Input, *, is_inner_broadcast: int, axis: int = 1) -> Tensor:
    """Softmax over all axes from one on; a bias of fewer axes stands for the first of them, or for the last."""
    x, bias = tensor_of(x), tensor_of(bias)
    at = axis_of(axis, x.ndim)
    if is_inner_broadcast:
        lead = bias.ndim - (x.ndim - at)
        bias = ops.reshape(bias, (*bias.shape[:lead], *[1] * (x.ndim - bias.ndim), *bias.shape[lead:]))
    total = ops.add(x, bias)
    flat = ops.reshape(total, (*x.shape[:at], int(np.prod(x.shape[at:]))))
    return ops.reshape(ops.softmax(flat, -1), x.shape)


@operator("BiasDropout", domain=MICROSOFT)
def bias_dropout(
    node: Running, x: Input, bias: Input, residual: OptionalInput = None, ratio: OptionalInput = None,
    training_mode: OptionalInput = None, *, seed: int | None = None,
) -> tuple[Tensor, Tensor | None]:  # fmt: skip
    y, mask = dropout(node, ops.add(x, bias), ratio, training_mode, seed=seed)
    return y if residual is None else ops.add(y, residual), mask


@operator("GemmFastGelu", domain=MICROSOFT)
def gemm_fast_gelu(x: Input, w: Input, bias: OptionalInput = None) -> Tensor:
    return fast_gelu(ops.matmul(x, w), bias)


@operator("GroupNorm", domain=MICROSOFT)
def group_norm(
    x: Input, gamma: Input, beta: Input, *, activation: int, groups: int, channels_last: int = 1,
    epsilon: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalisation of groups of channels, with SiLU behind it for `activation=1`."""
    images = ops.movedim(x, -1, 1) if channels_last else tensor_of(x)
    wide = ops.cast(images, float32) if images.dtype.is_half else images
    grouped = ops.reshape(wide, (images.shape[0], groups, -1))
    centred = grouped - ops.mean(grouped, 2, True)
    normal = centred * ops.rsqrt(ops.mean(ops.square(centred), 2, True) + epsilon)
    column = (1, -1, *[1] * (images.ndim - 2))
    y = ops.reshape(normal, images.shape) * ops.reshape(gamma, column) + ops.reshape(beta, column)
    y = ops.cast(y * ops.sigmoid(y) if activation else y, images.dtype)
    return ops.movedim(y, 1, -1) if channels_last else y


@operator("SkipGroupNorm", domain=MICROSOFT)
def skip_group_norm(
    x: Input, gamma: Input, beta: Input, skip: Input, bias: OptionalInput = None, *, activation: int, groups: int,
    channels_last: int = 1, epsilon: float = 1e-5,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """GroupNorm of a sum; a skip connection may have one number for each sample and channel."""
    x, skip = tensor_of(x), tensor_of(skip)
    if skip.ndim == 2:
        ones = [1] * (x.ndim - 2)
        skip = ops.reshape(skip, (skip.shape[0], *ones, -1) if channels_last else (*skip.shape, *ones))
    total = ops.add(x, skip)
    if bias is not None:
        total = ops.add(total, bias if channels_last else ops.reshape(bias, (1, -1, *[1] * (x.ndim - 2))))
    y = group_norm(total, gamma, beta, activation=activation, groups=groups, channels_last=channels_last,
                   epsilon=epsilon)  # fmt: skip
    return y, total


def _root_mean_square(x: Tensor, epsilon: float) -> Tensor:
    """The last axis in float32, divided by the root of its mean square."""
    wide = ops.cast(x, float32) if x.dtype.is_half else x
    normal: Tensor = wide * ops.rsqrt(ops.mean(ops.square(wide), -1, True) + epsilon)
    return normal


@operator("GatedRMSNorm", domain=MICROSOFT)
def gated_rms_norm(x: Input, scale: Input, gate: Input, *, activation: str = "silu", epsilon: float = 1e-5) -> Tensor:
    """Each group of elements, as long as the scale, normalised and multiplied by an activation of a gate."""
    x, size = tensor_of(x), tensor_of(scale).shape[0]
    normal = _root_mean_square(ops.reshape(x, (*x.shape[:-1], -1, size)), epsilon)
    y = ops.reshape(normal * ops.cast(scale, normal.dtype), x.shape)
    gate = ops.cast(gate, y.dtype)
    share = ops.sigmoid(gate)
    return ops.cast(y * (share if activation == "sigmoid" else gate * share), x.dtype)


@operator("BranchwiseRMSNorm", domain=MICROSOFT)
def branchwise_rms_norm(
    x: Input, scale: OptionalInput = None, *, num_branches: int = 0, epsilon: float = 1e-5
) -> Tensor:
    """Each branch, one of the last axis or of the last but one, normalised."""
    x = tensor_of(x)
    branches = ops.reshape(x, (*x.shape[:-1], num_branches, -1)) if num_branches else x
    y = _root_mean_square(branches, epsilon)
    if scale is not None:
        weights = ops.cast(scale, y.dtype)
        y = y * (ops.reshape(weights, y.shape[-2:]) if weights.size == y.shape[-1] * y.shape[-2] else weights)
    return ops.reshape(ops.cast(y, x.dtype), x.shape)


@operator("ScaledSiLU", domain=MICROSOFT)
def scaled_silu(x: Input, scale: OptionalInput = None, *, alpha: float = 1.0) -> Tensor:
    x = tensor_of(x)
    scaled = ops.mul(x, alpha if scale is None else ops.reshape(ops.cast(scale, x.dtype), ()))
    return scaled * ops.sigmoid(scaled)


@operator("GatedAdd", domain=MICROSOFT)
def gated_add(x: Input, y: Input, gate: Input) -> Tensor:
    return ops.add(x, ops.mul(y, gate))


@operator("NhwcConv", "NhwcFusedConv", domain=MICROSOFT)
def conv_of_last_channels(
    x: Input, w: Input, b: OptionalInput = None, z: OptionalInput = None, *, activation: str = "",
    activation_params: Floats | None = None, **geometry: Unpack[ConvolutionAttributes],
) -> Tensor:  # fmt: skip
    """A convolution of images, and with kernels, whose channels are their last axis."""
    images, kernels = ops.movedim(x, -1, 1), ops.movedim(w, -1, 1)
    added = None if z is None else ops.movedim(z, -1, 1)
    y = fused_conv(
        images, kernels, b, added, activation=activation, activation_params=activation_params, **geometry
    )
    return ops.movedim(y, 1, -1)


@operator("RelativePositionBias", domain=MICROSOFT, known=(1, 2))
def relative_position_bias(
    table: Input, queries: Array, keys: Array, *, max_distance: int, is_bidirectional: int = 0
) -> Tensor:
    """The biases of T5 by distance, (1, heads, queries, keys); the numbers of a head follow each other in the table."""
    count, heads = tensor_of(table).shape
    distance = np.arange(integers(keys)[0]) - np.arange(integers(queries)[0])[:, None]
    buckets = count // 2 if is_bidirectional else count
    start = np.where(distance > 0, buckets, 0) if is_bidirectional else 0
    distance = np.abs(distance) if is_bidirectional else np.maximum(-distance, 0)
    exact = buckets // 2
    growth = np.log(np.maximum(distance, 1) / exact) / np.log(max_distance / exact)
    far = np.minimum(exact + (growth * (buckets - exact)).astype(np.int64), buckets - 1)
    at = start + np.where(distance < exact, distance, far)
    biases = ops.gather(ops.reshape(table, (heads, count)), Tensor(at.astype(np.int64)), 1)
    return ops.expand_dims(biases, 0)
