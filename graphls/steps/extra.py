"""Outputs that passes add to a step, behind those that its function returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphls.ir.errors import GraphRuntimeError, GraphValueError
from graphls.ir.graph import Graph
from graphls.ir.types import Type
from graphls.tensors.pytree import leaves
from graphls.tensors.tensor import Tensor
from graphls.trace.trace import PLACE


class ExtraOutputs:
    """The names of the outputs that passes have added, and the tensors that the last call gave for them."""

    def __init__(self, results: object, graph: Graph, stages: Mapping[str, Graph]) -> None:
        self.first = sum(leaf is PLACE for leaf in leaves(results))
        _check_stages(self.first, stages)
        self.names = [value.name for value in graph.outputs[self.first :]]
        self.tensors: Sequence[Tensor] | None = None

    def split(self, tensors: list[Tensor]) -> list[Tensor]:
        """What the function of the step returns, of all tensors that it gives; the others are kept."""
        if not self.names:
            return tensors
        self.tensors = tensors[self.first :]
        return tensors[: self.first]

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """The values of the last call, by their names in the graph; raises GraphRuntimeError before the first call."""
        if self.names and self.tensors is None:
            raise GraphRuntimeError("The extra outputs of a step are those of its last call; call the step first.")
        return {name: tensor.asnumpy() for name, tensor in zip(self.names, self.tensors or (), strict=True)}


def _check_stages(count: int, stages: Mapping[str, Graph]) -> None:
    """Raise GraphValueError for a pass that has not kept the outputs that the step returns, so many."""
    wanted: list[Type] | None = None
    for name, graph in stages.items():
        types = [value.type for value in graph.outputs[:count]]
        if wanted is not None and types != wanted:
            before, after = (", ".join(map(str, kinds)) or "none" for kinds in (wanted, types))
            text = f"The pass {name.partition('_')[2]!r} made outputs {after} of {before}; it keeps the outputs"
            raise GraphValueError(f"{text} of a step, in their order, and adds others behind them.")
        wanted = types
