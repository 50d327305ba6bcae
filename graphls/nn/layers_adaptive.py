"""Layers that pool images with one to three axes to a given size."""

from __future__ import annotations

from typing import Any, ClassVar

from graphls import ops
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean
from graphls.ops.adaptive import check_output_size

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
]  # fmt: skip


class _AdaptivePool(Cell):
    """Windows that make an image of a given size out of one of any size."""

    axes: ClassVar[int] = 2
    function: ClassVar[Any]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = check_output_size(output_size, self.axes)

    def construct(self, x: Any) -> Any:
        return type(self).function(x, self.output_size)

    def extend_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """The means of windows that make (N, C, L) or (C, L) a given length; see AdaptiveAvgPool2d."""

    axes, function = 1, staticmethod(ops.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePool):
    """The means of windows that make (N, C, H, W) or (C, H, W) a given size; None keeps the size of an axis.

    Raises GraphTypeError and GraphValueError for sizes that are no positive integers.
    """

    function = staticmethod(ops.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptivePool):
    """The means of windows that make (N, C, D, H, W) or (C, D, H, W) a given size; see AdaptiveAvgPool2d."""

    axes, function = 3, staticmethod(ops.adaptive_avg_pool3d)


class AdaptiveMaxPool2d(_AdaptivePool):
    """The largest elements of windows that make (N, C, H, W) or (C, H, W) a given size.

    With `return_indices` also the int64 position of each element in its image. Sizes are as in AdaptiveAvgPool2d.
    """

    function = staticmethod(ops.adaptive_max_pool2d)

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = boolean(type(self).__name__, "return_indices", return_indices)

    def construct(self, x: Any) -> Any:
        return type(self).function(x, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(AdaptiveMaxPool2d):
    """The largest elements of windows that make (N, C, L) or (C, L) a given length; see AdaptiveMaxPool2d."""

    axes, function = 1, staticmethod(ops.adaptive_max_pool1d)


class AdaptiveMaxPool3d(AdaptiveMaxPool2d):
    """The largest elements of windows that make (N, C, D, H, W) or (C, D, H, W) a given size; see AdaptiveMaxPool2d."""

    axes, function = 3, staticmethod(ops.adaptive_max_pool3d)
