"""Dispatch of tensor operations: to the graph that is being traced, or to NumPy at once."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

import graphls.primitives  # noqa: F401  (registers the primitives)
from graphls.base.errors import GraphMemoryError, GraphTypeError, GraphValueError
from graphls.base.sharing.locks import holding_all
from graphls.frontend.registry import function, register
from graphls.frontend.tensors.executor import executor
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tape import note
from graphls.frontend.tensors.tensor import DeferredData, Symbol, Tensor, array_of, is_number
from graphls.ir.compare import key_of_constant
from graphls.ir.graph import Value
from graphls.ir.registry import Operation, lookup
from graphls.ir.types import DType, Type, as_dtype, bool_, float32, int64, type_of

Array = np.ndarray[Any, Any]
Compute = Callable[[tuple[Array, ...]], tuple[Any, ...]]


def apply(name: str, *operands: object, **attrs: object) -> Any:
    """Apply a primitive to tensors; Python numbers take the dtype of the first tensor.

    Returns a Tensor, or a tuple of them. Operands that are all known are computed at once, also while a
    cell is traced. Raises GraphlsError, with the user's line, where the operands do not fit.

    Examples:
        >>> from graphls import tensor
        >>> from graphls.tensors import apply
        >>> apply("sum", tensor([[1.0, 2.0]]), axis=(1,), keepdims=False)
        Tensor(shape=[1], dtype=Float32, value=[3.])
    """
    here = executor()
    if here is None or (here.is_trace and all(map(_is_known, operands))):
        return evaluate(name, operands, attrs)
    return here.apply(name, operands, attrs)


def cast_operands(name: str, *operands: object) -> tuple[Any, ...]:
    """The operands with the casts of mixed precision for an operation that is composed of other primitives."""
    here = executor()
    return operands if here is None else here.cast_operands(name, operands)


def without_casts() -> AbstractContextManager[Any]:
    """A block in which no network with mixed precision casts operands."""
    here = executor()
    return nullcontext() if here is None else here.without_casts()


def _is_known(operand: object) -> bool:
    return not isinstance(operand, (Symbol, Parameter))


def evaluate(name: str, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """Compute a primitive at once."""
    results = _at_once(name, operands, attrs)
    note(name, operands, attrs, results)
    return results


def _at_once(name: str, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    parameters = [operand for operand in operands if isinstance(operand, Parameter)]
    if not parameters:
        return _evaluated(name, operands, attrs)
    with holding_all(parameter.storage for parameter in parameters):
        read = [parameter.array for parameter in parameters]
        arrays = iter(read)
        values = tuple(next(arrays) if isinstance(operand, Parameter) else operand for operand in operands)
        return _evaluated(name, values, attrs, read, first_dtype(operands))


def _evaluated(
    name: str, operands: tuple[object, ...], attrs: Mapping[str, object], parameters: Sequence[Array] = (),
    dtype: DType | None = None,
) -> Any:  # fmt: skip
    """The results of a primitive, never sharing memory with parameters, whose values may change."""
    dtype = dtype or first_dtype(operands)
    arrays = tuple([as_array(operand, dtype) for operand in operands])
    try:
        types, compute = _plan(name, tuple(map(type_of, arrays)), attrs)
        with np.errstate(all="ignore"):
            results = compute(arrays)
    except MemoryError as error:
        raise GraphMemoryError(f"The memory is too small for {name}: {error}.") from None
    tensors = []
    for result, kind in zip(results, types, strict=True):
        if callable(result):
            tensors.append(Tensor.on_device(DeferredData(result), kind))
            continue
        array = np.asarray(result, dtype=kind.dtype.numpy)
        is_theirs = any(np.may_share_memory(array, parameter) for parameter in parameters)
        tensors.append(Tensor.on_host(array.copy() if is_theirs else array, kind))
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


MOST_PLANS = 4096
"""The most kinds of operations whose plans are cached."""
_plans: dict[tuple[Any, ...], tuple[tuple[Type, ...], Compute]] = {}


def _plan(name: str, kinds: tuple[Type, ...], attrs: Mapping[str, object]) -> tuple[tuple[Type, ...], Compute]:
    """The types of the results on operands of these types, and the function that computes them; cached if possible."""
    operation = lookup(name)
    try:
        key = operation, kinds, *attrs, *map(key_of_constant, attrs.values())
    except TypeError:  # an attribute is an array
        return _planned(operation, kinds, attrs)
    plan = _plans.get(key)
    if plan is None:
        plan = _planned(operation, kinds, attrs)
        if len(_plans) >= MOST_PLANS:
            _plans.clear()
        _plans[key] = plan
    return plan


def _planned(
    operation: Operation, kinds: tuple[Type, ...], attrs: Mapping[str, object]
) -> tuple[tuple[Type, ...], Compute]:
    types = operation.result_types(kinds, attrs, ())
    return types, function("computed_by")(operation, kinds, attrs, types)


def first_dtype(operands: tuple[object, ...]) -> DType | None:
    """The dtype of the first tensor among the operands."""
    for operand in operands:
        if isinstance(operand, Tensor):
            return operand.dtype
    return None


def as_array(operand: object, dtype: DType | None = None) -> np.ndarray[Any, Any]:
    """A tensor, array or number as a NumPy array; a bare number takes `dtype`."""
    if isinstance(operand, Tensor):
        return operand.asnumpy()
    if isinstance(operand, (np.ndarray, np.generic)) or dtype is None:
        return array_of(operand)
    try:
        return np.asarray(operand, dtype=dtype.numpy)
    except OverflowError:
        message = f"The number {operand} does not fit {dtype.long_name}; cast the tensor first."
        raise GraphValueError(message) from None


def promoted(*operands: Any) -> tuple[Tensor, ...]:
    """The operands as tensors of one dtype, by MindSpore's rules.

    The higher kind wins (bool, then integers, then floats), within a kind the wider dtype; Python numbers and
    tensors without axes widen a kind but not a dtype: f16[3] * f32[] is f16[3].
    """
    dtypes = {o.dtype if isinstance(o, Tensor) else None for o in operands}
    if len(dtypes) == 1 and None not in dtypes:
        return operands
    dtype = promoted_dtype(*operands)
    result = []
    for operand in operands:
        if not isinstance(operand, Tensor):
            operand = Tensor(as_array(operand, dtype), dtype)
        result.append(operand if operand.dtype is dtype else cast(operand, dtype))
    return tuple(result)


def cast(operand: Tensor, dtype: DType) -> Tensor:
    """The tensor in another dtype."""
    result: Tensor = apply("cast", operand, dtype=dtype)
    return result


def promoted_dtype(*operands: Any) -> DType:
    """The promoted dtype of operands."""
    full = [o.dtype for o in operands if _weight(o) == 2]
    scalars = [o.dtype for o in operands if _weight(o) == 1]
    numbers = [_number_dtype(o) for o in operands if _weight(o) == 0]
    result: DType | None = None
    for group in (full, scalars, numbers):
        if group:
            meet = _meet(group)
            if result is None or not covers(result, meet):
                result = meet
    assert result is not None
    return result


_RANKS = {"bool": 0, "uint": 1, "int": 1, "float": 2, "low": 2}


def covers(dtype: DType, other: DType) -> bool:
    """Whether a dtype is of the same kind as another one, or of a higher one: bool, then integers, then floats."""
    return _RANKS[dtype.kind] >= _RANKS[other.kind]


def _weight(operand: object) -> int:
    if isinstance(operand, (Tensor, np.ndarray)):
        return 2 if operand.ndim else 1
    return 0


def _number_dtype(number: object) -> DType:
    if isinstance(number, np.generic):
        return as_dtype(number.dtype)
    if is_number(number):
        return {bool: bool_, int: int64, float: float32}[type(number) if type(number) is not np.float64 else float]
    advice = "; make it a tensor: Tensor(values)" if isinstance(number, (list, tuple)) else ""
    if isinstance(number, Value):
        advice = "; on a value of a graph, use the methods of a Builder, such as e.exp(x)"
    raise GraphTypeError(f"{reprlib.repr(number)} is neither a tensor nor a number{advice}.")


def _meet(dtypes: list[DType]) -> DType:
    result = as_dtype(dtypes[0])
    for other in map(as_dtype, dtypes[1:]):
        if other is not result:
            if result.is_low or other.is_low:
                low, high = (result, other) if result.is_low else (other, result)
                raise GraphTypeError(f"{low!r} and {high!r} do not go together; cast one of them.")
            result = _wider(result, other)
    return result


def _wider(a: DType, b: DType) -> DType:
    if _RANKS[a.kind] != _RANKS[b.kind]:
        return max(a, b, key=lambda d: _RANKS[d.kind])
    if a.is_float:
        return float32 if a.itemsize == b.itemsize else max(a, b, key=lambda d: d.itemsize)
    return as_dtype(np.promote_types(a.numpy, b.numpy)) if a.kind == b.kind or a.itemsize < 8 else int64


register(primitive=apply)
