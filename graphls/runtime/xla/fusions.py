"""The kernels of a compiled program, and the nodes that XLA fused into each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphls.ir.graph import Graph
from graphls.runtime.kernels import FusedKernel
from graphls.runtime.xla.instructions import CONTROL, Instructions

NO_KERNELS = frozenset(("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "iota", "after-all"))
"""Operations that compute nothing."""


def fused_kernels(program: Any, graph: Graph) -> Iterator[FusedKernel]:
    """The kernels of a compiled program of a graph, in the order of its text, those in branches and loops included."""
    instructions = Instructions(program.as_text(), graph)
    for computation in instructions.runs():
        for instruction in instructions.of(computation):
            if instruction.operation not in NO_KERNELS | CONTROL:
                nodes = dict.fromkeys([instruction.node, *instructions.nodes(instruction.called)])
                present = tuple(node for node in nodes if node is not None)
                yield FusedKernel(instruction.name, instruction.operation, present)
