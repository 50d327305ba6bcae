"""The stages of a pipeline for the nodes of a step that have none, and for its states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from graphls.ir.build import Builder, Names, substitute
from graphls.ir.graph import Graph, Node, Value, definers, filtered, uses, walk
from graphls.ir.types import TOKEN
from graphls.passes.rewriter import users
from graphls.passes.schedule.cut import split_check
from graphls.passes.schedule.segments import is_free


class Placing:
    """A graph all of whose nodes have stages, and the stages of its states, `homes`.

    A state is on the stage of the first node with one that reads it. A node without a stage gets that of its largest
    operand, of a state before others, or else that of its first reader; and a state that only such nodes read that of
    its new value. What reads a state of another stage reads a copy. What the host draws before all stages has none, and
    comes first.
    """

    def __init__(self, graph: Graph) -> None:
        drawn = [node for node in walk(graph) if node.primitive.on_host]
        others = filtered(graph.nodes, lambda node: not node.primitive.on_host)
        self.source = graph.replace(nodes=(*drawn, *others))
        self.nodes = [node for node in others if not is_free(node)]
        self.definer = definers(self.nodes)
        self.stages: dict[Node, int] = {node: node.stage for node in self.nodes if node.stage is not None}
        self.homes: dict[Value, int] = {}
        self.find_homes(self.nodes)
        self.by_operands()  # a gradient gives the update of its parameter a stage,
        self.by_readers()  # and that one the product of a moment and a number, whose operands are states without homes
        for write in graph.writes:
            if write.value in self.definer:
                self.homes.setdefault(write.state, self.stages.get(self.definer[write.value], 0))
        self.by_operands()
        for node in self.nodes:
            self.stages.setdefault(node, 0)
        self.find_homes(self.nodes)
        for state in graph.states:
            self.homes.setdefault(state, 0)
        self.graph = self.placed()

    def find_homes(self, nodes: Sequence[Node]) -> None:
        """Put states where the first node with a stage reads them."""
        for node in nodes:
            for value in uses(node):
                if value.is_state and node in self.stages:
                    self.homes.setdefault(value, self.stages[node])

    def stage_of(self, value: Value) -> int | None:
        """The stage that has a value; None for inputs, constants, and what has no stage yet."""
        if value.is_state:
            return self.homes.get(value)
        return self.stages.get(self.definer[value]) if value in self.definer else None

    def by_operands(self) -> None:
        """Give nodes the stage of their largest operand, so that large values do not cross."""
        for node in self.nodes:
            if node not in self.stages:
                placed = [v for v in uses(node) if self.stage_of(v) is not None]
                largest = max(placed, key=lambda v: (v.type.nbytes, v.is_state), default=None)
                if largest is not None and (stage := self.stage_of(largest)) is not None:
                    self.stages[node] = stage

    def by_readers(self) -> None:
        """Give nodes the stage of their first reader."""
        readers = users(self.nodes)
        for node in reversed(self.nodes):
            later = (self.stages[r] for v in node.outputs for r in readers.get(v, ()) if r in self.stages)
            if node not in self.stages and (stage := next(later, None)) is not None:
                self.stages[node] = stage

    def placed(self) -> Graph:
        """The graph whose nodes read states of their own stage, and each of whose checks reads values of one stage."""
        names, copies = Names.of(self.source), dict[Value, Value]()
        e = Builder(names)
        nodes: list[Node] = []
        for node in self.source.nodes:
            stage = self.stages.get(node)
            if stage is None:
                nodes.append(node)
                continue
            foreign = [v for v in uses(node) if v.is_state and self.homes[v] != stage]
            for state in foreign:
                if state not in copies:
                    e.stage = self.homes[state]
                    copies[state] = e.depend(state)
                    nodes.append(e.nodes.pop())
            node = replace(node, stage=stage)
            node = substitute(node, {state: copies[state] for state in foreign}) if foreign else node
            nodes += self.checks(node, names)
        return self.source.replace(nodes=tuple(nodes))

    def checks(self, node: Node, names: Names) -> Iterator[Node]:
        """A check of several stages as one for each of them, and one of their flags."""
        values = [v for v in node.inputs if v.type != TOKEN] if node.primitive.is_check else []
        stages = {v: self.stage_of(v) for v in values}
        if len(set(stages.values())) < 2:
            yield node
            return
        groups = {s: tuple(v for v in values if stages[v] == s) for s in dict.fromkeys(stages.values())}
        parts, joined = split_check(node, groups.values(), names)
        for part, stage in zip(parts, groups, strict=True):
            yield replace(part, stage=node.stage if stage is None else stage)
        yield joined
