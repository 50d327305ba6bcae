"""Attributes of tensors such as shape and dtype, predicates, and conversions of Python numbers to tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.checks import python_number
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DType, as_dtype, bfloat16, bool_, float32, float64, int32, int64
from graphls.ops.arrays.creation import full_like, ones
from graphls.ops.arrays.shapes import reshape
from graphls.ops.math.elementwise import bool_of, cast
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation, operator_class, tensor_method


@operation(classes="Shape", method=False)
def shape(x: TensorLike) -> tuple[int, ...]:
    """The sizes of the axes."""
    return tensor_of(x).shape


@operation(classes="DType", method=False)
def dtype(x: TensorLike) -> DType:
    """The element type; for a parameter in a cell with `to_float`, the dtype of the computation."""
    return tensor_of(x).dtype


@operation(classes="Rank")
def rank(x: TensorLike) -> int:
    """The number of axes."""
    return tensor_of(x).ndim


@operation(classes="Size", method=False)
def size(x: TensorLike) -> int:
    """The number of elements."""
    return tensor_of(x).size


@tensor_method()
def dim(x: TensorLike) -> int:
    """The number of axes."""
    return tensor_of(x).ndim


@tensor_method()
def ndimension(x: TensorLike) -> int:
    """The number of axes."""
    return tensor_of(x).ndim


@tensor_method()
def nelement(x: TensorLike) -> int:
    """The number of elements."""
    return tensor_of(x).size


@tensor_method()
def numpy(x: Tensor) -> Any:
    """The data as a NumPy array; waits for the step that computes it."""
    return x.asnumpy()


@tensor_method()
def clone(x: Tensor) -> Tensor:
    """A tensor with the same data."""
    copy: Tensor = x.copy()
    return copy


@tensor_method()
def contiguous(x: TensorLike) -> Any:
    """The tensor itself: its elements are always in row-major order in memory."""
    return x


@operation
def is_tensor(obj: TensorLike) -> bool:
    """True for a Tensor, including parameters and values of the graph, false for NumPy arrays."""
    return isinstance(obj, Tensor)


@operation
def is_floating_point(input: TensorLike) -> bool:
    """True if the elements are floats."""
    return tensor_of(input).dtype.is_float


@operation
def is_complex(input: TensorLike) -> bool:
    """False: there are no complex tensors."""
    tensor_of(input)
    return False


@operation
def isreal(input: TensorLike) -> Tensor:
    """True for each element: there are no complex tensors."""
    return ones(tensor_of(input).shape, bool_)


@operation
def is_nonzero(input: TensorLike) -> Tensor:
    """True if the only element is not 0, a bool without axes; raises GraphValueError for other numbers of elements."""
    x = tensor_of(input)
    if x.size != 1:
        raise GraphValueError(f"is_nonzero takes a tensor of one element, not {x.type}.")
    return reshape(bool_of(x), ())


@operation
def numel(input: TensorLike) -> int:
    """The number of elements."""
    return tensor_of(input).size


@operation(classes="Eps")
def eps(x: TensorLike) -> Tensor:
    """The distance from 1 to the next number in the dtype of x, everywhere; raises GraphTypeError for integers."""
    x = tensor_of(x)
    if not x.dtype.is_float:
        raise GraphTypeError(f"eps takes floating point numbers, not {x.type}.")
    return full_like(x, 2.0**-7 if x.dtype is bfloat16 else float(np.finfo(x.dtype.numpy).eps))


@operation
def deepcopy(input_x: TensorLike) -> Tensor:
    """A copy of a tensor: assigning to elements of one leaves the other unchanged."""
    return tensor_of(input_x)


@operation(classes="TensorShape")
def dyn_shape(input_x: TensorLike) -> Tensor:
    """The sizes of the axes as an int64 vector."""
    return Tensor(list(tensor_of(input_x).shape), int64)


@operation(classes="Fills")
def fills(x: TensorLike, value: TensorLike) -> Tensor:
    """One number in the shape and dtype of x."""
    return full_like(x, value)


@operation
def type_as(input: TensorLike, other: TensorLike) -> Tensor:
    """x in the dtype of another tensor."""
    return cast(input, tensor_of(other).dtype)


@operation(classes="ScalarCast", checks={"input_x": python_number})
def scalar_cast(input_x: TensorLike, input_y: Any) -> Any:
    """A Python number converted to the Python type of a dtype: an int, a float or a bool.

    Raises GraphTypeError for anything but a number, GraphValueError for another dtype than int32, int64, float32,
    float64 and bool.
    """
    kinds: dict[Any, Any] = {int32: int, int64: int, float32: float, float64: float, bool_: bool}
    dtype = as_dtype(input_y)
    if dtype not in kinds:
        raise GraphValueError(f"scalar_cast makes no {dtype.long_name}.")
    return kinds[dtype](input_x)


@operation(classes="ScalarToArray", checks={"input_x": python_number})
def scalar_to_array(input_x: TensorLike) -> Tensor:
    """A Python number as a tensor without axes: int64, float32 or bool; raises GraphTypeError for anything else."""
    return Tensor(input_x, _dtype_of(input_x))


@operation(classes="TupleToArray")
def tuple_to_array(input_x: TensorLike) -> Tensor:
    """A tuple of numbers as a vector: int64, or float32 where the first is a float.

    Raises GraphTypeError for anything else, GraphValueError for an empty tuple.
    """
    if not isinstance(input_x, (tuple, list)):
        raise GraphTypeError(f"tuple_to_array takes a tuple of numbers, not {input_x!r}.")
    if not input_x:
        raise GraphValueError("tuple_to_array takes one number or more.")
    numbers = [python_number("tuple_to_array", "input_x", n) for n in input_x]
    return Tensor(numbers, _dtype_of(numbers[0]))


def _dtype_of(number: TensorLike) -> Any:
    return bool_ if isinstance(number, bool) else int64 if isinstance(number, int) else float32


@operator_class("DynamicShape", "dtype", like=dyn_shape)
def _dynamic_shape(input: TensorLike, dtype: int = 9) -> Tensor:
    return dyn_shape(input)
