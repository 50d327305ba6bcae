"""Other names for tensors of a model."""

from __future__ import annotations

from collections.abc import Mapping

from onnx import GraphProto

from graphls.backends.onnx.shapes import graphs
from graphls.ir.build import Names


def rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Call tensors of a graph by other names, in branches and loops, too; others get out of the way of these."""
    used = [name for inner in graphs(graph) for name in _names(inner)]
    fresh = Names({*names.values(), *used})
    taken = set(names.values())
    found = {name: fresh.fresh(name) for name in used if name in taken and name not in names} | dict(names)
    for inner in graphs(graph):
        for info in (*inner.input, *inner.output, *inner.value_info, *inner.initializer):
            info.name = found.get(info.name, info.name)
        for node in inner.node:
            node.input[:] = [found.get(name, name) for name in node.input]
            node.output[:] = [found.get(name, name) for name in node.output]


def _names(graph: GraphProto) -> list[str]:
    made = [name for node in graph.node for name in node.output]
    return [*made, *(info.name for info in (*graph.input, *graph.initializer))]
