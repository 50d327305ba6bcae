"""`mindspore.numpy`: functions of `graphls.ops` and of NumPy under NumPy's names and arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls import ops
from graphls.base.errors import GraphAttributeError
from graphls.base.reporting import guard_functions, guarded
from graphls.compat.argument_names import with_numpy_names
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.registry import nearest
from graphls.ir.types import DTypeLike, as_dtype, float32, int32
from graphls.ops.operands import ShapeLike, Sizes, tensor_of
from graphls.ops.record import ALSO, FUNCTIONS

pi, e, inf, nan, newaxis = math.pi, math.e, math.inf, math.nan, None


def array(obj: TensorLike, dtype: DTypeLike | None = None, copy: bool = True, ndmin: int = 0) -> Tensor:
    """A tensor from numbers, nested sequences of them, or a tensor, with at least `ndmin` axes."""
    tensor = Tensor(np.array(obj) if isinstance(obj, (np.ndarray, np.generic)) else obj, dtype)
    missing = max(0, ndmin - tensor.ndim)
    return ops.reshape(tensor, (1,) * missing + tensor.shape) if missing else tensor


def asarray(a: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """The tensor itself, or a tensor from numbers, cast to the dtype if there is one."""
    tensor = tensor_of(a)
    return tensor if dtype is None else ops.cast(tensor, dtype)


def zeros(shape: Sizes, dtype: DTypeLike = float32) -> Tensor:
    """Zeros, float32 by default."""
    return ops.zeros(shape, dtype)


def ones(shape: Sizes, dtype: DTypeLike = float32) -> Tensor:
    """Ones, float32 by default."""
    return ops.ones(shape, dtype)


empty = zeros


def full(shape: Sizes, fill_value: TensorLike, dtype: DTypeLike | None = None) -> Tensor:
    """A tensor of one number, by default in its dtype."""
    return ops.full(shape, fill_value, dtype=dtype)


def arange(
    start: TensorLike, stop: Tensor | None = None, step: Tensor | None = None, dtype: DTypeLike | None = None
) -> Tensor:
    """The numbers from `start` up to, but without, `stop`, int32 for integers; with one argument, from 0 up to it."""
    numbers = ops.arange(start, stop, 1 if step is None else step, dtype=dtype)
    return numbers if dtype is not None or numbers.dtype.is_float else ops.cast(numbers, int32)


def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: DTypeLike | None = None) -> Tensor:
    """`num` numbers at equal distances from `start` to `stop`, with or without the latter; float32 by default."""
    return Tensor(np.linspace(start, stop, num, endpoint), dtype or float32)


def eye(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = float32) -> Tensor:
    """Ones on the k-th diagonal of an N by M matrix, zeros elsewhere."""
    return Tensor(np.eye(N, M, k, as_dtype(dtype).numpy))


def identity(n: int, dtype: DTypeLike = float32) -> Tensor:
    """Ones on the diagonal of an n by n matrix."""
    return eye(n, dtype=dtype)


def ravel(x: TensorLike) -> Tensor:
    """All elements along one axis."""
    return ops.reshape(x, (-1,))


def cumsum(a: TensorLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """Cumulative sums along an axis; without one, over all elements in order."""
    return ops.cumsum(ravel(a), 0, dtype) if axis is None else ops.cumsum(a, axis, dtype)


def repeat(a: TensorLike, repeats: ShapeLike, axis: int | None = None) -> Tensor:
    """Repeats each element along an axis; without one, all elements in order."""
    return ops.repeat_interleave(ravel(a), repeats, 0) if axis is None else ops.repeat_interleave(a, repeats, axis)


def transpose(a: TensorLike, axes: Sizes | None = None) -> Tensor:
    """The axes in another order, by default reversed."""
    return ops.transpose(a) if axes is None else ops.transpose(a, axes)


def shape(x: TensorLike) -> tuple[int, ...]:
    """The sizes of the axes."""
    return tensor_of(x).shape


def size(a: TensorLike) -> int:
    """The number of elements."""
    return tensor_of(a).size


_NAMES = """
argwhere bitwise_not column_stack copysign count_nonzero dsplit dstack fmod gcd hsplit invert isclose
isneginf isposinf lcm nanmean norm positive rand randn signbit take_along_axis vsplit
"""
SAME = {name: FUNCTIONS[name] for name in _NAMES.split()}
"""Functions that have the arguments of `graphls.ops`, in the same order."""


_HOST_NAMES = """
bartlett bincount blackman diag_indices digitize geomspace hamming hanning histogram histogram2d histogram_bin_edges
histogramdd indices intersect1d ix_ logspace setdiff1d tri tril_indices tril_indices_from triu_indices triu_indices_from
unique unravel_index vander
"""
HOST_NAMES = _HOST_NAMES.split()
"""Functions that NumPy computes, since their results depend on settings alone or have a size that the data decide.

They take no values that a graph computes, and have no gradient.
"""
NARROW = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.int64): np.dtype(np.int32)}
"""The default dtypes of NumPy, and those of MindSpore in their place."""


def _by_numpy(name: str) -> Callable[..., Any]:
    """A function of NumPy for tensors; the results have 32 bits unless an argument has 64."""
    function = getattr(np, name)

    def computed(*arguments: Any, **options: Any) -> Any:
        dtype = options.pop("dtype", None)
        tensors = [each for each in (*arguments, *options.values()) if isinstance(each, Tensor)]
        narrow = not any(each.dtype.numpy in NARROW for each in tensors)
        result = function(*map(_array, arguments), **{option: _array(value) for option, value in options.items()})
        return _tensors(result, lambda array: _in_dtype(array, dtype, narrow))

    computed.__name__ = name
    computed.__doc__ = f"The results of `numpy.{name}` as tensors."
    return guarded(computed)


def _array(item: Any) -> Any:
    """A tensor as an array, also in lists and tuples."""
    if isinstance(item, (list, tuple)):
        return type(item)(map(_array, item))
    return item.asnumpy() if isinstance(item, Tensor) else item


def _in_dtype(array: Any, dtype: Any, narrow: bool) -> Any:
    target = as_dtype(dtype).numpy if dtype is not None else NARROW.get(array.dtype) if narrow else None
    return array if target is None else array.astype(target)


def _tensors(result: Any, cast: Callable[[Any], Any]) -> Any:
    if isinstance(result, (list, tuple)):
        return tuple(_tensors(each, cast) for each in result)
    return Tensor(cast(np.asarray(result)))


def __getattr__(name: str) -> Any:
    if name in HOST_NAMES:
        return _by_numpy(name)
    if name not in {**SAME, **ALSO["numpy"]}:
        hint = "" if name.startswith("__") else nearest(name, __dir__())
        raise GraphAttributeError(f"graphls does not offer mindspore.numpy.{name}{hint}.")
    return with_numpy_names({**SAME, **ALSO["numpy"]}[name])


def __dir__() -> list[str]:
    own = "pi e inf nan newaxis array asarray zeros ones empty full arange linspace eye identity ravel cumsum repeat"
    return sorted({*own.split(), "shape", "size", *HOST_NAMES, *SAME, *ALSO["numpy"]})


guard_functions(globals())
