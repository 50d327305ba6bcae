"""How much boxes in images share."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ops.arithmetic import div_no_nan
from graphls.ops.elementwise import add, maximum, minimum, mul, sub
from graphls.ops.operands import floats, in_single
from graphls.ops.record import operation
from graphls.ops.shapes import cut, expand_dims, squeeze
from graphls.tensors.tensor import Tensor


@operation(classes="IOU", settings="mode")
def iou(anchor_boxes: Any, gt_boxes: Any, mode: str = "iou") -> Tensor:
    """The area that boxes share, as a part of all that they cover, or with "iof" of the second ones; 0 of no area.

    The boxes (x0, y0, x1, y1) have shapes (n, 4) and (m, 4), the result (m, n). Raises GraphValueError for other shapes
    and modes.
    """
    anchors, truths = floats(anchor_boxes, gt_boxes)
    if any(boxes.ndim != 2 or boxes.shape[-1] != 4 for boxes in (anchors, truths)):
        raise GraphValueError(f"iou takes rows of four numbers, not {anchors.type} and {truths.type}.")
    if mode not in ("iou", "iof"):
        raise GraphValueError(f"The mode of iou is 'iou' or 'iof', not {mode!r}.")
    return in_single(lambda a, t: _shared(expand_dims(a, 0), expand_dims(t, 1), mode), anchors, truths)


def _shared(anchors: Tensor, truths: Tensor, mode: str) -> Tensor:
    (low, high), (other_low, other_high) = _corners(anchors), _corners(truths)
    overlap, area = _area(maximum(low, other_low), minimum(high, other_high)), _area(other_low, other_high)
    return div_no_nan(overlap, area if mode == "iof" else sub(add(area, _area(low, high)), overlap))


def _corners(boxes: Tensor) -> tuple[Tensor, Tensor]:
    return cut(boxes, 2, 0, 2), cut(boxes, 2, 2, 4)


def _area(low: Tensor, high: Tensor) -> Tensor:
    """The areas of boxes by their corners; 0 where a side is negative."""
    sides = maximum(sub(high, low), 0.0)
    return squeeze(mul(cut(sides, 2, 0, 1), cut(sides, 2, 1, 2)), 2)
