"""Fourier transforms, as products with constant matrices, and the weights of mel spectrograms."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import numpy as np
from onnx import helper

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.ir.types import float32
from graphls.onnx.operators.conversion import check_size
from graphls.onnx.table import operator
from graphls.onnx.values import Input, OptionalInput, integers, value_of
from graphls.ops.operands import axis_of, tensor_of

_DIRECT = 512
"""Length up to which a transform is one product with a matrix."""

Complex = tuple[Tensor, Tensor | None]
"""The real parts, and the imaginary ones or None where they are 0."""


@operator("DFT", known=(1,))
def dft_along(x: Input, length: Array | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Tensor:
    return _dft(x, length, axis, bool(inverse), bool(onesided))


@operator("DFT", since=20, known=(1, 2))
def dft(
    x: Input, length: Array | None = None, axis: Array | None = None, *, inverse: int = 0, onesided: int = 0
) -> Tensor:
    return _dft(x, length, -2 if axis is None else integers(axis)[0], bool(inverse), bool(onesided))


def _dft(x: Input, length: Array | None, axis: int, inverse: bool, onesided: bool) -> Tensor:
    x = tensor_of(x)
    at, dtype = axis_of(axis, x.ndim), x.dtype
    if at == x.ndim - 1 or x.shape[-1] not in (1, 2):
        raise GraphValueError(f"the axis {axis} of the shape {x.shape} is not an axis of a real or complex signal.")
    halves = inverse and onesided
    size = x.shape[at] if not halves else 2 * (x.shape[at] - 1)
    size = size if length is None else integers(length)[0]
    wide = ops.movedim(ops.cast(x, float32) if dtype.is_half else x, at, -2)
    signal = [_sized(wide[..., i], size // 2 + 1 if halves else size) for i in range(x.shape[-1])]
    pair = signal[0], signal[1] if len(signal) > 1 else None
    real, imaginary = _transformed(_mirrored(pair, size) if halves else pair, 1 if inverse else -1)
    parts = [part for part in (real, imaginary) if part is not None]
    parts = [part / size for part in parts] if inverse else parts
    if halves:
        parts = parts[:1]
    elif onesided:
        parts = [part[..., : size // 2 + 1] for part in parts]
    return ops.cast(ops.movedim(ops.stack(parts, -1), -2, at), dtype)


def _sized(x: Tensor, size: int) -> Tensor:
    """The first elements along the last axis, padded with zeros where there are fewer."""
    check_size(*x.shape[:-1], size)
    x = x[..., :size]
    return ops.pad(x, (0, size - x.shape[-1])) if x.shape[-1] < size else x


def _mirrored(half: Complex, size: int) -> Complex:
    """The full spectrum of a real signal from its first half, which the second half mirrors."""
    count = size - half[0].shape[-1]

    def joined(part: Tensor, sign: int) -> Tensor:
        return ops.concat((part, ops.flip(part[..., 1 : 1 + count], (-1,)) * sign), -1)

    return joined(half[0], 1), None if half[1] is None else joined(half[1], -1)


def _transformed(x: Complex, sign: int) -> Complex:
    """The sums over n of x[n] * exp(sign * 2 pi i k n / size), for each k."""
    size = x[0].shape[-1]
    rows = next((n for n in range(isqrt(size), 1, -1) if size % n == 0), 1)
    if size <= _DIRECT or rows == 1:
        check_size(size, size)
        return _times(x, _turns(size, size, size, sign), ops.matmul)
    # Cooley and Tukey (1965): transforms of the columns, turned, and then of the rows.
    columns = size // rows
    grid = _each(lambda p: ops.swapaxes(ops.reshape(p, (*p.shape[:-1], rows, columns)), -1, -2), x)
    inner = _times(_transformed(grid, sign), _turns(columns, rows, size, sign), ops.mul)
    outer = _transformed(_each(lambda p: ops.swapaxes(p, -1, -2), inner), sign)
    return _each(lambda p: ops.reshape(ops.swapaxes(p, -1, -2), (*p.shape[:-2], size)), outer)


def _each(function: Callable[[Tensor], Tensor], x: Complex) -> Complex:
    return function(x[0]), None if x[1] is None else function(x[1])


def _turns(rows: int, columns: int, size: int, sign: int) -> tuple[Array, Array]:
    """Cosines and sines of 2 pi n k / size for all n and k."""
    angles = 2 * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % size) / size
    return np.cos(angles), sign * np.sin(angles)


def _times(x: Complex, turns: tuple[Array, Array], product: Callable[[Tensor, Tensor], Tensor]) -> Complex:
    """A product of complex numbers."""
    (real, imaginary), dtype = x, x[0].dtype.numpy
    cosines, sines = (Tensor(t.astype(dtype)) for t in turns)
    if imaginary is None:
        return product(real, cosines), product(real, sines)
    both = product(real, cosines) - product(imaginary, sines)
    return both, product(real, sines) + product(imaginary, cosines)


@operator("STFT", known=(1, 3), untrained=(2,), untrained_role="windows")
def stft(
    signal: Input, step: Array, window: OptionalInput = None, length: Array | None = None, *, onesided: int = 1
) -> Tensor:
    """The transforms of frames (batch, frames, frequencies, 2)."""
    signal = tensor_of(signal)
    signal = signal if signal.ndim == 3 else ops.expand_dims(signal, -1)
    if length is None and window is None:
        raise GraphValueError("it has neither a window nor a frame_length.")
    size = integers(length)[0] if length is not None else tensor_of(window).shape[0]
    stride = integers(step)[0]
    if stride < 1 or not 1 <= size <= signal.shape[1]:
        raise GraphValueError(f"frames of {size} elements in steps of {stride} do not fit {signal.shape[1]} elements.")
    starts = np.arange((signal.shape[1] - size) // stride + 1) * stride
    check_size(len(starts), size)
    frames = ops.gather(signal, Tensor(starts[:, None] + np.arange(size)), 1)
    if window is not None:
        frames = frames * ops.reshape(ops.cast(window, frames.dtype), (-1, 1))
    return _dft(frames, None, 2, False, bool(onesided))


@operator("MelWeightMatrix", known=(0, 1, 2, 3, 4))
def mel_weight_matrix(
    count: Array, length: Array, rate: Array, lowest: Array, highest: Array, *, output_datatype: int = 1
) -> Input:
    """Triangular filters, (spectrum, mel bins), whose centres are equally far apart on the mel scale."""
    bins, size = int(np.reshape(count, ())), int(np.reshape(length, ()))
    rows = size // 2 + 1
    check_size(rows, bins + 2)
    low, high = (2595 * np.log10(1 + float(np.reshape(hertz, ())) / 700) for hertz in (lowest, highest))
    mels = low + np.arange(bins + 2) * ((high - low) / (bins + 2))
    hertz = 700 * (10 ** (mels / 2595) - 1)
    edges = ((size + 1) * hertz // float(np.reshape(rate, ()))).astype(np.int64)
    left, middle, right = edges[:-2], edges[1:-1], edges[2:]
    at = np.arange(rows)[:, None]
    rising = np.where(middle > left, (at - left) / np.maximum(middle - left, 1), 1.0)
    falling = (right - at) / np.maximum(right - middle, 1)
    weights = np.where((at >= left) & (at <= middle), rising, 0.0)
    weights = np.where((at >= middle) & (at < right), falling, weights)
    return value_of(weights.astype(helper.tensor_dtype_to_np_dtype(output_datatype)))
