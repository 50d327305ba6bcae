"""The methods of tensors: every function of `graphls.ops` that takes the tensor first, and a few more."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import graphls.ops
from graphls.ir.types import bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from graphls.ops import creation, inplace_methods, logic, lu_factors, reductions, shapes
from graphls.ops.elementwise import cast
from graphls.tensors.tensor import Tensor

Method = Callable[..., Any]

_FIRST = {"x", "input", "input_x", "input_params", "logits", "mat", "dividend"}
"""What functions call the tensor that their methods belong to; other names say that it is something else."""

_REDUCTIONS = ("all", "any", "sum", "mean", "prod", "max", "min", "std", "var")
"""Methods that NumPy calls with arguments of its own."""


@cache
def methods() -> dict[str, Method]:
    """Every method by its name."""
    functions = {name: getattr(graphls.ops, name) for name in graphls.ops.__all__}
    found: dict[str, Method] = {n: f for n, f in functions.items() if inspect.isfunction(f) and _takes_tensor(f)}
    found |= _OTHERS | inplace_methods.METHODS
    return found | {name: _as_numpy_calls(found[name]) for name in _REDUCTIONS}


def _takes_tensor(function: Method) -> bool:
    return next(iter(inspect.signature(function).parameters), None) in _FIRST


def _as_numpy_calls(function: Method) -> Method:
    """The method as NumPy's functions call it too: `np.sum(x)` calls `x.sum(axis=None, dtype=None, out=None)`."""

    @wraps(function)
    def method(x: Tensor, *args: Any, **options: Any) -> Any:
        named = {name: value for name, value in options.items() if name not in ("out", "dtype") or value is not None}
        return function(x, *args, **named)

    return method


def _extreme(largest: Method, with_position: Method) -> Method:
    def extreme(x: Tensor, *args: Any, return_indices: bool = False, **options: Any) -> Any:
        return (with_position if return_indices else largest)(x, *args, **options)

    return extreme


def _to(dtype: Any) -> Method:
    return lambda x: cast(x, dtype)


_OTHERS: dict[str, Method] = {
    "max": _extreme(reductions.amax, reductions.max),
    "min": _extreme(reductions.amin, reductions.min),
    "ptp": lambda x, axis=None, keepdims=False: reductions.amax(x, axis, keepdims) - reductions.amin(x, axis, keepdims),
    "where": lambda x, condition, y: logic.where(condition, x, y),
    "expand_as": lambda x, other: shapes.broadcast_to(x, other.shape),
    "reshape_as": lambda x, other: shapes.reshape(x, other.shape),
    "fill": lambda x, value: creation.full_like(x, value),
    "clone": lambda x: x.copy(),
    "new_zeros": lambda x, size, *, dtype=None: creation.zeros(size, dtype or x.dtype),
    "new_ones": lambda x, size, *, dtype=None: creation.ones(size, dtype or x.dtype),
    "new_full": lambda x, size, fill_value, *, dtype=None: creation.full(size, fill_value, dtype=dtype or x.dtype),
    "contiguous": lambda x: x,
    "numpy": lambda x: x.asnumpy(),
    "nelement": lambda x: x.size,
    "dim": lambda x: x.ndim,
    "ndimension": lambda x: x.ndim,
    "lu_solve": lu_factors.lu_solve,
    "half": _to(float16),
    "bfloat16": _to(bfloat16),
    "float": _to(float32),
    "double": _to(float64),
    "byte": _to(uint8),
    "char": _to(int8),
    "short": _to(int16),
    "int": _to(int32),
    "long": _to(int64),
    "bool": _to(bool_),
}
