"""Functions of `mindspore.numpy` composed of `graphls.ops`: selection, arrangement, comparison and grids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.base.reporting import guard_functions
from graphls.compat.numpy.functions import ravel
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DType, DTypeLike, as_dtype, float32, int32
from graphls.ops.operands import Operand, ShapeLike, tensor_of

__all__ = [
    "append", "apply_along_axis", "apply_over_axes", "array_equal", "array_equiv", "array_str", "asfarray",
    "broadcast_arrays", "choose", "diagflat", "diagonal", "empty_like", "in1d", "isin", "isscalar", "mgrid", "ogrid",
    "pad", "piecewise", "promote_types", "randint", "ravel_multi_index", "result_type", "rollaxis", "searchsorted",
    "select", "sometrue", "take",
]  # fmt: skip


def append(arr: TensorLike, values: TensorLike, axis: int | None = None) -> Tensor:
    """Concatenates two tensors along an axis; without one, all their elements."""
    parts = (tensor_of(arr), tensor_of(values)) if axis is not None else (ravel(arr), ravel(values))
    return ops.concat(parts, 0 if axis is None else axis)


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: TensorLike, *args: object, **kwargs: object) -> Tensor:
    """Applies a function of vectors to each vector along an axis."""
    rows = ops.movedim(tensor_of(arr), axis, -1)
    results = [tensor_of(func1d(row, *args, **kwargs)) for row in ops.reshape(rows, (-1, rows.shape[-1]))]
    stacked = ops.reshape(ops.stack(results), (*rows.shape[:-1], *results[0].shape))
    return ops.movedim(stacked, -1, axis) if results[0].ndim == 1 else stacked


def apply_over_axes(func: Callable[..., Any], a: TensorLike, axes: int | Sequence[int]) -> Tensor:
    """Applies a function of a tensor and an axis to one axis after the other."""
    x = tensor_of(a)
    for axis in (axes,) if isinstance(axes, int) else axes:
        result = tensor_of(func(x, axis))
        x = result if result.ndim == x.ndim else ops.expand_dims(result, axis)
    return x


def array_equal(a1: TensorLike, a2: TensorLike, equal_nan: bool = False) -> Tensor:
    """Tells whether two tensors have the same shape and equal elements."""
    a1, a2 = tensor_of(a1), tensor_of(a2)
    if a1.shape != a2.shape:
        return Tensor(False)
    same = ops.equal(a1, a2)
    return ops.all(ops.logical_or(same, ops.logical_and(ops.isnan(a1), ops.isnan(a2))) if equal_nan else same)


def array_equiv(a1: TensorLike, a2: TensorLike) -> Tensor:
    """Tells whether two tensors broadcast to equal elements."""
    a1, a2 = tensor_of(a1), tensor_of(a2)
    try:
        np.broadcast_shapes(a1.shape, a2.shape)
    except ValueError:
        return Tensor(False)
    return ops.all(ops.equal(a1, a2))


def array_str(a: Tensor) -> str:
    """The elements as text."""
    return np.array_str(a.asnumpy())


def asfarray(a: TensorLike, dtype: DTypeLike = float32) -> Tensor:
    """A tensor of floats."""
    return ops.cast(tensor_of(a), dtype)


def broadcast_arrays(*args: TensorLike) -> list[Tensor]:
    """The tensors in the shape that they broadcast to."""
    tensors = [*map(tensor_of, args)]
    shape = np.broadcast_shapes(*(each.shape for each in tensors))
    return [ops.broadcast_to(each, shape) for each in tensors]


def _within(index: Tensor, size: int, mode: str) -> Tensor:
    """Indices in range(size): clamped ("clip"), modulo the size ("wrap"), or unchanged ("raise")."""
    if mode not in ("clip", "wrap", "raise"):
        raise GraphValueError(f"The mode is 'clip', 'wrap' or 'raise', not {mode!r}.")
    if mode == "raise":
        return index
    return ops.floor_mod(index, size) if mode == "wrap" else ops.clamp(index, 0, size - 1)


def choose(a: TensorLike, choices: Sequence[TensorLike], mode: str = "clip") -> Tensor:
    """For each position, the element of the tensor with the index in `a`."""
    position, *rows = broadcast_arrays(a, *choices)
    at = ops.expand_dims(_within(position, len(rows), mode), 0)
    return ops.squeeze(ops.gather_elements(ops.stack(rows), 0, at), 0)


def take(a: TensorLike, indices: TensorLike, axis: int | None = None, mode: str = "clip") -> Tensor:
    """Elements, or slices along an axis, by their indices."""
    x = ravel(a) if axis is None else tensor_of(a)
    return ops.gather(x, _within(tensor_of(indices), x.shape[axis or 0], mode), axis or 0)


def diagflat(v: TensorLike, k: int = 0) -> Tensor:
    """A matrix with all elements on its k-th diagonal."""
    return ops.diagflat(v, k)


def diagonal(a: TensorLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonals of matrices."""
    return ops.diagonal(a, offset, axis1, axis2)


def empty_like(prototype: TensorLike, dtype: DTypeLike | None = None, shape: ShapeLike | None = None) -> Tensor:
    """A tensor of zeros, by default of the same shape and dtype."""
    x = tensor_of(prototype)
    return ops.zeros(x.shape if shape is None else shape, dtype or x.dtype)


def isin(element: TensorLike, test_elements: TensorLike, invert: bool = False) -> Tensor:
    """A mask of the elements that occur in others; with `invert`, of those that do not."""
    mask = ops.any(ops.equal(ops.expand_dims(tensor_of(element), -1), ravel(test_elements)), -1)
    return ops.logical_not(mask) if invert else mask


def in1d(ar1: TensorLike, ar2: TensorLike, invert: bool = False) -> Tensor:
    """As `isin`, for the flattened tensor."""
    return isin(ravel(ar1), ar2, invert)


def isscalar(element: object) -> bool:
    """Tells whether an object is a number or a text, and no tensor."""
    return isinstance(element, (int, float, complex, str))


def pad(
    arr: TensorLike, pad_width: Any, mode: str = "constant", stat_length: Any = None, constant_values: Operand = 0,
    end_values: Operand = 0, reflect_type: str = "even", **kwargs: object,
) -> Tensor:  # fmt: skip
    """Pads a tensor with a number, or by a mode "edge", "reflect", "symmetric" or "wrap" with its own elements.

    Raises GraphValueError for other modes.
    """
    x = tensor_of(arr)
    sides = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    if mode == "constant":
        return ops.pad(x, [size for pair in reversed(sides) for size in pair], value=constant_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap") or reflect_type != "even":
        text = "The mode of a pad is 'constant', 'edge', 'reflect' (even), 'symmetric' or 'wrap'"
        raise GraphValueError(f"{text}, not {mode!r} ({reflect_type}).")
    around: Callable[..., Any] = np.pad
    for axis, pair in enumerate(sides):
        if any(pair):
            x = ops.gather(x, Tensor(around(np.arange(x.shape[axis]), pair, mode)), axis)
    return x


def select(condlist: Sequence[TensorLike], choicelist: Sequence[TensorLike], default: Operand = 0) -> Tensor:
    """For each position, the element of the first choice whose condition is true, or the default."""
    result: Any = default
    for condition, choice in reversed([*zip(condlist, choicelist, strict=True)]):
        result = ops.where(condition, choice, result)
    return tensor_of(result)


def piecewise(x: TensorLike, condlist: Any, funclist: Sequence[Any], *args: object, **kw: object) -> Tensor:
    """For each position, the value of the last function whose condition is true; one more function is the default."""
    x = tensor_of(x)
    values = [each(x, *args, **kw) if callable(each) else each for each in funclist]
    result: Any = values.pop() if len(values) > len(condlist) else ops.zeros_like(x)
    for condition, value in zip(condlist, values, strict=True):
        result = ops.where(condition, value, result)
    return ops.cast(result, x.dtype)


def promote_types(type1: DTypeLike, type2: DTypeLike) -> DType:
    """The smallest dtype to which both can be cast."""
    return as_dtype(np.promote_types(as_dtype(type1).numpy, as_dtype(type2).numpy))


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The smallest dtype to which all can be cast."""
    kinds = [each.dtype if isinstance(each, Tensor) else as_dtype(each) for each in arrays_and_dtypes]
    return reduce(promote_types, kinds)


def randint(minval: int, maxval: int | None = None, shape: Any = None, dtype: DTypeLike = int32) -> Tensor:
    """Random integers from `minval` up to, but without, `maxval`; with one argument, from 0 up to it."""
    low, high = (0, minval) if maxval is None else (minval, maxval)
    size = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
    return ops.cast(ops.randint(low, high, size), dtype)


def ravel_multi_index(
    multi_index: Sequence[TensorLike], dims: Sequence[int], mode: str = "clip", order: str = "C"
) -> Tensor:
    """The flat indices of elements from their indices along axes."""
    index = [_within(tensor_of(each), size, mode) for each, size in zip(multi_index, dims, strict=True)]
    pairs = [*zip(index, dims, strict=True)]
    pairs = pairs if order == "C" else pairs[::-1]
    return reduce(lambda flat, pair: ops.add(ops.mul(flat, pair[1]), pair[0]), pairs[1:], pairs[0][0])


def rollaxis(x: TensorLike, axis: int, start: int = 0) -> Tensor:
    """Moves an axis before another one."""
    x = tensor_of(x)
    axis, start = axis % x.ndim, start + x.ndim if start < 0 else start
    return ops.movedim(x, axis, start - 1 if start > axis else start)


def searchsorted(a: TensorLike, v: TensorLike, side: str = "left", sorter: TensorLike | None = None) -> Tensor:
    """The positions of values in a sorted vector; `sorter` has the indices that sort an unsorted one."""
    return ops.searchsorted(a, v, out_int32=True, side=side, sorter=sorter)


def sometrue(a: TensorLike, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Tells whether any element is true."""
    return ops.any(ops.cast(a, "bool"), axis, keepdims)


class _Grid:
    """The grids of `numpy.mgrid` or `numpy.ogrid` as tensors of 32 bits."""

    def __init__(self, grid: Any) -> None:
        self.grid = grid

    def __getitem__(self, key: Any) -> Any:
        grid = self.grid[key]
        return [*map(_narrow, grid)] if isinstance(grid, (list, tuple)) else _narrow(grid)


def _narrow(array: Any) -> Tensor:
    return Tensor(array.astype(np.float32 if array.dtype.kind == "f" else np.int32))


mgrid, ogrid = _Grid(np.mgrid), _Grid(np.ogrid)


guard_functions(globals())
