"""Lowers nodes with empty results to constants.

Optimizers of ONNX Runtime divide by the sizes of what an operator takes, which ends the process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.graph import Node


def results_of_nothing(node: Node) -> list[Any]:
    """The results of a node that computes nothing."""
    if not any(v.type.size for v in node.outputs):
        return [np.zeros(v.type.shape) for v in node.outputs]
    kinds = [v.type for v in node.inputs]
    shapes = [(0, *kind.shape) if kind.stacked else kind.shape for kind in kinds]  # however many a stack will have
    operands = tuple(np.zeros(shape, kind.dtype.numpy) for shape, kind in zip(shapes, kinds, strict=True))
    with np.errstate(all="ignore"):
        return list(node.primitive.evaluate(operands, node.attrs, tuple(v.type for v in node.outputs)))
