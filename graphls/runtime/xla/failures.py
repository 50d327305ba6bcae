"""Errors of XLA as the user's errors, with a line of the step."""

from __future__ import annotations

import re
from typing import Any

from graphls.base.errors import GraphIndexError, GraphlsError, GraphMemoryError, GraphRuntimeError
from graphls.ir.graph import Graph, Node, walk


def out_of_range(node: Node) -> GraphIndexError:
    """The error for an index of a node."""
    return GraphIndexError(f"{node.primitive.name} could not run: an index is out of range.", node.loc)


def failure(jax: Any, error: Exception, graph: Graph) -> GraphlsError | None:
    """The user's error for one of XLA in a program of a graph; None for another one.

    A result that could not be allocated raises BufferError, or ValueError, where it is read.
    """
    text = " ".join(str(error).split())
    if text.startswith("RESOURCE_EXHAUSTED"):
        return _too_large(text, graph)
    if not isinstance(error, jax.errors.JaxRuntimeError):
        return None
    return GraphRuntimeError(f"XLA could not run the step: {text.rstrip('.')}.")


def _too_large(text: str, graph: Graph) -> GraphMemoryError:
    """The error for a step that needs too much memory, at the line of its largest value."""
    match = re.search(r"allocat\w+ (\d+)", text)
    amount = f" (it asks for {int(match[1]):,} bytes)" if match else ""
    node = max(walk(graph), key=_size)
    largest = f"its largest value, of {node.primitive.name}, has {_size(node):,} bytes"
    return GraphMemoryError(f"The memory does not hold this step{amount}; {largest}; take a smaller batch.", node.loc)


def _size(node: Node) -> int:
    return max((value.type.nbytes for value in node.outputs), default=0)


def remove_notes(error: GraphlsError) -> None:
    """Remove what JAX adds about its own frames to every error that is raised under it."""
    notes = getattr(error, "__notes__", [])
    notes[:] = [note for note in notes if "JAX has removed its internal frames" not in note]
