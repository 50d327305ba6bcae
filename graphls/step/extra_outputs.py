"""Outputs that passes add to a step, after those of its function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.frontend.tensors.pytree import leaves
from graphls.frontend.tensors.tensor import Tensor
from graphls.frontend.trace.trace import PLACE, Traced
from graphls.ir.graph import Graph, Value


class ExtraOutputs:
    """The names of the outputs that passes have added, and the tensors that the last call gave for them."""

    def __init__(self, results: object, graph: Graph) -> None:
        self.first = sum(leaf is PLACE for leaf in leaves(results))
        self.names = [value.name for value in graph.outputs[self.first :]]
        self.tensors: Sequence[Tensor] | None = None

    def split(self, tensors: list[Tensor]) -> list[Tensor]:
        """The results of the step's function among all its tensors; the others are kept."""
        if not self.names:
            return tensors
        self.tensors = tensors[self.first :]
        return tensors[: self.first]

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The values of the last call, by their names in the graph; raises GraphRuntimeError before the first call."""
        if self.names and self.tensors is None:
            raise GraphRuntimeError("The extra outputs of a step are those of its last call; call the step first.")
        return {name: tensor.asnumpy() for name, tensor in zip(self.names, self.tensors or (), strict=True)}


def check_stages(traced: Traced, stages: Mapping[str, Graph]) -> None:
    """Raise GraphValueError for a pass that has not kept what calls of the step give and take.

    These are the inputs, the outputs that there were, and states that parameters hold.
    """
    count, before = len(traced.graph.outputs), traced.graph
    for name, graph in stages.items():
        called = f"The pass {name.partition('_')[2]!r}"
        for what, old, new in (
            ("outputs", before.outputs[:count], graph.outputs[:count]),
            ("inputs", before.inputs, graph.inputs),
        ):
            if _types(new) != _types(old):
                text = f"{called} made {what} {_types(new) or 'none'} of {_types(old) or 'none'}; it keeps the {what}"
                raise GraphValueError(f"{text} of a step, in their order, and may add others behind the outputs only.")
        strange = [state.name for state in graph.states if state.name not in traced.parameters]
        if strange:
            text = f"{called} added the state {strange[0]!r}, which is not a parameter"
            raise GraphValueError(f"{text}; a step has the states that its cell has, so give the cell a Parameter.")


def _types(values: Sequence[Value]) -> str:
    return ", ".join(str(value.type) for value in values)
