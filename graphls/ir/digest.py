"""A hash of what a graph computes, the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from graphls.ir.graph import Graph, Node
from graphls.ir.text import attribute_text, declarations, quoted, references, written


def digest(graph: Graph) -> str:
    """A hash of all that the text form holds but the user's lines; raises GraphTypeError as `dump` does."""
    found = hashlib.sha256()
    for part in _graph(graph):
        found.update(part.encode("utf-8", "surrogatepass"))
        found.update(b"\n")
    return found.hexdigest()


def _graph(graph: Graph) -> Iterator[str]:
    yield f"graph {quoted(graph.name)} {declarations(graph.inputs)}"
    yield f"states {declarations(graph.states)}"
    for node in graph.nodes:
        yield from _node(node)
    yield from map(written, graph.writes)
    yield f"return {references(graph.outputs)}"


def _node(node: Node) -> Iterator[str]:
    yield f"{node.primitive.name} {references(node.inputs)} after {references(node.after)}"
    yield f"to {declarations(node.outputs)} in {node.phase} {quoted(node.scope)}"
    yield from _attributes(node.attrs)
    for region in node.regions:
        yield from _graph(region)


def _attributes(attrs: Mapping[str, object]) -> Iterator[str]:
    for name, value in attrs.items():
        yield f"{name} {_of_array(value) if isinstance(value, np.ndarray) else attribute_text(value)}"


def _of_array(array: np.ndarray[Any, Any]) -> str:
    """Type and hash of an array, whose text could be longer than memory."""
    data: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return f"{array.dtype} {array.shape} {hashlib.sha256(data).hexdigest()}"
