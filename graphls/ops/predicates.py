"""Questions about a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import bfloat16, bool_
from graphls.ops.creation import full_like, ones
from graphls.ops.logic import bool_of
from graphls.ops.operands import tensor_of
from graphls.ops.record import operation
from graphls.ops.shapes import reshape
from graphls.tensors.tensor import Tensor


@operation
def is_tensor(obj: Any) -> bool:
    """Whether something is a Tensor; parameters and values of the graph are, arrays of NumPy are not."""
    return isinstance(obj, Tensor)


@operation
def is_floating_point(input: Any) -> bool:
    """Whether the elements are floats."""
    return tensor_of(input).dtype.is_float


@operation
def is_complex(input: Any) -> bool:
    """Whether the elements are complex: they never are."""
    tensor_of(input)
    return False


@operation
def isreal(input: Any) -> Tensor:
    """Whether each element is real: each is."""
    return ones(tensor_of(input).shape, bool_)


@operation
def is_nonzero(input: Any) -> Tensor:
    """Whether the only element is not 0, as a bool without axes; raises GraphValueError where there is not just one."""
    x = tensor_of(input)
    if x.size != 1:
        raise GraphValueError(f"is_nonzero takes a tensor of one element, not {x.type}.")
    return reshape(bool_of(x), ())


@operation
def numel(input: Any) -> int:
    """The number of elements."""
    return tensor_of(input).size


@operation(classes="Eps")
def eps(x: Any) -> Tensor:
    """The distance from 1 to the next number in the dtype of x, everywhere; raises GraphTypeError for integers."""
    x = tensor_of(x)
    if not x.dtype.is_float:
        raise GraphTypeError(f"eps takes floating point numbers, not {x.type}.")
    return full_like(x, 2.0**-7 if x.dtype is bfloat16 else float(np.finfo(x.dtype.numpy).eps))
