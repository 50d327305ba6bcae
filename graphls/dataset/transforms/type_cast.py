"""Columns in another dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.transforms.checks import dtype
from graphls.dataset.transforms.operation import TensorOperation
from graphls.ir.errors import GraphRuntimeError


class TypeCast(TensorOperation):
    """The column in `data_type`, a dtype of graphls or NumPy or its name; numbers cast as in C.

    Raises GraphTypeError for what is no dtype, GraphRuntimeError for strings as numbers or numbers as strings.
    """

    def __init__(self, data_type: Any) -> None:
        self.data_type = dtype("data_type", data_type)

    def apply(self, column: Any) -> Any:
        if (column.dtype.kind in "SU") != (self.data_type.kind in "SU"):
            text = f"{type(self).__name__} makes no {self.data_type} of {column.dtype}; use text.ToNumber for strings."
            raise GraphRuntimeError(text)
        with np.errstate(invalid="ignore", over="ignore"):
            if column.dtype.kind == "f" and self.data_type.kind in "iu" and self.data_type.itemsize < 8:
                column = column.astype(np.int64)
            return column.astype(self.data_type)
