"""The roles of a model's inputs and outputs, and the table that is saved with the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from graphls.ir.graph import Graph, Node, walk


@dataclass(frozen=True)
class Ports:
    """Which of the inputs and outputs of a model is what.

    `inputs` and `outputs` are tensor names in the order of the graph; `states` and `writes` pair the
    name of a state with its tensor, all in the dtypes that `exchanged` says; `host` are the nodes whose
    outputs the session computes and feeds, with the names of the tensors that take them. Where nodes are `guarded`,
    the model has one more output, `fault`, which says of which of them an index is out of range; see indices.py.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    states: dict[str, str]
    writes: dict[str, str]
    host: tuple[tuple[Node, str], ...]
    guarded: tuple[Node, ...]
    fault: str


def table_of(graph: Graph, ports: Ports) -> dict[str, Any]:
    """The ports of a model of a graph as plain data, with the nodes by their numbers."""
    numbers = {node: number for number, node in enumerate(walk(graph))}
    plain = ("inputs", "outputs", "states", "writes", "fault")
    table: dict[str, Any] = {name: getattr(ports, name) for name in plain}
    host = [[numbers[node], name] for node, name in ports.host]
    return table | {"host": host, "guarded": [numbers[node] for node in ports.guarded]}


def ports_of(graph: Graph, table: Mapping[str, Any], inputs: Iterable[str], outputs: Iterable[str]) -> Ports:
    """The ports of which this is the table, of a model with these inputs and outputs.

    Raises KeyError, TypeError, AttributeError or ValueError for the table of another graph or model.
    """
    nodes = dict(enumerate(walk(graph)))
    ports = Ports(
        tuple(table["inputs"]),
        tuple(table["outputs"]),
        table["states"],
        table["writes"],
        tuple((nodes[number], name) for number, name in table["host"]),
        tuple(nodes[number] for number in table["guarded"]),
        table["fault"],
    )
    sizes = len(ports.inputs), len(ports.outputs), set(ports.states), set(ports.writes)
    told = {v.name for v in graph.states}, {w.state.name for w in graph.writes}
    taken = {*ports.inputs, *ports.states.values(), *(name for _, name in ports.host)}
    given = {*ports.outputs, *ports.writes.values(), ports.fault} - {""}
    is_of_graph = sizes == (len(graph.inputs), len(graph.outputs), *told)
    if not (is_of_graph and taken.issubset(inputs) and given.issubset(outputs)):
        raise ValueError("It is the table of another graph or model.")
    return ports
