"""The roles of a model's inputs and outputs, and the table that is saved with the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graphls.ir.graph import Graph, Node, walk


@dataclass(frozen=True)
class Ports:
    """The roles of the inputs and outputs of a model.

    `inputs` and `outputs` are tensor names in the order of the graph; `states` and `writes` map the name of a state to
    its tensor, all in the dtypes of `exchanged`; `host` are the nodes that the session computes on the host and feeds,
    with the names of their tensors.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: dict[str, str]
    writes: dict[str, str]
    host: tuple[tuple[Node, str], ...]


def table_of(graph: Graph, ports: Ports) -> dict[str, Any]:
    """The ports of a model of a graph as plain data, with nodes represented by their numbers."""
    numbers = {node: number for number, node in enumerate(walk(graph))}
    table: dict[str, Any] = {name: getattr(ports, name) for name in ("inputs", "outputs", "states", "writes")}
    return table | {"host": [[numbers[node], name] for node, name in ports.host]}


def ports_of(graph: Graph, table: Mapping[str, Any], inputs: Iterable[str], outputs: Iterable[str]) -> Ports:
    """The ports of a model with these inputs and outputs, from their table.

    Raises KeyError, TypeError, AttributeError or ValueError for the table of another graph or model.
    """
    nodes = dict(enumerate(walk(graph)))
    ports = Ports(
        tuple(table["inputs"]),
        tuple(table["outputs"]),
        table["states"],
        table["writes"],
        tuple((nodes[number], name) for number, name in table["host"]),
    )
    sizes = len(ports.inputs), len(ports.outputs), set(ports.states), set(ports.writes)
    state_names = {v.name for v in graph.states}, {w.state.name for w in graph.writes}
    model_inputs = {*ports.inputs, *ports.states.values(), *(name for _, name in ports.host)}
    model_outputs = {*ports.outputs, *ports.writes.values()}
    is_of_graph = sizes == (len(graph.inputs), len(graph.outputs), *state_names)
    if not (is_of_graph and model_inputs.issubset(inputs) and model_outputs.issubset(outputs)):
        raise ValueError("It is the table of another graph or model.")
    return ports
