"""Constants, casts, and operators that read shapes and dtypes alone."""

from __future__ import annotations

import numpy as np
from onnx import helper

from graphls import ops
from graphls.base.errors import GraphMemoryError, GraphTypeError
from graphls.frontend.tensors.tensor import Array, Tensor
from graphls.ir.types import DType, as_dtype, float8_e8m0fnu, float32
from graphls.onnx.table import operator
from graphls.onnx.values import (
    Floats,
    Input,
    Ints,
    Operand,
    OptionalInput,
    Quantized,
    Strings,
    array_of,
    float_type,
    integers,
    is_known,
    value_of,
)
from graphls.ops.operands import in_graph, tensor_of

_MOST = 1 << 28
"""Elements of the largest constant that is stored."""
_LARGE = 1 << 20
"""Elements from which on a tensor of one number is computed in the graph rather than stored."""


@operator("Constant")
def constant(
    *, value: OptionalInput = None, sparse_value: OptionalInput = None, value_float: float | None = None,
    value_floats: Floats | None = None, value_int: int | None = None, value_ints: Ints | None = None,
    value_string: str | None = None, value_strings: Strings | None = None,
) -> OptionalInput:  # fmt: skip
    if value is not None or sparse_value is not None:
        return value if value is not None else sparse_value
    if value_float is not None or value_floats is not None:
        return Tensor(np.array(value_floats if value_float is None else value_float, np.float32))
    if value_int is not None or value_ints is not None:
        return Tensor(np.array(value_ints if value_int is None else value_int, np.int64))
    return np.array(value_strings if value_string is None else value_string, object)


@operator("ConstantOfShape", known=(0,))
def constant_of_shape(shape: Array, *, value: OptionalInput = None) -> Tensor:
    number = Tensor(np.zeros(1, np.float32)) if value is None else value
    return repeated(ops.reshape(number, ()), integers(shape))


def repeated(number: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A number broadcast to a shape; from a size on as a value of the graph, which is not stored."""
    number = in_graph(number) if np.prod(shape, dtype=object) > _LARGE else number
    return ops.broadcast_to(number, shape)


@operator("Cast", quantized=True)
def cast(x: Operand, *, to: int, saturate: int = 1, round_mode: str = "up") -> Input:
    dtype = helper.tensor_dtype_to_np_dtype(to)
    if isinstance(x, Quantized):
        x = x.wide if dtype.kind == "f" else x.integers
    if isinstance(x, np.ndarray) or dtype.kind == "O":
        return value_of(array_of(x).astype(dtype))
    x = tensor_of(x)
    low = float_type()
    if low is not None and not x.dtype.is_float and not is_known(x) and dtype in (np.float32, np.float64):
        return ops.cast(x, low)
    if is_known(x) and not _is_supported(dtype):
        return array_of(x).astype(dtype)
    return _converted(x, as_dtype(dtype), bool(saturate), round_mode)


def _converted(x: Tensor, dtype: DType, saturate: bool, round_mode: str) -> Tensor:
    """A tensor in another dtype; powers of two are the next one upwards or downwards, or the nearest, of two the upper.

    Both are those of the powers below and above x, and the power below is the nearest one or half of it.
    """
    if dtype is not float8_e8m0fnu:
        return ops.cast(x, dtype, saturate=saturate)
    x = ops.cast(x, float32)
    nearest = ops.cast(ops.cast(x, dtype, saturate=saturate), float32)
    below = ops.where(ops.greater(nearest, x), nearest * 0.5, nearest)
    is_above = {"up": ops.greater(x, below), "nearest": ops.greater_equal(x, below * 1.5)}.get(round_mode)
    return ops.cast(below if is_above is None else ops.where(is_above, below * 2.0, below), dtype, saturate=saturate)


def _is_supported(dtype: np.dtype[np.generic]) -> bool:
    return isinstance(value_of(np.zeros((), dtype)), Tensor)


@operator("CastLike")
def cast_like(x: Input, like: Input, *, saturate: int = 1, round_mode: str = "up") -> Input:
    if isinstance(like, np.ndarray):
        return value_of(array_of(x).astype(like.dtype))
    dtype = tensor_of(like).dtype
    if isinstance(x, np.ndarray):
        return value_of(x.astype(dtype.numpy))
    return _converted(tensor_of(x), dtype, bool(saturate), round_mode)


@operator("Shape")
def shape(x: Input, *, start: int = 0, end: int | None = None) -> Tensor:
    return Tensor(np.array(shape_of(x)[slice(start, end)], np.int64))


@operator("Size")
def size(x: Input) -> Tensor:
    return Tensor(np.array(np.prod(shape_of(x), dtype=np.int64)))


def shape_of(x: object) -> tuple[int, ...]:
    """The shape of a tensor of any dtype; raises GraphTypeError for a sequence."""
    if isinstance(x, (Tensor, np.ndarray)):
        return tuple(x.shape)
    raise GraphTypeError(f"a tensor is needed here, not {type(x).__name__}.")


def check_size(*sizes: int) -> None:
    """Raise GraphMemoryError for a known tensor that is too large to be stored in the graph."""
    if np.prod(sizes, dtype=object) > _MOST:
        raise GraphMemoryError(f"it would make a constant of the shape {sizes}, which is too large.")


@operator("Range", known=(0, 1, 2))
def range_of(start: Array, limit: Array, delta: Array) -> Tensor:
    first, last, step = (np.reshape(n, ()) for n in (start, limit, delta))
    count = max(int(np.ceil((last - first) / step)), 0)
    check_size(count)
    return Tensor((first + np.arange(count) * step).astype(first.dtype))


@operator("EyeLike")
def eye_like(x: Input, *, dtype: int | None = None, k: int = 0) -> Input:
    kind = tensor_of(x).dtype.numpy if dtype is None else helper.tensor_dtype_to_np_dtype(dtype)
    rows, columns = shape_of(x)
    check_size(rows, columns)
    return value_of(np.eye(rows, columns, k, kind))


@operator("OneHot", known=(1,))
def one_hot(indices: Input, depth: Array, values: Input, *, axis: int = -1) -> Tensor:
    x, values = tensor_of(indices), tensor_of(values)
    count = integers(depth)[0]
    check_size(*(x.shape if is_known(x) else ()), count)
    x = ops.cast(x, "int64")
    x = ops.where(ops.less(x, 0), x + count, x)
    return ops.one_hot(x, count, values[1], values[0], axis)
