"""Names of `mindspore.common.dtype` for groups of dtypes, and for types that a tensor cannot have."""

from __future__ import annotations

from typing import Any

from graphls.frontend.tensors import dtypes
from graphls.frontend.tensors.tensor import Tensor, is_tensor
from graphls.ir.types import DTYPES, DType, DTypeLike, bfloat16, bool_, float16, float32, float64

__all__ = [
    "all_types", "float_type", "get_py_obj_dtype", "int_type", "issubclass_", "list_", "none_type", "number",
    "number_type", "string", "tensor", "tensor_type", "tuple_", "type_none", "type_size_in_bytes", "uint_type",
]  # fmt: skip

int_type, uint_type = (tuple(dtype for dtype in DTYPES if dtype.kind == kind) for kind in ("int", "uint"))
float_type = (float16, float32, float64, bfloat16)
number_type = (*int_type, *uint_type, *float_type)
all_types = (bool_, *number_type)

number = (int, float, DType)
tensor = tensor_type = Tensor
string, tuple_, list_ = str, tuple, list
type_none = none_type = type(None)


def issubclass_(type_: DTypeLike, dtype: object) -> bool:
    """Tells whether a dtype or class equals or belongs to another: `number` holds all dtypes, `tensor` all tensors."""
    if dtype is number:
        return isinstance(type_, DType) or type_ in (int, float)
    return type_ is dtype or (isinstance(type_, type) and isinstance(dtype, type) and issubclass(type_, dtype))


def get_py_obj_dtype(obj: Any) -> Any:
    """The dtype of a tensor or a number, the class of anything else."""
    if is_tensor(obj):
        return obj.dtype
    return dtypes.pytype_to_dtype(type(obj)) if isinstance(obj, (bool, int, float)) else type(obj)


def type_size_in_bytes(dtype: DType) -> int:
    """The size of one element in bytes."""
    return int(dtype.numpy.itemsize)
