"""Tests, before a step, of the indices that depend on its inputs alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphls.base.sharing.storage import array_in
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.indices import are_below, host_indices
from graphls.ir.interpret import run_node
from graphls.ir.types import int32, int64
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
        while value in definers and _keeps(definers[value]):
            value = definers[value].inputs[0]
        if value not in definers:
            self.bounds[value] = min(axis_size(node), self.bounds.get(value, axis_size(node)))
            return True
        constant = definers[value]
        return constant.primitive.is_constant and bool(are_below(constant.attrs["value"], axis_size(node)))


def _keeps(node: Node) -> bool:
    """Whether the results of a node are integers of its operand; those below the size of an axis fit in each dtype."""
    return node.primitive.selects and all(v.type.dtype in (int32, int64) for v in (*node.inputs, *node.outputs))
