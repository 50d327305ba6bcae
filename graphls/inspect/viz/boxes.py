"""The text in the box of a node, a group or a port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from graphls.base.text.plain import broken, shown
from graphls.inspect.viz.tree import Child, Group, Port, members, node_of
from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.text import reference

WIDEST = 38
"""The most columns of a line of a box."""
MOST_NAMES = 3
"""The most names that a line lists; of more, it has the first ones and the number of the others."""


def nodes_of(child: Child) -> Iterator[Node]:
    """Every node in a child, those of regions included."""
    for part in (child, *members(child)) if isinstance(child, Group) else (child,):
        node = node_of(part)
        if node is not None:
            yield node


def title(child: Child) -> str:
    """The title of a box: a primitive, the label of a group, or the kind of a port."""
    if isinstance(child, Node):
        return shown(child.primitive.name)
    return shown(child.kind if isinstance(child, Port) else child.label)


def detail(child: Child) -> str:
    """The text below the title: the results of a node, the value of a port, the number of nodes in a group."""
    if isinstance(child, Node):
        return listed(child.outputs)
    if isinstance(child, Port):
        return f"{shown(reference(child.value))}: {child.value.type_text}"
    nodes = list(nodes_of(child))
    if len(nodes) == 1 and child.node is None:
        return f"{shown(nodes[0].primitive.name)} {listed(nodes[0].outputs)}"
    if child.node is not None:
        return f"{listed(child.node.outputs)} · {_count(len(nodes) - 1)} inside"
    return _count(len(nodes)) if nodes else listed(port.value for port in child.children if isinstance(port, Port))


def heading(group: Group) -> tuple[str, str]:
    """The only line of an open group: its title, and the results of a node with regions."""
    return title(group), detail(group) if group.kind == "node" else ""


def _count(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def listed(values: Iterable[Value]) -> str:
    """A few names, and the number of the others."""
    names = list(dict.fromkeys(map(reference, values)))
    more = f" +{len(names) - MOST_NAMES}" if len(names) > MOST_NAMES else ""
    return ", ".join(map(shown, names[:MOST_NAMES])) + more


@dataclass(frozen=True)
class BoxText:
    """The lines of a box: those of its title, and the others."""

    title: tuple[str, ...]
    more: tuple[str, ...]


class States:
    """The states that nodes read, and those that their results are written to."""

    def __init__(self, graph: Graph) -> None:
        self.written: dict[Value, list[Value]] = {}
        for write in graph.writes:
            self.written.setdefault(write.value, []).append(write.state)
        for node in reversed(list(walk(graph))):
            for region in node.regions:
                if len(region.outputs) == len(node.outputs):
                    for result, value in zip(node.outputs, region.outputs, strict=True):
                        self.written.setdefault(value, []).extend(self.written.get(result, ()))

    def reads(self, child: Child) -> list[Value]:
        """The states that are read in a child, each once."""
        return list(dict.fromkeys(v for node in nodes_of(child) for v in node.inputs if v.is_state))

    def writes(self, child: Child) -> list[Value]:
        """The states that results in a child are written to at the end of the step."""
        values = (value for node in nodes_of(child) for value in node.outputs)
        return [state for value in values for state in self.written.get(value, ())]


def box_text(child: Child, incoming: Mapping[Value, None], states: States) -> BoxText:
    """The text in a box; `incoming` are the values that it reads without an edge in the drawing."""
    texts = [detail(child)]
    if not isinstance(child, Port):
        reads, writes = list(dict.fromkeys([*states.reads(child), *incoming])), states.writes(child)
        texts += [f"← {listed(reads)}"] if reads else []
        texts += [f"→ {listed(writes)}"] if writes else []
    return BoxText(tuple(broken(title(child), WIDEST)), tuple(line for text in texts for line in broken(text, WIDEST)))
