"""Which weights of a network can have adapters, and how products use them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from graphls.base.errors import GraphValueError
from graphls.frontend.trace.trace import trace
from graphls.ir.graph import Graph, Node
from graphls.nn.cell import Cell
from graphls.passes.adapters.weights import WeightFinder


@dataclass(frozen=True)
class Site:
    """A weight by its path in the network: the module that adapters are named after, and the axis that is summed over.

    Kernels of convolutions have no such axis.
    """

    path: str
    module: str
    axis: int | None


@runtime_checkable
class KnowsProducts(Protocol):
    """A cell that can say of its weights how they are used without running, as that of an ONNX model."""

    def products(self) -> dict[str, tuple[str, int | None]]:
        """By path of the weight, the name of the module and the axis that is summed over."""


def sites(net: Cell, inputs: Sequence[object]) -> list[Site]:
    """The weights that can have adapters: as a trace on inputs shows, or without these as cells say it themselves."""
    return list(_traced(net, inputs) if inputs else _said(net))


def _said(net: Cell) -> Iterator[Site]:
    paths = {id(parameter): path for path, parameter in net.parameters_and_names()}
    knowing = [(path, cell) for path, cell in net.cells_and_names() if isinstance(cell, KnowsProducts)]
    if not knowing:
        text = f"How {type(net).__name__} uses its weights shows when it runs; give inputs like those it takes"
        raise GraphValueError(f"{text}: lora(net, x, ...).")
    for prefix, cell in knowing:
        assert isinstance(cell, Cell) and isinstance(cell, KnowsProducts)
        own = dict(cell.parameters_and_names())
        for path, (module, axis) in cell.products().items():
            yield Site(paths[id(own[path])], ".".join(filter(None, (prefix, module))), axis)


def _traced(net: Cell, inputs: Sequence[object]) -> Iterator[Site]:
    traced = trace(net, tuple(inputs))
    paths = {id(parameter): path for path, parameter in net.parameters_and_names()}
    finding = _Finding(traced.graph)
    finding.run()
    for name, axis in finding.axes.items():
        path = paths.get(id(traced.parameters[name]))
        if path is not None and name not in finding.elsewhere:
            yield Site(path, path.removesuffix(".weight"), axis)


class _Finding(WeightFinder):
    """A sweep that changes nothing and notes the weights of products, and the states that other nodes read."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.axes: dict[str, int | None] = {}
        self.elsewhere: set[str] = set()

    def visit(self, node: Node) -> Node:
        found = self.product(node)
        if found is not None and found.groups == 1:
            self.axes.setdefault(found.state.name, found.axis)
        states = [self.origin(value)[0] for value in node.inputs]
        for i, state in enumerate(states):
            if state.is_state and not (found is not None and i == 1) and not self.passes_on(node):
                self.elsewhere.add(state.name)
        return node
