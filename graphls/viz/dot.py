"""Graphs as DOT: cells as clusters, phases as colours, control edges dashed."""

from __future__ import annotations

from collections.abc import Iterator

from graphls.ir.graph import Graph, Node, Value, uses
from graphls.ir.text import reference

COLOURS = {"forward": "#cfe3f7", "backward": "#f9dcc4", "check": "#e9d5f5", "update": "#d5ecd4"}


def to_dot(graph: Graph) -> str:
    """The graph in the DOT language; the same graph gives the same text."""
    return "\n".join(_lines(graph)) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    yield f"digraph {_quoted(graph.name)} {{"
    yield '  rankdir=TB; node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10];'
    for value in (*graph.inputs, *graph.states):
        shape = "cylinder" if value.is_state else "ellipse"
        label = _quoted(f"{reference(value)} {value.type}")
        yield f'  {_quoted(reference(value))} [label={label}, shape={shape}, fillcolor="#eeeeee"];'
    yield from _nodes(graph)
    yield from _edges(graph)
    yield "}"


def _nodes(graph: Graph) -> Iterator[str]:
    scopes: dict[str, list[Node]] = {}
    for node in graph.nodes:
        scopes.setdefault(node.scope, []).append(node)
    for number, (scope, nodes) in enumerate(scopes.items()):
        if scope:
            yield f"  subgraph cluster_{number} {{ label={_quoted(scope)};"
        for node in nodes:
            shown = ", ".join(f"{reference(v)} {v.type}" for v in node.outputs)
            label = f"{node.primitive.name}\n{shown}"
            tooltip = f", tooltip={_quoted(str(node.loc))}" if node.loc else ""
            yield f'    {_name(node)} [label={_quoted(label)}, fillcolor="{COLOURS[node.phase]}"{tooltip}];'
        if scope:
            yield "  }"


def _edges(graph: Graph) -> Iterator[str]:
    definer = {value: node for node in graph.nodes for value in node.outputs}

    def source(value: Value) -> str:
        return _name(definer[value]) if value in definer else _quoted(reference(value))

    for node in graph.nodes:
        for value in uses(node):
            yield f"  {source(value)} -> {_name(node)};"
        for value in node.after:
            yield f"  {source(value)} -> {_name(node)} [style=dashed, color=gray];"
    for write in graph.writes:
        yield f"  {source(write.value)} -> {_quoted(reference(write.state))} [color=red, constraint=false];"


def _name(node: Node) -> str:
    return _quoted(" ".join(reference(v) for v in node.outputs) or str(id(node)))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
