"""Layers that give images another size."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.nn.cell import Cell
from graphls.nn.checks import boolean, positive_int
from graphls.ops.operands import float_of
from graphls.ops.resize import linear, scaled_positions, weighted
from graphls.tensors.tensor import Tensor

__all__ = ["PixelShuffle", "PixelUnshuffle", "ResizeBilinear", "Upsample"]


class Upsample(Cell):
    """Images (N, C, sizes...) resized to `size` or by `scale_factor`, with the modes of `ops.interpolate`."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def construct(self, x: Any) -> Tensor:
        return ops.interpolate(
            x, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extend_repr(self) -> str:
        return f"size={self.size}, scale_factor={self.scale_factor}, mode={self.mode}"


class ResizeBilinear(Cell):
    """Images (N, C, H, W) resized to `size`, or by the integer `scale_factor`, between their four neighbours.

    A new pixel lies at position * old / new, with `half_pixel_centers` between the centres, and with `align_corners`
    where the corners stay. Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    def __init__(self, half_pixel_centers: bool = False) -> None:
        super().__init__()
        self.half_pixel_centers = boolean("ResizeBilinear", "half_pixel_centers", half_pixel_centers)

    def construct(self, input: Any, size: Any = None, scale_factor: Any = None, align_corners: bool = False) -> Tensor:
        x = float_of(input)
        if x.ndim != 4 or 0 in x.shape[2:]:
            raise GraphValueError(f"ResizeBilinear takes images with pixels of rank 4, not {x.type}.")
        if self.half_pixel_centers and align_corners:
            raise GraphValueError("ResizeBilinear with half_pixel_centers takes no 'align_corners'.")
        y = x
        for axis, count in enumerate(_sizes(x, size, scale_factor), 2):
            where = scaled_positions(x.shape[axis], count, align_corners, self.half_pixel_centers)
            y = weighted(y, axis, linear(where, x.shape[axis]))
        return y


def _sizes(x: Tensor, size: Any, scale_factor: Any) -> tuple[int, int]:
    if (size is None) == (scale_factor is None):
        raise GraphValueError("ResizeBilinear takes either a 'size' or a 'scale_factor'.")
    if size is None:
        factor = positive_int("ResizeBilinear", "scale_factor", scale_factor)
        return x.shape[2] * factor, x.shape[3] * factor
    if not isinstance(size, (tuple, list)) or len(size) != 2:
        raise GraphTypeError(f"The 'size' of ResizeBilinear is two integers, not {size!r}.")
    return positive_int("ResizeBilinear", "size", size[0]), positive_int("ResizeBilinear", "size", size[1])


class PixelShuffle(Cell):
    """Channels as pixels: (..., C * r * r, H, W) to (..., C, H * r, W * r), for r = `upscale_factor`."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = positive_int("PixelShuffle", "upscale_factor", upscale_factor)

    def construct(self, x: Any) -> Tensor:
        return ops.pixel_shuffle(x, self.upscale_factor)

    def extend_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Cell):
    """Pixels as channels: (..., C, H * r, W * r) to (..., C * r * r, H, W), for r = `downscale_factor`."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = positive_int("PixelUnshuffle", "downscale_factor", downscale_factor)

    def construct(self, x: Any) -> Tensor:
        return ops.pixel_unshuffle(x, self.downscale_factor)

    def extend_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"
