"""A warning about scatter-adds on a GPU, whose order of summation varies from run to run."""

from __future__ import annotations

from onnx import NodeProto

from graphls.base.reporting import warn
from graphls.runtime.lowering.lowering import Lowered
from graphls.runtime.lowering.protos import operators


def warn_of_scattered_sums(lowered: Lowered) -> None:
    """Warn at the first line whose step, or whose gradient, adds at places that may be the same."""
    node = next((node for node in operators(lowered.model.graph.node) if _adds_at_places(node)), None)
    if node is None:
        return
    origin = lowered.origins.get(node.name)
    warn(
        "The runtime has no deterministic kernel for sums at places that an index says, such as the gradient of an "
        "embedding, so that the last bits of this step differ from run to run.",
        None if origin is None else origin.loc,
    )


def _adds_at_places(node: NodeProto) -> bool:
    return node.op_type.startswith("Scatter") and any(a.name == "reduction" and a.s == b"add" for a in node.attribute)
