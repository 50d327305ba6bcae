"""Helpers of `mindspore.nn.wrap.loss_scale` that custom training steps import: unscaling and overflow checks."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.frontend.tensors.tensor import Tensor
from graphls.ops.arrays.scattering import RowTensor

__all__ = [
    "_grad_overflow", "_grad_scale", "_tensor_grad_overflow", "_tensor_grad_overflow_row_tensor", "grad_overflow",
    "grad_scale", "reciprocal", "tensor_grad_scale", "tensor_grad_scale_row_tensor",
]  # fmt: skip

reciprocal, grad_overflow = ops.Reciprocal(), ops.FloatStatus()
grad_scale = _grad_scale = ops.MultitypeFuncGraph("grad_scale")
_grad_overflow = ops.MultitypeFuncGraph("_grad_overflow")


@_grad_scale.register("Tensor", "Tensor")
def tensor_grad_scale(scale: Tensor, grad: Tensor) -> Any:
    """A gradient divided by a scale, in its own dtype."""
    return grad * ops.cast(reciprocal(scale), grad.dtype)


@_grad_scale.register("Tensor", "RowTensor")
def tensor_grad_scale_row_tensor(scale: Tensor, grad: Any) -> RowTensor:
    """The rows of a gradient divided by a scale."""
    return RowTensor(grad.indices, tensor_grad_scale(scale, grad.values), grad.dense_shape)


@_grad_overflow.register("Tensor")
def _tensor_grad_overflow(grad: Tensor) -> Any:
    """1 if a gradient holds an infinity or nan, else 0: float32 of shape (1,)."""
    return grad_overflow(grad)


@_grad_overflow.register("RowTensor")
def _tensor_grad_overflow_row_tensor(grad: Any) -> Any:
    """1 if the rows of a gradient hold an infinity or nan, else 0: float32 of shape (1,)."""
    return grad_overflow(grad.values)
