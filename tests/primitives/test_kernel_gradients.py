"""The gradient of kernels with few channels makes few slices."""

from __future__ import annotations

import numpy as np

import graphls
from graphls import ops


def test_slices_are_made_along_one_axis_after_the_other() -> None:
    x, w = np.ones((2, 3, 12, 12), np.float32), np.ones((4, 3, 5, 5), np.float32)
    step = graphls.compile(graphls.grad(lambda x, w: ops.sum(ops.square(ops.conv2d(x, w))), grad_position=1), x, w)
    kinds = [node.op_type for node in step.onnx.graph.node]
    assert kinds.count("Slice") == 10
    assert kinds.count("Concat") == 2
