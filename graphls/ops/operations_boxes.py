"""Operator classes of boxes in images and of images at points (see `operations`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ops import boxes, ctc, sampling
from graphls.ops.operator import REQUIRED
from graphls.tensors.tensor import Tensor


def _sampled(input_x: Any, grid: Any, interpolation_mode: Any, padding_mode: Any, align_corners: Any) -> Tensor:
    """Images or volumes at points, see `grid_sample`."""
    return sampling.grid_sample(input_x, grid, interpolation_mode, padding_mode, align_corners)


_MODES = {"interpolation_mode": "bilinear", "padding_mode": "zeros", "align_corners": False}
_CODES = {"means": (0.0, 0.0, 0.0, 0.0), "stds": (1.0, 1.0, 1.0, 1.0)}

PLAIN: dict[str, Callable[..., Any]] = {
    "CheckValid": boxes.check_valid,
}

CONFIGURED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "AffineGrid": (sampling.affine_grid, {"align_corners": False}),
    "BoundingBoxDecode": (boxes.bounding_box_decode, {"max_shape": REQUIRED, **_CODES, "wh_ratio_clip": 0.016}),
    "BoundingBoxEncode": (boxes.bounding_box_encode, _CODES),
    "CTCGreedyDecoder": (ctc.ctc_greedy_decoder, {"merge_repeated": True}),
    "CropAndResize": (boxes.crop_and_resize, {"method": "bilinear", "extrapolation_value": 0.0}),
    "GridSampler2D": (_sampled, _MODES),
    "GridSampler3D": (_sampled, _MODES),
}
