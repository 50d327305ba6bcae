"""Graphs in the DOT language of Graphviz: groups as clusters, phases as colours, control edges dashed."""

from __future__ import annotations

from collections.abc import Iterator

from graphls.base.text.colours import ENGINES, MIXED, PHASES, WINDOW
from graphls.base.text.plain import LONGEST, broken, shown
from graphls.inspect.viz.boxes import WIDEST
from graphls.inspect.viz.tree import Child, Group, Port, engines, grouped, windows
from graphls.ir.graph import Graph, Node, Value
from graphls.ir.text import reference


def to_dot(graph: Graph) -> str:
    """The graph in the DOT language; the same graph gives the same text.

    Phases, cells, regions and segments are clusters, states cylinders; a segment has a border of the colour of its
    engine, and each engine a box that names it. The results of a node with regions come from its own box,
    to which the regions yield. Nodes of an overflow window, and those that open and close it, have amber borders.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls.inspect.viz.dot import to_dot
        >>> graph = graphls.trace_graph(lambda x: x * x, np.ones(2, np.float32)).graph
        >>> print(to_dot(graph).splitlines()[0])
        digraph "main" {
    """
    return "\n".join(_Dot(graph).lines()) + "\n"


class _Dot:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.names: dict[Value, str] = {}
        self.edges: list[tuple[Value, str, str]] = []
        self.joins: list[str] = []
        self.count = 0
        overflow_windows = windows(graph)
        self.amber = {node for start, get, inside in overflow_windows for node in (start, get, *inside)}

    def lines(self) -> Iterator[str]:
        yield f"digraph {_quoted(self.graph.name)} {{"
        yield '  rankdir=TB; node [shape=box, style="filled,rounded", fontname="Helvetica", fontsize=10];'
        yield '  edge [fontname="Helvetica", fontsize=8, color="#57606a"];'
        yield '  graph [fontname="Helvetica", fontsize=11, labeljust=l, style="filled,rounded"];'
        for state in self.graph.states:
            yield f"  {self.named(state)} [{_label(_typed(state))}, shape=cylinder, {_filled(MIXED)}];"
        root = grouped(self.graph)
        for child in root.children:
            yield from self.child(child, "  ")
        for engine in engines(root):
            yield f"  {self.named()} [{_label(engine)}, {_filled(MIXED)}, {_border(engine)}];"
        for write in self.graph.writes:
            self.edges.append((write.value, self.names[write.state], 'color="#cf222e", constraint=false'))
        yield from self.joins
        for value, name, how in self.edges:
            yield f"  {self.names[value]} -> {name} [{how}];"
        yield "}"

    def named(self, *values: Value) -> str:
        """The name of a new box, which defines these values."""
        name = f"n{self.count}"
        self.count += 1
        self.names.update((value, name) for value in values)
        return name

    def child(self, child: Child, indent: str, owner: str = "") -> Iterator[str]:
        if isinstance(child, Group):
            yield from self.group(child, indent, owner)
        elif isinstance(child, Port):
            yield self.port(child, indent, owner)
        else:
            yield self.node(child, self.named(*child.outputs), indent)

    def group(self, group: Group, indent: str, owner: str) -> Iterator[str]:
        colour = PHASES.get(group.phase, MIXED)
        yield f"{indent}subgraph cluster_{self.named()} {{"
        border = _border(group.engine).replace(", ", "; ") if group.engine else f'color="{colour}"'
        yield f'{indent}  {_label(group.label)}; {border}; fillcolor="{colour}12";'
        if group.node is not None:
            owner = self.named()
        for child in group.children:
            yield from self.child(child, indent + "  ", owner)
        if group.node is not None:
            self.names.update((value, owner) for value in group.node.outputs)
            yield self.node(group.node, owner, indent + "  ")
        yield f"{indent}}}"

    def port(self, port: Port, indent: str, owner: str) -> str:
        gives = port.kind in ("input", "parameter")
        name = self.named(port.value) if gives else self.named()
        if not gives:
            self.edge(port.value, name)
            if owner:
                self.joins.append(f"  {name} -> {owner} [style=dotted];")
        text = _label(port.kind, _typed(port.value))
        return f"{indent}{name} [{text}, shape=ellipse, {_filled(MIXED)}];"

    def node(self, node: Node, name: str, indent: str) -> str:
        text = _label(node.primitive.name, *map(_typed, node.outputs))
        border = f', color="{WINDOW}", penwidth=3' if node in self.amber else f', color="{PHASES[node.phase]}"'
        tooltip = f", tooltip={_quoted(str(node.loc))}" if node.loc else ""
        for value in dict.fromkeys(node.inputs):
            self.edge(value, name)
        for value in node.after:
            self.edges.append((value, name, "style=dashed"))
        return f"{indent}{name} [{text}, {_filled(PHASES[node.phase])}{border}{tooltip}];"

    def edge(self, value: Value, name: str) -> None:
        self.edges.append((value, name, _label(value.type_text)))


def _typed(value: Value) -> str:
    return f"{shown(reference(value), LONGEST)} {value.type_text}"


def _filled(colour: str) -> str:
    return f'fillcolor="{colour}30"'


def _border(engine: str) -> str:
    return f'color="{ENGINES.get(engine, MIXED)}", penwidth=3'


def _label(*lines: str) -> str:
    return f"label={_quoted(*(part for line in lines for part in broken(shown(line, LONGEST + 40), WIDEST)))}"


def _quoted(*lines: str) -> str:
    """The lines as a string of DOT, in which entities and escapes are shown, not read; Graphviz refuses long ones."""
    texts = (shown(line, LONGEST + 40).replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return '"' + "\\n".join(texts).replace("&", "&amp;") + '"'
