"""Dtypes under all names of MindSpore's `common.dtype`, with conversions to NumPy and Python classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError
from graphls.ir.types import (
    DType,
    as_dtype,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

__all__ = [
    "Type", "bfloat16", "bool_", "byte", "double", "dtype_to_nptype", "dtype_to_pytype", "float16", "float32",
    "float64", "float_", "half", "int8", "int16", "int32", "int64", "int_", "intc", "intp", "pytype_to_dtype", "short",
    "single", "ubyte", "uint", "uint8", "uint16", "uint32", "uint64", "uintc", "uintp", "ushort",
]  # fmt: skip

Type = DType
half, single, double, float_ = float16, float32, float64, float64
byte, short, intc, intp, int_ = int8, int16, int32, int64, int64
ubyte, ushort, uintc, uintp, uint = uint8, uint16, uint32, uint64, uint64

_PYTHON: dict[str, type] = {"bool": bool, "int": int, "uint": int, "float": float, "low": float}


def dtype_to_nptype(type_: DType) -> Any:
    """The NumPy class of numbers of a dtype, such as `numpy.float32`.

    Raises GraphTypeError for an object that is not a dtype.

    Examples:
        >>> import graphls
        >>> graphls.dtype_to_nptype(graphls.bfloat16)
        <class 'ml_dtypes.bfloat16'>
    """
    return as_dtype(type_).numpy.type


def dtype_to_pytype(type_: DType) -> type:
    """The class of Python numbers of a dtype: bool, int or float.

    Raises GraphTypeError for an object that is not a dtype.

    Examples:
        >>> import graphls
        >>> graphls.dtype_to_pytype(graphls.float16), graphls.dtype_to_pytype(graphls.int8)
        (<class 'float'>, <class 'int'>)
    """
    return _PYTHON[as_dtype(type_).kind]


def pytype_to_dtype(obj: object) -> DType:
    """The dtype of a class of numbers of Python or NumPy; raises GraphTypeError for another object.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> graphls.pytype_to_dtype(float), graphls.pytype_to_dtype(np.int16)
        (Float64, Int16)
    """
    python: dict[Any, DType] = {bool: bool_, int: int64, float: float64}
    if obj in python:
        return python[obj]
    if isinstance(obj, type) and issubclass(obj, np.generic):
        return as_dtype(obj)
    raise GraphTypeError(f"{obj!r} is not a class of numbers that a dtype belongs to.")
