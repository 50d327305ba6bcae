"""The buckets pass: merges small collectives into larger ones, in the order of their operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphls.ir.build import substitute
from graphls.ir.flops import flops
from graphls.ir.graph import Graph, Node, Value, in_order, needs
from graphls.ir.reachability import Reachability
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import schedule


@register_pass
@dataclass(frozen=True)
class Buckets:
    """Merge collectives of one kind into few, in the order in which their operands are computed.

    Before (`%h` is computed before `%g`):

        %t, %a = all_reduce(%g) {bucket=[1, 64], group="world", op="sum", ranks=2} : token, f32[4]
        %u, %b = all_reduce(%h) {bucket=[1, 64], group="world", op="sum", ranks=2} after(%t) : token, f32[4]

    After:

        %u, %b, %a = all_reduce(%h, %g) {group="world", op="sum", ranks=2} : token, f32[4], f32[4]

    The attribute `bucket` is a number and the limit of bytes of one bucket, unlimited where there is none; collectives
    of the number 0 stay alone. The order is that of the longest path, in operations, to each operand, so that it is the
    same on all ranks, and a bucket can be sent while the operands of later ones are computed. No collective moves past
    another effect, and one that waits for another is in a later bucket. A gradient of several parameters is sent once.
    """

    name = "buckets"

    def run(self, graph: Graph) -> Graph:
        """The graph with few collectives."""
        runs = _runs(graph.nodes)
        if not runs:
            return graph
        ready = _ready(graph.nodes)
        first = {node: same for run in runs for node, same in _firsts(run).items()}
        merged = {run[0]: _joined(run, first, ready) for run in runs}
        replacements = {v: w for node in first for v, w in zip(node.outputs[1:], first[node].outputs[1:], strict=True)}
        replacements |= {node.outputs[0]: merged[run[0]][-1].outputs[0] for run in runs for node in run}
        nodes: list[Node] = []
        for node in graph.nodes:
            nodes += [substitute(new, replacements) for new in merged.get(node, ())]
            nodes += [] if node in first else [substitute(node, replacements)]
        writes = tuple(replace(write, value=replacements.get(write.value, write.value)) for write in graph.writes)
        outputs = tuple(replacements.get(v, v) for v in graph.outputs)
        return graph.replace(nodes=schedule(in_order(nodes)), writes=writes, outputs=outputs)


def in_buckets(values: Iterable[Value], size_of: Callable[[Value], int], most: int) -> list[list[Value]]:
    """Values in their order, in buckets of so many bytes at most; a larger one is alone."""
    buckets: list[list[Value]] = []
    size = 0
    for value in values:
        own = size_of(value)
        if not buckets or size + own > most:
            buckets.append([])
            size = 0
        buckets[-1].append(value)
        size += own
    return buckets


def _runs(nodes: Sequence[Node]) -> list[list[Node]]:
    """Runs of consecutive bucketed collectives, with no other effect between them and none that waits for another."""
    collectives = {node for node in nodes if node.attrs.get("bucket")}
    tokens = {node.outputs[0] for node in collectives}

    def without_their_order(node: Node) -> list[Value]:
        return [v for v in needs(node) if not (node in collectives and v in tokens)]

    reach = Reachability(nodes, collectives, without_their_order) if collectives else None
    runs: list[list[Node]] = []
    is_open, members = False, 0
    for node in nodes:
        if reach is None or not node.primitive.has_effect:
            continue
        if node not in collectives:
            is_open = False
            continue
        if not is_open or reach.before[node] & members:
            runs.append([])
            members = 0
        is_open = True
        runs[-1].append(node)
        members |= reach.bit[node]
    return runs


def _firsts(run: Sequence[Node]) -> Mapping[Node, Node]:
    """For each collective the first one with the same operands and attributes."""
    firsts: dict[object, Node] = {}
    return {node: firsts.setdefault((_kind(node), node.inputs), node) for node in run}


def _kind(node: Node) -> object:
    return node.primitive, tuple(sorted(node.attrs.items()))


def _ready(nodes: Sequence[Node]) -> dict[Value, int]:
    """The length of the longest path to each value, in operations."""
    ends: dict[Value, int] = {}
    for node in nodes:
        end = max((ends.get(v, 0) for v in needs(node)), default=0) + flops(node) + 1
        ends.update(dict.fromkeys(node.outputs, end))
    return ends


def _joined(run: Sequence[Node], first: Mapping[Node, Node], ready: dict[Value, int]) -> list[Node]:
    """The merged nodes of a run, without duplicates, ordered by when their operands are complete."""
    last: dict[object, tuple[list[Node], int]] = {}
    buckets: list[list[Node]] = []
    own = [node for node in run if first[node] is node]
    order = sorted(own, key=lambda node: max(ready.get(v, 0) for v in node.inputs))
    for node in order:
        number, *most = node.attrs["bucket"]
        key = node.inputs[0].type.dtype, _kind(node)
        size = sum(v.type.nbytes for v in node.inputs)
        members, before = last.get(key, ([], 0))
        if not members or number == 0 or any(before + size > limit for limit in most):
            members, before = [], 0
            buckets.append(members)
        members.append(node)
        last[key] = members, before + size
    position = {node: i for i, node in enumerate(order)}
    tokens = {node.outputs[0] for node in run}
    return [_of(members, tokens) for members in sorted(buckets, key=lambda members: position[members[-1]])]


def _of(members: Sequence[Node], tokens: set[Value]) -> Node:
    """One node in place of several, with their control edges from outside of the run."""
    first = members[0]
    return replace(
        first,
        inputs=tuple(v for node in members for v in node.inputs),
        outputs=(first.outputs[0], *(v for node in members for v in node.outputs[1:])),
        attrs={name: value for name, value in first.attrs.items() if name != "bucket"},
        after=tuple(dict.fromkeys(v for node in members for v in node.after if v not in tokens)),
    )
