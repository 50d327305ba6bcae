"""Chooses the optimizer states to shard: those whose updates are elementwise."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from graphls.distributed.shards import BLOCK, shard_size
from graphls.distributed.world import WORLD
from graphls.ir.graph import Graph, Node, Value, inside, uses, walk
from graphls.ir.reachability import dependencies
from graphls.primitives.blockwise import DequantizeBlockwise, QuantizeBlockwise
from graphls.primitives.cast import Cast
from graphls.primitives.collectives import AllGather, AllReduce, Broadcast
from graphls.primitives.control import Depend, Shard, StopGradient
from graphls.primitives.logic import Comparison, IsFinite, Logical
from graphls.primitives.primitive import normalise_axes
from graphls.primitives.scaling import AbsoluteMaximum
from graphls.primitives.shape import Reshape

POINTWISE = (Cast, Comparison, Depend, IsFinite, Logical, Shard, StopGradient)
"""Elementwise primitives whose class does not declare it."""

CODES = (QuantizeBlockwise, DequantizeBlockwise)
"""Primitives with a maximum for each block of their first operand, in flat order, as the second one."""

Roots = frozenset[Value]


@dataclass(frozen=True)
class Choice:
    """The values to shard: `gradients`, which are reduced to shards, `states`, and all `values` computed from both.

    `undivided` are those that are not sharded, with the node that needs all elements at once.
    """

    gradients: Roots
    values: frozenset[Value]
    states: frozenset[Value]
    undivided: dict[Value, Node]


def is_total(node: Node) -> bool:
    """Whether a node sums all elements of its operand."""
    if node.primitive.name != "sum" or not node.inputs[0].type.dtype.is_float:
        return False
    axes = normalise_axes(node.attrs.get("axis"), node.inputs[0].type.rank)
    return len(axes) == node.inputs[0].type.rank


def is_pointwise(node: Node) -> bool:
    """Whether each element of the result depends only on the operands' elements at its index, or on single numbers."""
    if not (node.primitive.elementwise or isinstance(node.primitive, POINTWISE)) or len(node.outputs) != 1:
        return False
    return all(v.type.size == 1 or v.type.shape == node.output.type.shape for v in node.inputs)


def divided_operands(node: Node, ranks: int) -> tuple[Value, ...]:
    """The operands whose shards, in flat order, have all elements that the shard of the result depends on."""
    if is_pointwise(node):
        return tuple(v for v in node.inputs if v.type.shape == node.output.type.shape)
    if isinstance(node.primitive, Reshape):
        return node.inputs
    blocks = node.attrs["block"] == (BLOCK,) if isinstance(node.primitive, AbsoluteMaximum) else False
    if blocks or isinstance(node.primitive, CODES):
        return node.inputs if shard_size(node.inputs[0].type.size, ranks) % BLOCK == 0 else ()
    return ()


def chosen(graph: Graph, ranks: int, least: int, excluded: Sequence[str]) -> Choice:
    """The largest choice in which no node needs all elements of a divided value at once, and a state is divided.

    Gradients are the sums over all ranks that take `least` bytes or more. States, of as many, are those that are equal
    on all ranks; those whose names are `excluded` are not sharded.
    """
    roots = frozenset((*_gradients(graph, ranks, least), *_equal_states(graph, ranks, least, set(excluded))))
    undivided: dict[Value, Node] = {}
    while True:
        values = _values(graph.nodes, roots, {root: frozenset((root,)) for root in roots if root.is_state}, ranks)
        _ElementwiseOperands(values, (*graph.outputs, *(w.value for w in graph.writes))).sweep(graph.nodes)
        wrong: dict[Value, Node] = {}
        for value, node in _needed_undivided(graph.nodes, values, True):
            wrong.update((root, node) for root in values[value] - wrong.keys())
        undivided |= wrong
        states = _states(graph, values, set(excluded))
        useful = {root for w in graph.writes if w.state in states for root in values[w.value]}
        left = (roots - wrong.keys()) & useful if not wrong else roots - wrong.keys()
        if left == roots:
            gradients = frozenset(root for root in roots if not root.is_state)
            return Choice(gradients, frozenset(values), states, undivided)
        roots = left


def _equal_states(graph: Graph, ranks: int, least: int, excluded: set[str]) -> Iterator[Value]:
    """The states that are written, and are equal on all ranks whose inputs differ."""
    own: set[Value] = set(graph.inputs)
    while True:
        for node in graph.nodes:
            if _is_of_rank(node) or (not _is_common(node) and not own.isdisjoint(uses(node))):
                own.update(node.outputs)
        differing = {w.state for w in graph.writes if w.value in own}
        if differing <= own:
            break
        own |= differing
    equal = (w.state for w in graph.writes if w.state not in own and w.state.name not in excluded)
    in_codes = _in_codes(graph, ranks)
    sizes = ((s, in_codes.get(s, s.type.nbytes if s.type.dtype.is_float else 0)) for s in equal)
    yield from (state for state, size in sizes if size and size >= least and state.type.size >= ranks)


def _in_codes(graph: Graph, ranks: int) -> dict[Value, int]:
    """The states that are codes, or maxima of their blocks, with the bytes of the floats that they stand for.

    0 stands for those of which shards would cut blocks.
    """
    read = [node for node in walk(graph) if isinstance(node.primitive, DequantizeBlockwise)]
    sizes = {node: node.output.type.nbytes if divided_operands(node, ranks) else 0 for node in read}
    return {value: size for node, size in sizes.items() for value in node.inputs if value.is_state}


def _is_common(node: Node) -> bool:
    """Whether a node gives all ranks the same results for any operands."""
    return isinstance(node.primitive, (AllGather, AllReduce, Broadcast)) and node.attrs["group"] == WORLD


def _is_of_rank(node: Node) -> bool:
    """Whether a node may give ranks different results even for equal operands."""
    primitives = (n.primitive for n in (node, *inside(node)) if not _is_common(n))
    return any(p.on_host or p.calls_python or p.is_collective for p in primitives)


def _gradients(graph: Graph, ranks: int, least: int) -> Iterator[Value]:
    for node in graph.nodes:
        if node.primitive.name == "all_reduce" and node.attrs["op"] == "sum" and node.attrs["group"] == WORLD:
            kinds = ((v, v.type) for v in node.outputs[1:])
            yield from (v for v, t in kinds if t.dtype.is_float and t.nbytes >= least and t.size >= ranks)


def _values(nodes: Sequence[Node], roots: Roots, roots_of: dict[Value, Roots], ranks: int) -> dict[Value, Roots]:
    """The values whose shards come from those of the roots, each with its roots; `roots_of` has states at the start."""
    roots_of.update((v, frozenset((v,))) for node in nodes for v in node.outputs if v in roots)
    for node in nodes:
        if node.primitive.is_branch:
            for region in node.regions:
                _values(region.nodes, roots, roots_of, ranks)
            yields = zip(*(region.outputs for region in node.regions), strict=True)
            candidates = zip(node.outputs, yields, strict=True)
        else:
            candidates = zip(node.outputs[:1], [divided_operands(node, ranks)], strict=False)
        for value, sources in candidates:
            of = [roots_of[v] for v in sources if v in roots_of]
            if of:
                roots_of[value] = frozenset().union(*of)
    return roots_of


class _ElementwiseOperands:
    """Adds to `values` the elementwise operands that only they use, such as the decayed moment."""

    def __init__(self, values: dict[Value, Roots], leaving: Iterable[Value]) -> None:
        self.values = values
        self.elsewhere = set(leaving)
        self.candidates: dict[Value, Roots] = {}

    def sweep(self, nodes: Sequence[Node]) -> None:
        """Visit nodes from the last one on, so that all users of a result are known."""
        for node in reversed(nodes):
            if node.primitive.is_branch:
                self.elsewhere.update(node.inputs)
                for region in node.regions:
                    for value, result in zip(region.outputs, node.outputs, strict=True):
                        self.use(value, result)
                    self.sweep(region.nodes)
            elif len(node.outputs) == 1:
                self.look(node)
            else:
                self.elsewhere.update(uses(node))

    def look(self, node: Node) -> None:
        """Divide a node where all users of its result are divided, and record its operands."""
        value = node.output
        if value not in self.values and value in self.candidates and value not in self.elsewhere and is_pointwise(node):
            self.values[value] = self.candidates[value]
        for operand in uses(node):
            self.use(operand, value)

    def use(self, operand: Value, result: Value) -> None:
        if result not in self.values:
            self.elsewhere.add(operand)
        elif operand.type.shape == result.type.shape:
            self.candidates[operand] = self.candidates.get(operand, frozenset()) | self.values[result]


def _needed_undivided(nodes: Sequence[Node], values: dict[Value, Roots], is_top: bool) -> Iterator[tuple[Value, Node]]:
    """The values of which a node needs all elements at once, apart from sums and checks outside of branches."""
    for node in nodes:
        if node.primitive.is_branch:
            for region in node.regions:
                yield from _needed_undivided(region.nodes, values, False)
        elif not (values.keys() & set(node.outputs) or (is_top and (is_total(node) or node.primitive.is_check))):
            yield from ((v, node) for v in uses(node) if v in values)


def _states(graph: Graph, values: dict[Value, Roots], names: set[str]) -> frozenset[Value]:
    """The states that are read and written only elementwise."""
    fixed = {*graph.outputs, *_read_undivided(graph.nodes, values), *(s for s in graph.states if s.name in names)}
    fitting = (w.state for w in graph.writes if w.value in values and w.state.type == w.value.type)
    return frozenset(state for state in fitting if state not in fixed)


def _read_undivided(nodes: Sequence[Node], values: dict[Value, Roots]) -> Iterator[Value]:
    for node in nodes:
        if node.primitive.is_branch:
            for region in node.regions:
                yield from _read_undivided(region.nodes, values)
                yield from (v for v, o in zip(region.outputs, node.outputs, strict=True) if o not in values)
        elif not values.keys() & set(node.outputs):
            yield from uses(node)


def sums_outside(graph: Graph, ranks: int, least: int) -> Graph:
    """The graph with the sums of gradients moved out of branches, and computed whichever branch runs.

    Ranks reduce sums by a collective, which no branch can hold.
    """
    gradients = frozenset(_gradients(graph, ranks, least))
    values = _values(graph.nodes, gradients, {}, ranks)
    return graph.replace(nodes=tuple(_outside(graph.nodes, values))) if gradients else graph


def _outside(nodes: Sequence[Node], values: dict[Value, Roots]) -> Iterator[Node]:
    for node in nodes:
        if not node.primitive.is_branch:
            yield node
            continue
        regions = []
        for region in node.regions:
            inner = tuple(_outside(region.nodes, values))
            sums = [n for n in inner if is_total(n) and n.inputs[0] in values]
            ancestors = dependencies(inner, (v for n in sums for v in n.outputs))
            moved = set() if any(map(_acts, ancestors)) else set(ancestors)
            yield from (n for n in inner if n in moved)
            regions.append(region.replace(nodes=tuple(n for n in inner if n not in moved)) if moved else region)
        yield replace(node, regions=tuple(regions)) if tuple(regions) != node.regions else node


def _acts(node: Node) -> bool:
    return bool(node.primitive.has_effect or node.regions)
