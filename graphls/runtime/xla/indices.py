"""Tests, before a step, of the indices that depend on its inputs alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphls.base.sharing.storage import array_in
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.indices import are_below, host_indices, keeps_integers
from graphls.ir.interpret import run_node
from graphls.primitives.indexing import axis_size
from graphls.runtime.xla.failures import out_of_range
from graphls.runtime.xla.tracing import are_in_range


class IndexTests:
    """The nodes of a graph whose indices depend on these values alone; `check` raises before the step runs.

    Most indices are elements of one value each. Where all elements of it are in the smallest range, one look at them is
    enough; each node is tested where they are not, as elements that no node takes may be any numbers.
    """

    def __init__(self, graph: Graph, values: Iterable[Value]) -> None:
        self.selections, self.nodes = host_indices(graph, values)
        self.inputs = graph.inputs
        self.bounds: dict[Value, int] = {}
        self.are_bounded = all(map(self._is_bounded, self.nodes))
        for value, classes in _checked_labels(graph):
            if classes <= self.bounds.get(value, -1):
                del self.bounds[value]

    def check(self, fed: Mapping[Value, Any]) -> None:
        """Raise GraphIndexError, with the line, for an input that is an index out of range."""
        if self.are_bounded and all([are_below(array_in(fed[v]), bound) for v, bound in self.bounds.items()]):
            return
        arrays = {v: array_in(fed[v]) for v in self.inputs if v in fed}
        for node in self._failures(arrays):
            raise out_of_range(node)

    def _failures(self, arrays: dict[Value, Any]) -> Iterator[Node]:
        for node in self.selections:
            arrays.update(zip(node.outputs, run_node(node, arrays), strict=True))
        yield from (node for node, v in self.nodes.items() if not are_in_range(arrays[v], axis_size(node)))

    def _is_bounded(self, node: Node) -> bool:
        """Whether the indices of a node are in range if their source is; notes the bound of that one."""
        definers = {v: definer for definer in self.selections for v in definer.outputs}
        value = self.nodes[node]
        while value in definers and keeps_integers(definers[value]):
            value = definers[value].inputs[0]
        if value not in definers:
            self.bounds[value] = min(axis_size(node), self.bounds.get(value, axis_size(node)))
            return True
        constant = definers[value]
        return constant.primitive.is_constant and bool(are_below(constant.attrs["value"], axis_size(node)))


def _checked_labels(graph: Graph) -> Iterator[tuple[Value, int]]:
    """The values whose elements `check_labels` requires to be below a number, which a step has tested before."""
    for node in graph.nodes:
        if node.primitive.name == "check_labels" and node.attrs.get("classes") and node.attrs.get("ignored") is None:
            yield node.inputs[0], node.attrs["classes"]


def nodes_in_range(graph: Graph) -> Iterator[Node]:
    """The nodes whose indices are positions that the graph has computed on an axis of that size or a smaller one."""
    bounds: dict[Value, int] = {}
    for node in graph.nodes:
        if node.primitive.gives_positions:
            axis, x = node.attrs.get("axis"), node.inputs[0].type
            bound = x.size if axis is None else x.shape[axis]
            bounds[node.outputs[-1]] = bound
        elif node.inputs and node.inputs[0] in bounds and keeps_integers(node):
            bounds.update(dict.fromkeys(node.outputs, bounds[node.inputs[0]]))
        elif node.primitive.takes_indices and node.inputs[1] in bounds and bounds[node.inputs[1]] <= axis_size(node):
            yield node
