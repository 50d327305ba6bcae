"""What is no graph though it is called one: parts of other kinds, as a pass may have put into it."""

from __future__ import annotations

from collections.abc import Iterator

from graphls.ir.graph import Graph, Node, Value, Write
from graphls.ir.registry import Operation
from graphls.ir.types import Type

_PARTS = {"inputs": Value, "states": Value, "nodes": Node, "writes": Write, "outputs": Value}


def misfits(graph: Graph) -> Iterator[str]:
    """Sentences on parts of a graph that are of the wrong kind; only where there are none can it be verified."""
    for name, kind in _PARTS.items():
        yield from _of_kind(f"its {name}", getattr(graph, name), kind)
    for node in graph.nodes:
        if not isinstance(node.primitive, Operation):
            yield f"the primitive of a node is {node.primitive!r}, and must be what graphls.passes.lookup gives"
        yield from _of_kind(f"the inputs of {node.primitive}", node.inputs, Value)
        yield from _of_kind(f"the outputs of {node.primitive}", node.outputs, Value)
    for value in (*graph.inputs, *graph.states, *(v for node in graph.nodes for v in node.outputs)):
        if not isinstance(value.type, Type):
            yield f"the type of {value.name!r} is {value.type!r}, and must be a Type, as of(float32, 2, 3) gives"


def _of_kind(what: str, items: object, kind: type) -> Iterator[str]:
    """A sentence where something is no tuple of objects of a kind."""
    if not isinstance(items, (tuple, list)):
        yield f"{what} are {items!r}, and must be a tuple of {kind.__name__}s"
    elif wrong := [item for item in items if not isinstance(item, kind)]:
        yield f"{what} have {wrong[0]!r}, which is no {kind.__name__}"
