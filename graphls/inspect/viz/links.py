"""The edges of a tree, for every group: those between its children, and the values that cross its border."""

from __future__ import annotations

from collections.abc import Iterator

from graphls.inspect.viz.tree import Child, Group, Port, node_of
from graphls.ir.graph import Value

Pair = tuple[Child, Child, bool]
"""Source, target, and whether the edge is a control edge."""


class Links:
    """Every data and control edge of a tree, at the innermost group that contains both ends, in one sweep.

    `between` has for each group the edges between its children, with the values that cause them. `incoming` and
    `outgoing` have for each child of a group the values that it reads from outside of that group, and those that are
    read there. States have no edges. `parent` and `definer` are the group of a child, and the port, node or group of
    kind "node" that defines a value.
    """

    def __init__(self, root: Group) -> None:
        self.parent: dict[Child, Group] = {}
        self.definer: dict[Value, Child] = {}
        self.between: dict[Group, dict[Pair, dict[Value, None]]] = {}
        self.incoming: dict[Child, dict[Value, None]] = {}
        self.outgoing: dict[Child, dict[Value, None]] = {}
        self._depth: dict[Child, int] = {root: 0}
        self._enter(root)
        for child in list(self._depth):
            for value, control in _operands(child):
                if value in self.definer:
                    self._link(value, self.definer[value], child, control)

    def _enter(self, group: Group) -> None:
        for child in group.children:
            self.parent[child] = group
            self._depth[child] = self._depth[group] + 1
            self.definer.update((value, child) for value in _definitions(child))
            if isinstance(child, Group):
                self._enter(child)

    def _link(self, value: Value, source: Child, target: Child, control: bool) -> None:
        while self.parent[source] is not self.parent[target]:
            if self._depth[source] > self._depth[target]:
                self.outgoing.setdefault(source, {})[value] = None
                source = self.parent[source]
            else:
                self.incoming.setdefault(target, {})[value] = None
                target = self.parent[target]
        if source is not target:
            edges = self.between.setdefault(self.parent[source], {})
            edges.setdefault((source, target, control), {})[value] = None


def _definitions(child: Child) -> tuple[Value, ...]:
    if isinstance(child, Port):
        return (child.value,) if child.kind in ("input", "parameter") else ()
    node = node_of(child)
    return node.outputs if node else ()


def _operands(child: Child) -> Iterator[tuple[Value, bool]]:
    if isinstance(child, Port):
        if child.kind in ("output", "yield"):
            yield child.value, False
        return
    node = node_of(child)
    if node is not None:
        yield from ((value, False) for value in node.inputs)
        yield from ((value, True) for value in node.after)
