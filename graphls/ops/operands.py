"""Operands of functions: conversion of tensors, numbers, axes and shapes, and decorators of functions of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, TypeAlias, TypeVar

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.frontend.registry import function as registered
from graphls.frontend.tensors import dispatch, executor
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves, rebuild
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike, as_known
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.types import DType, bool_, float32, float64, int32
from graphls.primitives.primitive import normalise_axis

Function = TypeVar("Function", bound=Callable[..., Any])
Axis: TypeAlias = int | tuple[int, ...] | list[int] | None
Shape: TypeAlias = tuple[int, ...]
Sizes: TypeAlias = int | Sequence[int]
"""One size for all axes, or one for each."""
ShapeLike: TypeAlias = Sizes | Tensor
OutputSizes: TypeAlias = int | Sequence[int | None] | None
"""Sizes of a result, where None keeps the size of the operand."""
Paddings: TypeAlias = Sequence[Sequence[int]] | Tensor
"""The padding before and after, a pair for each axis."""
Operand: TypeAlias = Tensor | float
"""A tensor or a number."""


def apply(name: str, *operands: object, **attrs: object) -> Tensor:
    """Apply a primitive that has one result (see `dispatch.apply`)."""
    result: Tensor = dispatch.apply(name, *operands, **attrs)
    return result


def tensor_of(x: object) -> Tensor:
    """A new tensor with the value of a tensor, number or array, independent of later assignments to that.

    In a trace, a parameter's value is the one that the running cell sees.
    """
    tracer = current_tracer()
    if isinstance(x, Parameter):
        return _read(x) if tracer is None else Symbol(tracer.read(x))
    if isinstance(x, Symbol):
        return Symbol(x.graph_value)
    return x.alias() if isinstance(x, Tensor) else Tensor(x)


def tensor_in(x: TensorLike, dtype: DType) -> Tensor:
    """A tensor in a dtype; a Python number is converted directly, so that float64 keeps all of its digits.

    Raises GraphTypeError for None, which `Tensor` would take for the declaration of an input.
    """
    if x is None:
        raise GraphTypeError("None is neither a tensor nor a number.")
    if not isinstance(x, Tensor):
        return Tensor(x, dtype)
    tensor = tensor_of(x)
    return tensor if tensor.dtype is dtype else dispatch.cast(tensor, dtype)


def _read(parameter: Parameter) -> Tensor:
    cell = executor.running()
    return parameter.value() if cell is None else cell.read(parameter)


def state_of(parameter: Parameter) -> Tensor:
    """The value of a parameter at this point in its own dtype, whatever the `to_float` of the running cell."""
    tracer = current_tracer()
    return Symbol(tracer.current(parameter)) if tracer is not None else parameter.value()


def raw_state(parameter: Parameter) -> Tensor:
    """As `state_of`, but the parameter itself where nothing is traced or cast."""
    here = executor.executor()
    is_plain = here is None or not (here.is_trace or here.casts_any)
    return parameter if is_plain else state_of(parameter)


def in_graph(x: Tensor) -> Tensor:
    """In a trace, a tensor as a value of the graph, so that results of constants are computed there and not stored."""
    tracer = current_tracer()
    return x if tracer is None or isinstance(x, Symbol) else Symbol(tracer.value(x))


def float_of(x: TensorLike) -> Tensor:
    """A float tensor: integers and bools become float32."""
    x = tensor_of(x)
    return x if x.dtype.is_float else dispatch.cast(x, float32)


def floats(*operands: Any) -> tuple[Tensor, ...]:
    """Operands as tensors of one float dtype: integers and bools become float32."""
    return tuple(map(float_of, dispatch.promoted(*map(operand_of, operands))))


def numbers(*operands: Any) -> tuple[Tensor, ...]:
    """Operands as tensors of one dtype, in which bools count as int32."""
    tensors = dispatch.promoted(*map(operand_of, operands))
    return tuple(dispatch.cast(t, int32) for t in tensors) if tensors[0].dtype is bool_ else tensors


def in_single(function: Callable[..., Tensor], *operands: object) -> Tensor:
    """`function` of the operands as numbers of one dtype; 16-bit floats are computed in float32 and rounded once."""
    tensors = numbers(*operands)
    dtype = tensors[0].dtype
    if not dtype.is_half:
        return function(*tensors)
    return dispatch.cast(function(*(dispatch.cast(t, float32) for t in tensors)), dtype)


def in_double(function: Callable[[Tensor], Tensor], x: TensorLike) -> Tensor:
    """`function` of a tensor in float64, in the float dtype of the tensor."""
    x = float_of(x)
    return dispatch.cast(function(dispatch.cast(x, float64)), x.dtype)


def operand_of(x: object) -> Any:
    """A tensor in the dtype it is used in; numbers and arrays stay as they are."""
    return tensor_of(x) if isinstance(x, Tensor) else as_known(x)


def weight_of(x: object) -> Any:
    """As `operand_of`, for the direct operand of a primitive: outside of a trace a parameter itself, without a copy.

    A cell with a `to_float` reads it in that dtype.
    """
    if not isinstance(x, Parameter) or current_tracer() is not None:
        return operand_of(x)
    cell = executor.running()
    return x if cell is None or not cell.casts(x) else cell.read(x)


def axis_of(axis: int, rank: int) -> int:
    """The axis counted from the front; raises GraphTypeError for another object, GraphValueError out of range."""
    if isinstance(axis, bool) or not isinstance(axis, int):
        raise GraphTypeError(f"An axis is an integer, not {axis!r}.")
    return normalise_axis(axis, rank)


def axes_of(axis: Axis, rank: int) -> tuple[int, ...] | None:
    """Axes as a tuple; None, or no axes at all, means every axis, and so do 0 and -1 of a tensor without axes."""
    if axis is None or axis in ((), []):
        return None
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    normalised = tuple(axis_of(a, rank or 1) for a in axes)
    return normalised if rank else None


def accepts_scalars(function: Function) -> Function:
    """A function along an axis that treats a tensor without axes, its first argument, as one with a single element.

    The axes 0 and -1 are then valid, as in NumPy and PyTorch, and the results have no axes.
    """

    @wraps(function)
    def along(*arguments: Any, **options: Any) -> Any:
        if not arguments or np.ndim(arguments[0]):
            return function(*arguments, **options)
        result = function(apply("reshape", arguments[0], shape=(1,)), *arguments[1:], **options)
        return rebuild(result, [apply("reshape", x, shape=()) for x in leaves(result)])

    return along  # type: ignore[return-value]


def single_session(function: Function) -> Function:
    """A function that outside of a trace runs as one session, where that pays, instead of operation by operation.

    For module-level functions from tensors and plain constants to tensors, which depend on nothing else. A cell that
    casts computes them operation by operation, since each of these decides its own dtype.
    """

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        here = executor.executor()
        if here is None or not (here.is_trace or here.casts_any):
            return registered("compute_together")(function, args, options)
        return function(*args, **options)

    return called  # type: ignore[return-value]


def shape_of(shape: Any) -> tuple[int, ...]:
    """A shape given as one integer or as integers in a sequence; raises GraphTypeError for anything else."""
    sizes = (shape,) if isinstance(shape, int) else shape
    if isinstance(sizes, Tensor):
        sizes = sizes.tolist()
    if not isinstance(sizes, Iterable) or isinstance(sizes, str):
        raise GraphTypeError(f"A shape is made of integers, not {shape!r}.")
    return tuple(map(_size, sizes))


def _size(size: ShapeLike) -> int:
    if isinstance(size, (bool, float)) or not hasattr(size, "__index__"):
        raise GraphTypeError(f"A size is an integer, not {size!r}.")
    return int(size.__index__())
