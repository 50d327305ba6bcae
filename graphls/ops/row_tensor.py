"""Rows of a tensor of another size, which is what MindSpore calls a RowTensor."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.creation import zeros
from graphls.ops.operands import tensor_of
from graphls.ops.scattering import index_add
from graphls.tensors.tensor import Tensor


class RowTensor:
    """Rows of a tensor of another size: their numbers along the first axis, and their values.

    Raises GraphTypeError and GraphValueError where the parts do not fit.
    """

    def __init__(self, indices: Any = None, values: Any = None, shape: Any = None, row_tensor: Any = None) -> None:
        if isinstance(row_tensor, RowTensor):
            indices, values, shape = row_tensor.indices, row_tensor.values, row_tensor.dense_shape
        if not isinstance(shape, (tuple, list)):
            raise GraphTypeError(f"The shape of a RowTensor is a tuple, not {shape!r}.")
        self.indices: Tensor = tensor_of(indices)
        self.values: Tensor = tensor_of(values)
        self.dense_shape: tuple[int, ...] = tuple(shape)
        if self.indices.ndim != 1 or self.values.shape != (self.indices.size, *self.dense_shape[1:]):
            text = f"The rows {self.values.type} at {self.indices.type} are none of a tensor of {self.dense_shape}."
            raise GraphValueError(text)

    @property
    def dtype(self) -> Any:
        """The dtype of the values."""
        return self.values.dtype

    def to_dense(self) -> Tensor:
        """The whole tensor, zero in other rows; rows with one number are added."""
        dense: Tensor = index_add(zeros(self.dense_shape, self.dtype), self.indices, self.values, 0)
        return dense
