"""Layers that put back what a maximum over windows took."""

from __future__ import annotations

from typing import Any, ClassVar

from graphls.nn.cell import Cell
from graphls.ops.unpooling import unpooled
from graphls.tensor import Tensor

__all__ = ["MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d"]


class MaxUnpool2d(Cell):
    """Zeros with the elements of (N, C, H, W) or (C, H, W) where `max_pool2d` found them, by its positions.

    A size becomes (size - 1) * stride - 2 * padding + kernel unless `output_size`, sizes or a whole shape, is given.
    The stride is the size of the window unless given. Raises GraphTypeError and GraphValueError where sizes do not fit.
    """

    axes: ClassVar[int] = 2

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding

    def construct(self, x: Any, indices: Any, output_size: Any = None) -> Tensor:
        windows = self.kernel_size, self.stride, self.padding
        return unpooled(type(self).__name__, self.axes, x, indices, *windows, output_size)

    def extend_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(MaxUnpool2d):
    """The same for (N, C, L) or (C, L); see MaxUnpool2d."""

    axes = 1


class MaxUnpool3d(MaxUnpool2d):
    """The same for (N, C, D, H, W) or (C, D, H, W); see MaxUnpool2d."""

    axes = 3
