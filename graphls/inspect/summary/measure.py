"""Operations, bytes and states of a graph, by the cell whose line made a node."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain

from graphls.ir.flops import own_flops, region_runs, runs
from graphls.ir.graph import PHASES, Graph, Node, Value, blocks


@dataclass
class Measures:
    """What the nodes of each cell take, without those of inner cells, and what those of each phase take.

    By the path of the cell, for the forward: `flops` counts operations, `made` the bytes of the values that its nodes
    make and `kept` of those that the backward reads. `states` are those that the nodes of a phase read, by the phase
    and the path, but for the seeds of random numbers. A result that shares the memory of an operand makes nothing, and
    neither do constants and joins of branches. What a loop does counts each time, of a branch the dearer answer.
    """

    flops: Counter[str] = field(default_factory=Counter)
    made: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    states: dict[tuple[str, str], dict[Value, None]] = field(default_factory=dict)
    phase_flops: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(PHASES, 0)))
    phase_made: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(PHASES, 0)))
    phase_nodes: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(PHASES, 0)))


def measure(graph: Graph) -> Measures:
    """Go over the nodes of a graph once, those of regions included."""
    found = Measures()
    unmade = not_computed(graph)
    memory, copies = Memory(found), {state: state for state in graph.states}
    _note_copies(copies, graph)
    for node, count in runs(graph.nodes):
        count = 0 if node in unmade else count
        flops = count * own_flops(node)
        found.phase_nodes[node.phase] += 1
        found.phase_flops[node.phase] += flops
        if node.phase == "forward":
            found.flops[node.scope] += flops
        read = [copies[value] for value in node.inputs if value in copies]
        if read and not (node.primitive.is_transparent or node.primitive.on_host):
            found.states.setdefault((node.phase, node.scope), {}).update(dict.fromkeys(read))
        memory.note(node, count)
    return found


def not_computed(graph: Graph) -> set[Node]:
    """The products that only an overflow check would read, which are made where bounds say too little."""
    from graphls.runtime.lowering.finite import only_checked  # which loads onnx

    found = (only_checked(b.nodes, (*b.outputs, *(w.value for w in b.writes))).values() for b in blocks(graph))
    return set(chain.from_iterable(found))


def _note_copies(copies: dict[Value, Value], graph: Graph) -> None:
    """Find the values that are a state in another form, made by any cell, or that begin as one in a loop."""
    for node in graph.nodes:
        if node.primitive.is_transparent and node.inputs[0] in copies:
            copies[node.outputs[0]] = copies[node.inputs[0]]
        for region in node.regions:
            pairs = zip(region.inputs, node.inputs, strict=False)
            copies.update((inner, copies[outer]) for inner, outer in pairs if outer in copies)
            _note_copies(copies, region)


class Memory:
    """The bytes of the values that nodes make, each of which is noted once, in order."""

    def __init__(self, found: Measures) -> None:
        self.found = found
        self.source: dict[Value, Value] = {}
        self.maker: dict[Value, str] = {}

    def note(self, node: Node, count: int) -> None:
        """Count what a node makes, and what it keeps if it is of the backward."""
        if node.phase == "backward":
            for value in (*node.inputs, *(v for region in node.regions for v in region.outputs)):
                self._keep(self.source.get(value, value))
        if self._shares(node):
            return
        for value in node.outputs:
            self.found.phase_made[node.phase] += count * value.type.nbytes
            if node.phase == "forward":
                self.found.made[node.scope] += count * value.type.nbytes
                self.maker[value] = node.scope

    def _shares(self, node: Node) -> bool:
        """Whether the results of a node are other values; if so, remember which."""
        primitive = node.primitive
        if primitive.is_branch:
            chosen = next(region for region, count in region_runs(node) if count)
            self._join(node.outputs, chosen.outputs)
        elif primitive.is_view:
            self._join(node.outputs, node.inputs[: len(node.outputs)])
        return primitive.is_constant or primitive.is_branch or primitive.is_view

    def _join(self, results: tuple[Value, ...], sources: tuple[Value, ...]) -> None:
        for result, source in zip(results, sources, strict=True):
            self.source[result] = self.source.get(source, source)

    def _keep(self, value: Value) -> None:
        """Count a value of the forward as kept, the first time."""
        scope = self.maker.pop(value, None)
        if scope is not None:
            self.found.kept[scope] += value.type.nbytes
