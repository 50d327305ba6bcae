"""Functions that make tensors; in a trace they make one number and repeat it, not a large constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.checks import integer
from graphls.ir.errors import GraphValueError
from graphls.ir.types import DType, as_dtype, float32
from graphls.ops.elementwise import cast
from graphls.ops.logic import where
from graphls.ops.operands import apply, shape_of, tensor_of
from graphls.ops.record import in_place, operation, tensor_method
from graphls.ops.shapes import broadcast_to
from graphls.tensors import dispatch
from graphls.tensors.tensor import Symbol, Tensor
from graphls.trace.current import current_tracer


@operation
def full(size: Any, fill_value: Any, *, dtype: Any = None) -> Tensor:
    """One number everywhere; its dtype is that of the number unless given."""
    value = tensor_of(fill_value) if dtype is None else cast(fill_value, dtype)
    shape = shape_of(size)
    if min(shape, default=0) < 0:
        raise GraphValueError(f"The sizes of a tensor are 0 or more, not {shape}.")
    tracer = current_tracer()
    if tracer is None or isinstance(value, Symbol) or value.shape == shape:
        return broadcast_to(value, shape)
    return Symbol(tracer.emit("broadcast_to", (tracer.value(value),), {"shape": shape})[0])


@operation(classes="Fill")
def fill(type: Any, shape: Any, value: Any) -> Tensor:
    """One number everywhere, in MindSpore's order of arguments."""
    return full(shape, value, dtype=type)


@operation(classes="Zeros")
def zeros(size: Any, dtype: Any = None) -> Tensor:
    """Zeros, float32 unless another dtype is given."""
    return full(size, 0, dtype=dtype or float32)


@operation(classes="Ones")
def ones(size: Any, dtype: Any = None) -> Tensor:
    """Ones, float32 unless another dtype is given."""
    return full(size, 1, dtype=dtype or float32)


@operation(classes="ScalarToTensor")
def scalar_to_tensor(input_x: Any, dtype: Any = float32) -> Tensor:
    """A number as a tensor without axes, float32 unless another dtype is given."""
    return full((), input_x, dtype=dtype)


@operation(classes="ZerosLike", in_place="zero_")
def zeros_like(x: Any, *, dtype: Any = None) -> Tensor:
    """Zeros in the shape of x, and in its dtype unless another is given."""
    return full_like(x, 0, dtype=dtype)


@operation(classes="OnesLike")
def ones_like(x: Any, *, dtype: Any = None) -> Tensor:
    """Ones in the shape of x, and in its dtype unless another is given."""
    return full_like(x, 1, dtype=dtype)


@operation
def full_like(x: Any, fill_value: Any, *, dtype: Any = None) -> Tensor:
    """One number in the shape of x, and in its dtype unless another is given."""
    x = tensor_of(x)
    return full(x.shape, fill_value, dtype=dtype or x.dtype)


@operation
def arange(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None) -> Tensor:
    """The numbers from `start` up to, but without, `end`; `arange(n)` starts at 0.

    Raises GraphTypeError for what is no number, GraphValueError for a step of 0.
    """
    start, end = (0, start) if end is None else (start, end)
    given = _number_dtype(start, end, step)
    if _number(step) == 0:
        raise GraphValueError("arange takes a step that is not 0.")
    try:
        return Tensor(np.arange(*map(_number, (start, end, step))), dtype or given)
    except (ValueError, MemoryError, OverflowError):
        raise GraphValueError(f"arange from {start} to {end} by {step} has no end.") from None


def _number(x: Any) -> Any:
    return x.item() if isinstance(x, Tensor) else x


def _number_dtype(*numbers: Any) -> DType:
    return dispatch.promoted_dtype(*(_number(n) for n in numbers))


@operation(classes="OneHot", settings="axis")
def one_hot(indices: Any, depth: int, on_value: Any = 1, off_value: Any = 0, axis: int = -1) -> Tensor:
    """`on_value` at the position along a new axis of size `depth` that each index names, `off_value` elsewhere.

    The dtype is that of `on_value`. An index outside of range(depth) gives `off_value` only. Raises GraphTypeError
    for a depth that is no integer.
    """
    depth = integer("one_hot", "depth", depth)
    on, off = dispatch.promoted(on_value, off_value)
    if _is(on_value, 1) and _is(off_value, 0):
        return apply("one_hot", tensor_of(indices), depth=depth, dtype=on.dtype, axis=axis)
    found = apply("one_hot", tensor_of(indices), depth=depth, dtype=as_dtype(bool), axis=axis)
    return where(found, on, off)


def _is(value: Any, number: int) -> bool:
    return (
        not isinstance(value, Symbol) and value.size == 1 and value.item() == number
        if isinstance(value, Tensor)
        else value == number
    )


@tensor_method("fill")
@in_place("fill_")
def _filled(x: Any, value: Any) -> Tensor:
    """One number everywhere, in the shape and dtype of the tensor."""
    return full_like(x, value)


@tensor_method()
def new_zeros(x: Any, size: Any, *, dtype: Any = None) -> Tensor:
    """Zeros of a size, in the dtype of the tensor unless another is given."""
    return zeros(size, dtype or x.dtype)


@tensor_method()
def new_ones(x: Any, size: Any, *, dtype: Any = None) -> Tensor:
    """Ones of a size, in the dtype of the tensor unless another is given."""
    return ones(size, dtype or x.dtype)


@tensor_method()
def new_full(x: Any, size: Any, fill_value: Any, *, dtype: Any = None) -> Tensor:
    """One number everywhere in a size, in the dtype of the tensor unless another is given."""
    return full(size, fill_value, dtype=dtype or x.dtype)
