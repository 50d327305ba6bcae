"""Dependencies of a compiled step besides its inputs: cell settings and constant tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.graph import Graph
from graphls.nn.cell import Cell
from graphls.step.trained_parameters import TrainedParameters


class Dependent:
    """A step that stays up to date until a cell or a tensor that it was traced from changes."""

    def __init__(self, graph: Graph, parameters: dict[str, Parameter], cells: Sequence[Cell]) -> None:
        self.graph = graph
        self.parameters = parameters
        self.trained = TrainedParameters(graph, parameters, cells)
        self.cells: list[tuple[Cell, Any]] = []
        self.tensors: list[tuple[Tensor, Any]] = []
        self.depend_on(cells)

    def up_to_date(self) -> bool:
        """Whether every cell is configured, and every parameter trained, as when the step was traced."""
        if any(tensor._array is not array for tensor, array in self.tensors):
            return False
        if self._other_dtype() or self.trained.have_changed():
            return False
        return all(cell.configuration() == configuration for cell, configuration in self.cells)

    def depend_on(self, cells: Iterable[Cell], items: Iterable[object] = ()) -> None:
        """Be up to date only as long as these cells, and tensors among their attributes and `items`, do not change."""
        for cell in cells:
            self.cells.append((cell, cell.configuration()))
            self.tensors += _read_tensors(vars(cell).values())
        self.tensors += _read_tensors(items)

    def outdated_by(self) -> str:
        """The change that makes the step permanently out of date; empty if there is none."""
        for cell, configuration in self.cells:
            if cell._version != configuration[-1]:
                return f"{cell._last_changed or 'a part'!r} of {type(cell).__name__}"
        changed = any(tensor._array is not array for tensor, array in self.tensors)
        return "a tensor that is an attribute" if changed else self._other_dtype()

    def _other_dtype(self) -> str:
        """The message about a parameter whose dtype `set_dtype` has changed; empty where there is none."""
        known = {state.name: state.type.dtype for state in self.graph.states}
        other = (name for name, each in self.parameters.items() if each.dtype is not known.get(name, each.dtype))
        return next((f"the dtype of {name!r}" for name in other), "")


def _read_tensors(items: Iterable[object]) -> Iterator[tuple[Tensor, Any]]:
    """The tensors that a graph may have as constants, among objects and in their lists and dicts, with their arrays."""
    for item in items:
        inner = item.values() if isinstance(item, dict) else item if isinstance(item, (list, tuple)) else (item,)
        yield from ((leaf, leaf._array) for leaf in inner if type(leaf) is Tensor and leaf._array is not None)
