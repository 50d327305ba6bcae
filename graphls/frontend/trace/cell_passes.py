"""Cell passes: rewrites of the nodes of one cell during the trace, before gradients are taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.pytree import leaves
from graphls.frontend.tensors.tensor import Symbol
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.build import substitute, substitute_region
from graphls.ir.graph import Graph, Node, Value, uses, walk


class CellPass(Protocol):
    """A pass that preserves every value of the graph and computes some of them in another way.

    The states are all parameters of the cell by their paths of attributes, also those that are not read yet.
    """

    def rewrite(self, graph: Graph, training: bool) -> Graph:
        """The graph after the pass, with the same states; its writes become writes of the cell."""


class HasPasses(Protocol):
    """The interface of a cell as far as passes need it."""

    _passes: tuple[CellPass, ...]
    training: bool

    def parameters_and_names(self) -> Any:
        """Its parameters with their paths of attributes."""


def run_passes(tracer: Tracer, cell: HasPasses, first: int, start: int, outputs: object) -> None:
    """Replace the nodes of a cell, those from `first` on, by the results of its passes.

    `start` is the number of writes when the cell was called.
    """
    nodes, before = tracer.builder.nodes, dict(tracer.writes[:start])
    parameters = dict(cell.parameters_and_names())
    values = ((path, before.get(p) or tracer.states.get(p)) for path, p in parameters.items())
    known = {path: value for path, value in values if value is not None}
    graph = _graph(nodes[first:], parameters, known, outputs).replace(mesh=tracer.mesh)
    old = {value for node in walk(graph) for value in node.outputs}
    for each in cell._passes:
        graph = each.rewrite(graph, cell.training)
    back = {state: known[state.name] for state in graph.states if state.name in known}
    used = {value for node in graph.nodes for value in uses(node)}
    for state in graph.states:
        if state in used and state not in back:
            back[state] = tracer.state(parameters[state.name])
    nodes[first:] = [substitute(node, back) for node in graph.nodes]
    new_values = [value for node in walk(graph) for value in node.outputs if value not in old]
    for value in new_values:
        value.name = tracer.builder.names.fresh(value.name)
    tracer.note(new_values)
    for write in graph.writes:
        tracer.set_written(parameters[write.state.name], back.get(write.value, write.value))


def _graph(
    nodes: Sequence[Node], parameters: Mapping[str, Parameter], known: Mapping[str, Value], outputs: object
) -> Graph:
    """The nodes as a self-contained graph."""
    states = {path: Value(path, parameter.type, is_state=True) for path, parameter in parameters.items()}
    state_of = {value: states[path] for path, value in known.items()}
    results = tuple(leaf.graph_value for leaf in leaves(outputs) if type(leaf) is Symbol)
    region = substitute_region(Graph("cell", (), (), tuple(nodes), (), results), state_of)
    defined = {value for node in region.nodes for value in node.outputs}
    read = dict.fromkeys(value for node in region.nodes for value in uses(node))
    inputs = tuple(value for value in (*read, *region.outputs) if value not in defined and not value.is_state)
    return region.replace(inputs=tuple(dict.fromkeys(inputs)), states=tuple(states.values()))
