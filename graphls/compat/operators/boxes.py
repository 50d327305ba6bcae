"""Operators of MindSpore that choose among boxes, which the host runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import bool_, int32
from graphls.ops.host_calls import pure_callback
from graphls.ops.operands import tensor_of
from graphls.ops.primitive import Operator

__all__ = ["NMSWithMask"]


class NMSWithMask(Operator):
    """`NMSWithMask(iou_threshold)(boxes)`: boxes (N, 5) by falling scores, numbers from 0 on, and which to keep.

    A box has two corners and a score. One that overlaps a better one that is kept by more than the threshold, in share
    of the area of both, is not. Has no gradient. Raises GraphValueError for another shape.
    """

    def __init__(self, iou_threshold: float = 0.5) -> None:
        self.settings = {"iou_threshold": iou_threshold}
        self.iou_threshold = float(iou_threshold)

    def __call__(self, bboxes: TensorLike) -> tuple[Tensor, ...]:
        x = tensor_of(bboxes)
        if x.ndim != 2 or x.shape[1] != 5:
            raise GraphValueError(f"NMSWithMask takes boxes of the shape (N, 5), not {x.shape}.")
        outputs = (x.shape, x.dtype), (x.shape[:1], int32), (x.shape[:1], bool_)
        found: tuple[Tensor, ...] = pure_callback(self._chosen, outputs, x)
        return found

    def _chosen(self, boxes: Any) -> Any:
        boxes = boxes[np.argsort(-boxes[:, 4], kind="stable")]
        kept = np.ones(len(boxes), bool)
        for i in range(len(boxes)):
            if kept[i]:
                kept[i + 1 :] &= _overlaps(boxes[i], boxes[i + 1 :]) <= self.iou_threshold
        return boxes, np.arange(len(boxes), dtype=np.int32), kept


def _overlaps(box: Any, others: Any) -> Any:
    """The intersection of a box with others divided by their union."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:4], others[:, 2:4])
    shared = np.prod(np.maximum(high - low, 0), 1)
    areas = np.prod(others[:, 2:4] - others[:, :2], 1) + np.prod(box[2:4] - box[:2])
    return shared / np.maximum(areas - shared, np.finfo(np.float32).tiny)
