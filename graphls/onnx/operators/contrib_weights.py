"""Operators of com.microsoft with weights of few bits by blocks or channels, which are constants and not trained."""

from __future__ import annotations

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.onnx.operators.quantization import dynamically_rounded, shifted, unit_of
from graphls.onnx.operators.recurrent import long_short_term_memory
from graphls.onnx.table import MICROSOFT, operator
from graphls.onnx.values import Floats, Input, OptionalInput, Strings
from graphls.ops.operands import apply, axis_of, tensor_of


@operator("MatMulNBits", domain=MICROSOFT, known=(1, 3, 4), untrained=(2,))
def matmul_few_bits(
    a: Input, b: Array, scales: Input, zeros: Array | None = None, group: Array | None = None,
    bias: OptionalInput = None, *, K: int, N: int, bits: int = 4, block_size: int, accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Tensor:  # fmt: skip
    """A product with the transpose of a matrix (N, K) of few bits, with a scale and a zero point for each block."""
    if weight_prepacked:
        raise GraphValueError("its weights are packed for the kernels of a device; keep the model before that.")
    a, blocks = tensor_of(a), -(-K // block_size)
    integers = unpacked(b.reshape(N, blocks, -1), bits)
    if zeros is None:
        points: Array = np.full((N, blocks, 1), 2 ** (bits - 1), np.float64)
    elif zeros.dtype == np.uint8:
        points = unpacked(zeros.reshape(N, -1), bits)[:, :blocks, None]
    else:
        points = zeros.astype(np.float64).reshape(N, blocks, 1)
    block = np.arange(K) // block_size if group is None else group.astype(np.int64)[:K]
    exact = integers[..., :block_size].reshape(N, -1)[:, :K] - points[:, block, 0]
    scale = ops.gather(ops.reshape(ops.cast(scales, a.dtype), (N, blocks)), Tensor(block), 1)
    rows = Tensor(exact.astype(a.dtype.numpy)) * scale
    y: Tensor = ops.matmul(a, ops.swapaxes(rows, 0, 1))
    return y if bias is None else ops.add(y, bias)


def unpacked(packed: Array, bits: int) -> Array:
    """Unsigned integers of some bits from bytes along the last axis, the lowest bits first."""
    flat = np.unpackbits(packed, axis=-1, bitorder="little")
    count = flat.shape[-1] // bits
    parts = flat[..., : count * bits].reshape(*flat.shape[:-1], count, bits)
    numbers: Array = parts @ (1 << np.arange(bits, dtype=np.int64))
    return numbers


_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
_FP4 = (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
_CODES = (np.array([*_FP4, *(-n for n in _FP4)]), np.array(_NF4))
"""The numbers that the 4 bits of bitsandbytes stand for: floats of 4 bits, and quantiles of the normal distribution."""


@operator("MatMulBnb4", domain=MICROSOFT, known=(1,), untrained=(2,))
def matmul_bitsandbytes(
    a: Input, b: Array, largest: Input, *, K: int, N: int, block_size: int, quant_type: int, training_mode: int = 0,
    transB: int = 1,
) -> Tensor:  # fmt: skip
    """A product with the transpose of a matrix (N, K) in the 4 bits of bitsandbytes, the first number in high bits."""
    a, packed = tensor_of(a), b.reshape(-1)
    numbers = np.stack((packed >> 4, packed & 15), -1).reshape(-1)[: N * K]
    blocks = -(-N * K // block_size)
    codes = np.zeros(blocks * block_size)
    codes[: N * K] = _CODES[quant_type][numbers]
    scaled = Tensor(codes.reshape(blocks, block_size).astype(a.dtype.numpy)) * ops.reshape(largest, (blocks, 1))
    matrix = ops.reshape(ops.reshape(scaled, (-1,))[: N * K], (N, K))
    y: Tensor = ops.matmul(a, ops.swapaxes(matrix, 0, 1))
    return y


@operator("GatherBlockQuantized", domain=MICROSOFT, known=(0, 3), untrained=(2,))
def gather_block_quantized(
    data: Array, indices: Input, scales: Input, zeros: Array | None = None, *, bits: int = 4, block_size: int = 128,
    gather_axis: int = 0, quantize_axis: int = 1,
) -> Tensor:  # fmt: skip
    """Slices of a tensor of few bits, as floats, with a scale and a zero point for each block along an axis."""
    is_packed = data.dtype == np.uint8
    numbers = unpacked(data, bits) if is_packed else data.astype(np.int64)
    axis, scale = axis_of(quantize_axis, numbers.ndim), tensor_of(scales)
    blocks = scale.shape[axis]
    points: Array = np.array(2 ** (bits - 1) if is_packed else 0)
    if zeros is not None:
        points = unpacked(zeros, bits) if is_packed else zeros.astype(np.int64)
        points = np.take(points, np.arange(blocks), axis) if axis == numbers.ndim - 1 else points
        points = np.take(np.repeat(points, block_size, axis), np.arange(numbers.shape[axis]), axis)
    wide = ops.repeat_interleave(scale, block_size, axis)
    wide = wide[tuple(slice(0, n) for n in numbers.shape)]
    table = Tensor((numbers - points).astype(scale.dtype.numpy)) * wide
    return ops.gather(table, indices, axis_of(gather_axis, numbers.ndim))


@operator("DynamicQuantizeLSTM", domain=MICROSOFT, untrained=(8, 10))
def dynamic_quantize_lstm(
    x: Input, w: Input, r: Input, b: OptionalInput, lengths: OptionalInput, start: OptionalInput, cell: OptionalInput,
    p: OptionalInput, w_scale: Input, w_zero: Input, r_scale: Input, r_zero: Input, *, hidden_size: int = 0,
    activation_alpha: Floats | None = None, activation_beta: Floats | None = None, activations: Strings | None = None,
    clip: float | None = None, direction: str = "forward", input_forget: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """LSTM with weights in integers; its input and each state are rounded to 256 values of their range."""
    x = tensor_of(x)
    if lengths is not None:  # ranges are those of the steps that any sequence has
        times = Tensor(np.arange(x.shape[0]).reshape(-1, 1, 1))
        x = ops.where(ops.less(times, ops.cast(apply("max", tensor_of(lengths)), "int64")), x, ops.zeros_like(x))
    weights = (_transposed(w, w_scale, w_zero, x), _transposed(r, r_scale, r_zero, x))
    return long_short_term_memory(
        dynamically_rounded(x), *weights, b, lengths, start, cell, p, activation_alpha, activation_beta, activations,
        clip, direction, input_forget, 0, dynamically_rounded,
    )  # fmt: skip


def _transposed(weights: Input, scale: Input, zero: Input, like: Tensor) -> Tensor:
    """Weights (directions, inputs, gates) as floats (directions, gates, inputs), by their scale or those of columns."""
    columns = (tensor_of(weights).shape[0], 1, -1)
    unit, point = (ops.reshape(unit_of(tensor_of(n)), columns) for n in (scale, zero))
    return ops.cast(ops.swapaxes((shifted(weights, None, 0) - point) * unit, 1, 2), like.dtype)
