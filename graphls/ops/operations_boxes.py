"""Operator classes of boxes in images and of images at points (see `operations`)."""

from __future__ import annotations

from typing import Any

from graphls.ops import sampling
from graphls.ops.record import operator_class
from graphls.tensors.tensor import Tensor


@operator_class(
    "GridSampler2D GridSampler3D",
    "interpolation_mode padding_mode align_corners",
    defaults={"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False},
)
def _sampled(input_x: Any, grid: Any, interpolation_mode: Any, padding_mode: Any, align_corners: Any) -> Tensor:
    """Images or volumes at points, see `grid_sample`."""
    return sampling.grid_sample(input_x, grid, interpolation_mode, padding_mode, align_corners)
