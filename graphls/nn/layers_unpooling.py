"""Layers that undo maximum pooling."""

from __future__ import annotations

from typing import Any, ClassVar

from graphls import ops
from graphls.nn.cell import Cell
from graphls.ops.unpooling import window_sizes
from graphls.tensors.tensor import Tensor

__all__ = ["MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]


class MaxUnpool2d(Cell):
    """The elements of images (N, C, H, W) or (C, H, W) at the places that MaxPool2d found them, zeros elsewhere.

    A call takes the elements, their int32 or int64 places and, where it is not (size - 1) * stride - 2 * padding +
    kernel, the size of the result; see `ops.max_unpool2d`. Raises GraphTypeError and GraphValueError for arguments that
    do not fit.
    """

    axes: ClassVar[int] = 2
    function: ClassVar[Any] = staticmethod(ops.max_unpool2d)

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = window_sizes(kernel_size, stride, padding, self.axes)

    def construct(self, x: Any, indices: Any, output_size: Any = None) -> Tensor:
        result: Tensor = type(self).function(
            x, indices, self.kernel_size, self.stride, self.padding, output_size
        )
        return result

    def extend_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(MaxUnpool2d):
    """The elements of (N, C, L) or (C, L) at the places that MaxPool1d found them; see MaxUnpool2d."""

    axes, function = 1, staticmethod(ops.max_unpool1d)


class MaxUnpool3d(MaxUnpool2d):
    """The elements of (N, C, D, H, W) or (C, D, H, W) at the places that MaxPool3d found them; see MaxUnpool2d."""

    axes, function = 3, staticmethod(ops.max_unpool3d)
