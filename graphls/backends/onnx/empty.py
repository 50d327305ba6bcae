"""Nodes whose operands or results have no elements: they are constants of the model."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.graph import Node
from graphls.ir.types import TOKEN


def takes_or_gives_nothing(node: Node) -> bool:
    """Whether all operands, or all results, of a node have no elements: so the results are known, and are constants.

    Optimizers of ONNX Runtime divide by the sizes of what an operator takes, which ends the process.
    """
    if node.regions or any(v.type == TOKEN for v in (*node.inputs, *node.outputs)):
        return False
    operands, results = ([v.type.size for v in values] for values in (node.inputs, node.outputs))
    return not any(results) or (bool(operands) and not any(operands))


def results_of_nothing(node: Node) -> list[Any]:
    """The results of a node that takes or gives nothing."""
    if not any(v.type.size for v in node.outputs):
        return [np.zeros(v.type.shape) for v in node.outputs]
    operands = tuple(np.zeros(v.type.shape, v.type.dtype.numpy) for v in node.inputs)
    with np.errstate(all="ignore"):
        return list(node.primitive.evaluate(operands, node.attrs, tuple(v.type for v in node.outputs)))
