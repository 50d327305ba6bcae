"""Telling users of weights that a step does not train as no part of its network, or takes to float64 for an input."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakSet

from graphls.ir.graph import Graph, Node, Value, definers, uses, walk
from graphls.ir.reach import reached
from graphls.ir.reporting import warn
from graphls.ir.types import float64
from graphls.nn.cell import Cell
from graphls.passes.rewrite import gradient_nodes
from graphls.tensors.parameter import Parameter
from graphls.trace.trace import Traced

_told: WeakSet[Parameter] = WeakSet()
_SHOWN = 3


def warn_of_untrained(cell: object, traced: Traced) -> None:
    """Warn, once for each parameter, of those that a step differentiates by, does not write and does not know.

    A cell in a plain list or dict is no part of the cell around it, so that `trainable_params` does not have its
    weights: the step runs, and the loss falls by what is trained besides.
    """
    graph, parameters = traced.graph, traced.parameters
    written = {write.state for write in graph.writes}
    if not isinstance(cell, Cell) or not any(parameters[state.name].requires_grad for state in written):
        return
    known = {*cell.get_parameters(), *_told}
    strange = [v for v in graph.states if v not in written and _is_strange(parameters[v.name], known)]
    differentiated = _differentiated(graph) if strange else ()
    found = [state for state in strange if state in differentiated]
    if found:
        _told.update(parameters[state.name] for state in found)
        warn(_text([parameters[state.name].name for state in found]), _reader(graph, found[0]).loc)


def warn_of_float64(traced: Traced) -> None:
    """Warn of a weight that a step trains and takes to float64 for an input, which makes it several times as long."""
    graph, parameters = traced.graph, traced.parameters
    trained = {write.state for write in graph.writes if parameters[write.state.name].requires_grad}
    is_given = any(value.type.dtype is float64 for value in graph.inputs)
    for node in walk(graph) if is_given else ():
        if node.primitive.name == "cast" and node.attrs["dtype"] is float64 and node.inputs[0] in trained:
            of = node.inputs[0]
            text = f"{of.name!r} is {of.type.dtype} and meets float64, in which a step takes several times as long"
            warn(f"{text}; give inputs as {of.type.dtype}, or weights of float64 if that is meant.", node.loc)
            return


def _is_strange(parameter: Parameter, known: set[Parameter]) -> bool:
    return parameter.requires_grad and parameter not in known


def _differentiated(graph: Graph) -> set[Value]:
    """What differentiated values are made of, but behind where gradients are stopped."""
    definer = definers(walk(graph))

    def operands(value: Value) -> Iterable[Value]:
        node = definer.get(value)
        return () if node is None or node.primitive.name == "stop_gradient" else uses(node)

    return set(reached((v for node in gradient_nodes(graph) for v in node.inputs[: node.attrs["of"]]), operands))


def _reader(graph: Graph, state: Value) -> Node:
    return next(node for node in walk(graph) if state in node.inputs)


def _text(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:_SHOWN])) + (f" and {len(names) - _SHOWN} others" if names[_SHOWN:] else "")
    return (
        f"No optimizer trains {shown}, whose cell is no part of the network, as one in a plain list or dict; keep "
        "cells in nn.CellList or nn.CellDict, or set requires_grad=False if that is meant."
    )
