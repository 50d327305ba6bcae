"""Indices: where they come from, and the small states that one out of range could leave half updated in a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from graphls.ir.graph import Graph, Node, Value, inside
from graphls.ir.reachability import Reachability
from graphls.ir.types import bool_, int32, int64

SMALL = 4096
"""Bytes of the largest state that gets a second buffer."""

FEW = 1 << 16
"""Elements up to which the host computes indices; more take longer than a program of all cores does."""

LISTED = 128
"""Elements up to which a look at a list of them is quicker than the calls of NumPy."""

UNSIGNED = {np.dtype(np.int32): np.uint32, np.dtype(np.int64): np.uint64}
"""The dtypes in which negative numbers are greater than all indices."""


def are_below(integers: np.ndarray[Any, Any], bound: int) -> bool:
    """Whether integers of 32 or 64 bits are in range(bound), by one look at the greatest; False for other dtypes."""
    unsigned = UNSIGNED.get(integers.dtype)
    if unsigned is None:
        return False
    if integers.ndim == 1 and 0 < integers.size <= LISTED:
        few = integers.tolist()
        return bool(max(few) < bound and min(few) >= 0)
    numbers = integers.view(unsigned).reshape(-1)
    return not numbers.size or bool(numbers[numbers.argmax()] < bound)  # quicker than a reduction of few numbers


def is_small(state: Value) -> bool:
    """Whether a state is small enough for a second buffer, which protects it where an index is out of range."""
    return state.type.nbytes <= SMALL


def early_states(graph: Graph) -> set[str]:
    """The small states that may be written before the runtime has checked every index; they get two buffers."""
    marked = _taking_indices(graph)
    reach = Reachability(graph.nodes, marked)
    every = (1 << len(marked)) - 1
    makers = ((w.state, reach.definer.get(w.value)) for w in graph.writes if is_small(w.state))
    return {state.name for state, maker in makers if (reach.until(maker) if maker else 0) != every}


def takes_indices(graph: Graph) -> bool:
    """Whether an index out of range may end a run of the graph."""
    return bool(_taking_indices(graph))


def _taking_indices(graph: Graph) -> Sequence[Node]:
    return [n for n in graph.nodes if any(inner.primitive.takes_indices for inner in (n, *inside(n)))]


def host_indices(graph: Graph, values: Iterable[Value]) -> tuple[tuple[Node, ...], Mapping[Node, Value]]:
    """The nodes whose indices depend on these values alone, by little work, each with the value of its indices.

    The first result are the nodes that compute these, in order: of integers and bools, which they move or, where there
    are few, compute with.
    """
    available, computing, indices = set(values), list[Node](), dict[Node, Value]()
    for node in graph.nodes:
        if node.primitive.takes_indices and node.inputs[1] in available:
            indices[node] = node.inputs[1]
        elif available.issuperset(node.inputs) and _is_little_work(node):
            available.update(node.outputs)
            computing.append(node)
    read, selected = set(indices.values()), list[Node]()
    for node in reversed(computing):
        if not read.isdisjoint(node.outputs):
            read.update(node.inputs)
            selected.append(node)
    return tuple(selected[::-1]), indices


def keeps_integers(node: Node) -> bool:
    """Whether the results of a node are integers of its operand; those below the size of an axis fit in each dtype."""
    return node.primitive.selects and all(v.type.dtype in (int32, int64) for v in (*node.inputs, *node.outputs))


def _is_little_work(node: Node) -> bool:
    """Whether a node moves integers or bools of its operands, of which it has no more than these, or computes few."""
    primitive, values = node.primitive, (*node.inputs, *node.outputs)
    is_elsewhere = primitive.on_host or primitive.calls_python or primitive.is_collective
    if primitive.takes_indices or node.regions or is_elsewhere:
        return False
    if any(v.type.dtype not in (bool_, int32, int64) or v.type.stacked for v in values):
        return False
    sizes = [sum(v.type.size for v in each) for each in (node.inputs, node.outputs)]
    return max(sizes) <= FEW or (primitive.flops_per_element == 0 and sizes[1] <= sizes[0])
