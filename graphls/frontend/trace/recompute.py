"""Recomputation (gradient checkpointing): a cell runs again in the backward to save memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphls.frontend.tensors.pytree import leaves, map_leaves
from graphls.frontend.tensors.tensor import Symbol
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.build import Builder, Names, copy_nodes
from graphls.ir.graph import Graph, Node, Value, inside, uses


def recomputed(tracer: Tracer, nodes: Sequence[Node], outputs: object) -> Any:
    """The outputs of these nodes, with a gradient that runs the nodes again.

    The second run waits for the gradients of the outputs. It stands in a branch that is always taken, which passes and
    runtimes cannot know, so that its values are not merged with those of the first run. Host calls run once.
    """
    nodes = [node for node in nodes if not any(n.primitive.calls_python for n in (node, *inside(node)))]
    defined = {value for node in nodes for value in node.outputs}
    symbols = (leaf for leaf in leaves(outputs) if type(leaf) is Symbol)
    floats = (symbol.graph_value for symbol in symbols if symbol.dtype.is_float and symbol.size)
    results = list(dict.fromkeys(value for value in floats if value in defined))
    outside = dict.fromkeys(value for node in nodes for value in uses(node) if value not in defined)
    sources = [value for value in outside if value.type.dtype.is_float]
    if not results or not sources:
        return outputs
    region = _backward(tracer.builder.names, nodes, results, sources)
    values = tracer.emit("custom_gradient", (*results, *sources), {"outputs": len(results)}, regions=(region,))
    replacements = dict(zip(results, map(Symbol, values), strict=True))
    return map_leaves(lambda leaf: replacements.get(leaf.graph_value, leaf) if type(leaf) is Symbol else leaf, outputs)


def _backward(names: Names, nodes: Sequence[Node], results: Sequence[Value], sources: Sequence[Value]) -> Graph:
    """The region of a custom gradient: results, sources and gradients of the results in, those of the sources out."""
    parameters = [Value(names.fresh(v.name), v.type) for v in (*results, *sources, *results)]
    inner_sources, slopes = parameters[len(results) : -len(results)], parameters[-len(results) :]
    e = _builder(names, nodes)
    delayed = [e.emit("depend", (value,), {"recompute": True}, after=slopes)[0] for value in inner_sources]
    regions = (_second_run(names, nodes, results, sources, slopes, delayed), _zeros(names, nodes, sources))
    gradients = e.emit("cond", (_always(e, slopes[0]),), regions=regions)
    return Graph("region", tuple(parameters), (), tuple(e.nodes), (), gradients)


def _second_run(
    names: Names, nodes: Sequence[Node], results: Sequence[Value], sources: Sequence[Value], slopes: Sequence[Value],
    delayed: Sequence[Value],
) -> Graph:  # fmt: skip
    """The region that runs the nodes on `late` in place of the sources, and computes their gradients."""
    e, mapping = _builder(names, nodes), dict(zip(sources, delayed, strict=True))
    e.nodes = copy_nodes(nodes, mapping, names, "backward")
    results_again = [mapping[value] for value in results]
    gradients = e.emit("gradient", (*results_again, *slopes, *delayed), {"of": len(results), "wrt": len(delayed)})
    return Graph("region", (), (), tuple(e.nodes), (), gradients)


def _zeros(names: Names, nodes: Sequence[Node], sources: Sequence[Value]) -> Graph:
    e = _builder(names, nodes)
    zeros = tuple(e.constant(0, v.type.dtype, v.type.shape) for v in sources)
    return Graph("region", (), (), tuple(e.nodes), (), zeros)


def _always(e: Builder, slope: Value) -> Value:
    """A condition that is always true, computed from a gradient, so that it is not known earlier."""
    axes = range(slope.type.rank)
    number = e.slice(slope, starts=tuple(0 for _ in axes), stops=tuple(1 for _ in axes), steps=tuple(1 for _ in axes))
    finite = e.reshape(e.is_finite(number), shape=())
    result: Value = e.logical_or(finite, e.logical_not(finite))
    return result


def _builder(names: Names, nodes: Sequence[Node]) -> Builder:
    """A builder of backward nodes with the scope, line and stage of the last of these."""
    e = Builder(names)
    e.follow(nodes[-1], "backward")
    return e
