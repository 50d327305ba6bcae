"""Tensors and numbers made into one another, and what is known of them."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import as_dtype, bool_, float32, float64, int32, int64
from graphls.ops.creation import full_like
from graphls.ops.elementwise import cast
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation
from graphls.tensors.tensor import Tensor


@operation
def deepcopy(input_x: Any) -> Tensor:
    """A tensor of its own with the same value: assigning to elements of one leaves the other as it is."""
    return tensor_of(input_x)


@operation(classes="TensorShape")
def dyn_shape(input_x: Any) -> Tensor:
    """The sizes of the axes as an int64 vector."""
    return Tensor(list(tensor_of(input_x).shape), int64)


@operation(classes="Fills")
def fills(x: Any, value: Any) -> Tensor:
    """One number in the shape and dtype of x."""
    return full_like(x, value)


@operation
def type_as(input: Any, other: Any) -> Tensor:
    """x in the dtype of another tensor."""
    return cast(input, tensor_of(other).dtype)


@operation(classes="ScalarCast")
def scalar_cast(input_x: Any, input_y: Any) -> Any:
    """A Python number as one of the kind of a dtype: an int, a float or a bool.

    Raises GraphTypeError for what is no number, GraphValueError for another dtype than int32, int64, float32, float64
    and bool.
    """
    kinds: dict[Any, Any] = {int32: int, int64: int, float32: float, float64: float, bool_: bool}
    dtype = as_dtype(input_y)
    if dtype not in kinds:
        raise GraphValueError(f"scalar_cast makes no {dtype.long_name}.")
    return kinds[dtype](_number("scalar_cast", input_x))


@operation(classes="ScalarToArray")
def scalar_to_array(input_x: Any) -> Tensor:
    """A Python number as a tensor without axes: int64, float32 or bool; raises GraphTypeError for anything else."""
    return Tensor(_number("scalar_to_array", input_x), _dtype_of(input_x))


@operation(classes="TupleToArray")
def tuple_to_array(input_x: Any) -> Tensor:
    """A tuple of numbers as a vector: int64, or float32 where the first is a float.

    Raises GraphTypeError for anything else, GraphValueError for an empty tuple.
    """
    if not isinstance(input_x, (tuple, list)):
        raise GraphTypeError(f"tuple_to_array takes a tuple of numbers, not {input_x!r}.")
    if not input_x:
        raise GraphValueError("tuple_to_array takes one number or more.")
    numbers = [_number("tuple_to_array", n) for n in input_x]
    return Tensor(numbers, _dtype_of(numbers[0]))


def _number(name: str, value: Any) -> Any:
    if not isinstance(value, (bool, int, float)):
        raise GraphTypeError(f"{name} takes Python numbers, not {value!r}.")
    return value


def _dtype_of(number: Any) -> Any:
    return bool_ if isinstance(number, bool) else int64 if isinstance(number, int) else float32
