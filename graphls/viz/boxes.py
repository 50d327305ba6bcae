"""What stands in the box of a node, a group or a port."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.text import reference
from graphls.text.plain import shown
from graphls.viz.tree import Child, Group, Port, members, node_of

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
    """The first line of a box: a primitive, the label of a group, or what kind of port it is."""
    if isinstance(child, Node):
        return shown(child.primitive.name, WIDEST)
    return shown(child.kind if isinstance(child, Port) else child.label, WIDEST)


def detail(child: Child) -> str:
    """The second line: the results of a node, the value of a port, how much is in a group."""
    if isinstance(child, Node):
        return listed(child.outputs)
    if isinstance(child, Port):
        return shown(f"{reference(child.value)}: {child.value.type}", WIDEST)
    nodes = list(nodes_of(child))
    if len(nodes) == 1 and child.node is None:
        return shown(f"{nodes[0].primitive.name} {listed(nodes[0].outputs)}", WIDEST)
    if child.node is not None:
        inside = f" · {_count(len(nodes) - 1)} inside"
        return listed(child.node.outputs, WIDEST - len(inside)) + inside
    return _count(len(nodes)) if nodes else listed(port.value for port in child.children if isinstance(port, Port))


def _count(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def listed(values: Iterable[Value], most: int = WIDEST) -> str:
    """A few names, and how many more there are."""
    names = list(dict.fromkeys(map(reference, values)))
    more = f" +{len(names) - MOST_NAMES}" if len(names) > MOST_NAMES else ""
    text = ", ".join(shown(name, WIDEST) for name in names[:MOST_NAMES])
    return shown(text, most - len(more)) + more


class States:
    """Which states each node reads, and which writes take what it makes."""

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
        """The states that what is made in a child becomes at the end of the step."""
        made = (value for node in nodes_of(child) for value in node.outputs)
        return [state for value in made for state in self.written.get(value, ())]


def lines(child: Child, taken: Mapping[Value, None], states: States) -> tuple[str, ...]:
    """All lines of a box; `taken` are the values that no edge of the drawing brings it."""
    texts = [title(child), detail(child)]
    if isinstance(child, Port):
        return tuple(texts)
    reads = list(dict.fromkeys([*states.reads(child), *taken]))
    texts += [f"← {listed(reads)}"] if reads else []
    writes = states.writes(child)
    return (*texts, *([f"→ {listed(writes)}"] if writes else ()))
