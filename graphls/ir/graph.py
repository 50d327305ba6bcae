"""The dataflow IR: values, nodes, states, writes, and graphs of them.

Graphs, nodes and writes are immutable and share their parts, so that keeping every stage of a
pipeline costs a list of references and no copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, NoReturn

from graphls.base.errors import GraphAttributeError, GraphKeyError, GraphTypeError
from graphls.base.location import Location
from graphls.ir.operators import Operators, current_builder
from graphls.ir.registry import Operation, nearest
from graphls.ir.sharding import Mesh, Sharding
from graphls.ir.types import Type, Typed

PHASES = ("forward", "backward", "check", "update")


class Value(Operators, Typed):
    """A typed value that is defined once: by a node, as an input, or as a state.

    Two values are the same only where they are the same object. Names are unique in a graph. In gradient rules and in
    replacements of rewrites, operators of Python add nodes: `x @ w + b`.

    `sharding` says how the mesh of the graph divides an input, a state or the result of `shard`. Where it is None, an
    input or a state is whole on every device, and how any other value is divided is left to the engine.

    Examples:
        >>> from graphls.ir import Type, Value
        >>> from graphls.ir.types import float32
        >>> print(Value("weight", Type(float32, (2, 3)), is_state=True))
        @weight: f32[2,3]
    """

    __slots__ = ("is_state", "name", "sharding", "type")

    def __init__(self, name: str, type: Type, is_state: bool = False, sharding: Sharding | None = None) -> None:
        self.name = name
        self.type = type
        self.is_state = is_state
        self.sharding = sharding or None

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        advice = nearest(name, dir(self)) or f"; its operations are methods of a Builder, such as e.{name}(x)"
        raise GraphAttributeError(f"A value of a graph has no {name!r}{advice}.")

    def _apply(self, primitive: str, *operands: Any) -> Any:
        builder = current_builder.get()
        if builder is None:
            advice = "elsewhere call the primitive of a Builder, such as e.add(x, y)"
            raise GraphTypeError(f"{self!r} has operators in gradient rules and replacements only; {advice}.")
        return getattr(builder, primitive)(*operands)

    @property
    def type_text(self) -> str:
        """The text of the type with the sharding: `f32[8/data,4]`."""
        return str(self.type) if self.sharding is None else self.sharding.typed(self.type)

    def __repr__(self) -> str:
        return f"{'@' if self.is_state else '%'}{self.name}: {self.type_text}"


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One primitive applied to values.

    `after` are control edges: the node runs after the nodes that define these values.
    `regions` are the inner graphs of `cond` and of custom gradients; they may use values of the
    graph around them. `phase` is one of PHASES, `scope` the path of the cell, `loc` the user's line. `stage` is the
    number of the pipeline stage that the cell is for, `micro` that of the part of the batch that the node is for.

    Examples:
        >>> from graphls.ir import parse
        >>> graph = parse('''
        ... graph @main(%x: f32[2,3]) {
        ...   %y = sum(%x) {axis=[1], keepdims=false} : f32[2]
        ...   return %y
        ... }
        ... ''')
        >>> (node,) = graph.nodes
        >>> node.primitive.name, dict(node.attrs), node.phase
        ('sum', {'axis': (1,), 'keepdims': False}, 'forward')
    """

    primitive: Operation
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    after: tuple[Value, ...] = ()
    regions: tuple[Graph, ...] = ()
    phase: str = "forward"
    scope: str = ""
    loc: Location | None = None
    stage: int | None = None
    micro: int | None = None

    @property
    def output(self) -> Value:
        """The only output."""
        (value,) = self.outputs
        return value

    def __repr__(self) -> str:
        return f"<{', '.join(map(repr, self.outputs))} = {self.primitive.name}(...)>"


@dataclass(frozen=True, slots=True)
class Write:
    """`state` holds `value` after the step.

    `in_place` marks the proof that every reader of the old value runs before `value` is computed, so
    that one buffer is enough.

    Examples:
        >>> from graphls.ir import parse
        >>> graph = parse('''
        ... graph @main(%x: f32[]) {
        ...   state @count: f32[]
        ...   %more = add(@count, %x) : f32[]
        ...   @count <- %more
        ...   return %more
        ... }
        ... ''')
        >>> [(write.state.name, write.value.name) for write in graph.writes]
        [('count', 'more')]
    """

    state: Value
    value: Value
    in_place: bool = False


@dataclass(frozen=True, eq=False)
class Graph:
    """A static dataflow graph; the order of `nodes` is one valid schedule of it.

    As a region of a node it has no states and no writes, and its inputs are its parameters. `mesh` has the devices
    among which its shardings divide values; types are those of whole values. A region has none of its own.

    Examples:
        >>> from graphls.ir import parse
        >>> graph = parse('''
        ... graph @main(%x: f32[2]) {
        ...   %y = exp(%x) : f32[2]
        ...   return %y
        ... }
        ... ''')
        >>> [str(value) for value in graph.inputs], len(graph.nodes)
        (['%x: f32[2]'], 1)
    """

    name: str
    inputs: tuple[Value, ...]
    states: tuple[Value, ...]
    nodes: tuple[Node, ...]
    writes: tuple[Write, ...]
    outputs: tuple[Value, ...]
    mesh: Mesh | None = None

    text: ClassVar[Callable[[Graph], str]]
    """The function that writes a graph as text, set by `ir/text.py`."""

    difference: ClassVar[Callable[[Graph, Graph], Difference]]
    """The function that compares graphs, set by `inspect/viz/__init__.py`."""

    picture: ClassVar[Callable[[Graph], str] | None] = None
    """The function that draws a graph as SVG in notebooks, set by `graphls.viz`, as the IR imports nothing above it."""

    @property
    def node_count(self) -> int:
        """The number of nodes, those in regions included, as reports and pages count them."""
        return sum(1 for _ in walk(self))

    def replace(self, **changes: Any) -> Graph:
        """A copy with some fields changed; raises GraphTypeError for a field that graphs do not have."""
        try:
            return replace(self, **changes)
        except TypeError:
            known = [each.name for each in fields(self)]
            strange = next(name for name in changes if name not in known)
            raise GraphTypeError(f"A graph has no {strange!r}; it has {', '.join(known)}.") from None

    def state(self, name: str) -> Value:
        """The state of that name; raises GraphKeyError where there is none."""
        for value in self.states:
            if value.name == name:
                return value
        near = nearest(name, (value.name for value in self.states))
        raise GraphKeyError(f"The graph has no state {name!r}{near}.")

    def diff(self, other: Graph) -> Difference:
        """The difference from this graph to `other`, names apart; false where there is none, and `str` shows it."""
        return Graph.difference(self, other)

    def __str__(self) -> str:
        return Graph.text(self)

    def _repr_svg_(self) -> str | None:
        return None if Graph.picture is None else Graph.picture(self)

    def __repr__(self) -> str:
        on = f" on {self.mesh}" if self.mesh is not None else ""
        return f"<Graph @{self.name}{on}: {self.node_count} nodes, {len(self.states)} states>"


@dataclass(frozen=True, eq=False)
class Difference:
    """The difference between two graphs; false where there is nothing, and `str` shows it as text.

    `added` are the nodes that only `after` has, `removed` those that only `before` has, in the order of their texts,
    and `changed` the pairs (node of `before`, node of `after`) that correspond and yet differ. `paired` maps nodes of
    `after` to their nodes of `before`. `was` describes the earlier form of each changed node of `after`, one text for
    each property: operands, attributes, control edges, types, phase, cell, region, results of its regions. A change
    inside of its regions does not change a node; the inner nodes are listed.

    `inputs`, `states`, `writes`, `outputs` and `meshes` are pairs of those that differ, with None where there is none.
    """

    before: Graph
    after: Graph
    added: tuple[Node, ...]
    removed: tuple[Node, ...]
    changed: tuple[tuple[Node, Node], ...]
    paired: Mapping[Node, Node]
    was: Mapping[Node, tuple[str, ...]]
    inputs: tuple[tuple[Value | None, Value | None], ...]
    states: tuple[tuple[Value | None, Value | None], ...]
    writes: tuple[tuple[Write | None, Write | None], ...]
    outputs: tuple[tuple[Value | None, Value | None], ...]

    @property
    def meshes(self) -> tuple[tuple[Mesh | None, Mesh | None], ...]:
        """The pair of the meshes, where they differ."""
        pair = self.before.mesh, self.after.mesh
        return () if pair[0] == pair[1] else (pair,)

    text: ClassVar[Callable[[Difference], str]]
    """The function that writes it as text, set by `inspect/viz/__init__.py`."""

    card: ClassVar[Callable[[Difference], str] | None] = None
    """The function that shows it as HTML in notebooks, set by `graphls.viz`."""

    def __bool__(self) -> bool:
        nodes = self.added or self.removed or self.changed
        return bool(nodes or self.inputs or self.states or self.writes or self.outputs or self.meshes)

    def __str__(self) -> str:
        return Difference.text(self)

    def _repr_html_(self) -> str | None:
        return None if Difference.card is None else Difference.card(self)

    def __repr__(self) -> str:
        added, removed, changed = map(len, (self.added, self.removed, self.changed))
        return f"<Difference: {added} nodes added, {removed} removed, {changed} changed>"


def walk(graph: Graph) -> Iterator[Node]:
    """Every node of a graph and of its regions, a region's nodes before the node that holds it.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import ops
        >>> from graphls.ir import walk
        >>> traced = graphls.trace_graph(lambda x: ops.fori_loop(0, 3, lambda i, y: y * 2, x), np.ones(2, np.float32))
        >>> "mul" in {node.primitive.name for node in walk(traced.graph)}
        True
    """
    for node in graph.nodes:
        yield from inside(node)
        yield node


def inside(node: Node) -> Iterator[Node]:
    """Every node in the regions of a node."""
    for region in node.regions:
        yield from walk(region)


def blocks(graph: Graph) -> Iterator[Graph]:
    """A graph and every region in it."""
    yield graph
    for node in walk(graph):
        yield from node.regions


def with_regions(node: Node, change: Callable[[Graph], Graph]) -> Node:
    """The node with `change` applied to each of its regions; the same object where nothing changes."""
    if not node.regions:
        return node
    regions = tuple(map(change, node.regions))
    return node if regions == node.regions else replace(node, regions=regions)


def with_blocks(node: Node, change: Callable[[tuple[Node, ...]], Iterable[Node]]) -> Node:
    """The node with `change` applied to the nodes of each region; the same object where nothing changes."""

    def changed(region: Graph) -> Graph:
        nodes = tuple(change(region.nodes))
        return region if nodes == region.nodes else region.replace(nodes=nodes)

    return with_regions(node, changed)


def filtered(nodes: Iterable[Node], keep: Callable[[Node], bool]) -> tuple[Node, ...]:
    """The nodes for which `keep` is true, filtered in their regions, too."""
    return tuple(with_blocks(node, lambda inner: filtered(inner, keep)) for node in nodes if keep(node))


def with_edges(node: Node, keep: Callable[[Value], bool]) -> Node:
    """The node, also in its regions, with only the control edges for which `keep` is true; else the same object."""
    node = with_blocks(node, lambda nodes: (with_edges(inner, keep) for inner in nodes))
    if not node.after or all(map(keep, node.after)):
        return node
    return replace(node, after=tuple(filter(keep, node.after)))


def definers(nodes: Iterable[Node]) -> dict[Value, Node]:
    """The node that defines each value."""
    return {value: node for node in nodes for value in node.outputs}


def captures(graph: Graph) -> tuple[Value, ...]:
    """The values that a region uses and does not define, each once, in order of first use.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import ops
        >>> from graphls.ir import captures
        >>> x = np.ones(2, np.float32)
        >>> traced = graphls.trace_graph(lambda x, y: ops.cond(x.sum() > 0, lambda: y + 1, lambda: y), x, x)
        >>> (node,) = [node for node in traced.graph.nodes if node.regions]
        >>> [value.name for value in captures(node.regions[0])]
        ['x1']
    """
    defined = set(graph.inputs)
    used: dict[Value, None] = {}
    for node in graph.nodes:
        for value in uses(node):
            if value not in defined:
                used.setdefault(value)
        defined.update(node.outputs)
    for value in graph.outputs:
        if value not in defined:
            used.setdefault(value)
    return tuple(used)


def uses(node: Node) -> tuple[Value, ...]:
    """The values that a node reads, those that its regions capture included.

    Examples:
        >>> from graphls.ir import parse, uses
        >>> graph = parse('''
        ... graph @main(%x: f32[2]) {
        ...   %y = mul(%x, %x) : f32[2]
        ...   return %y
        ... }
        ... ''')
        >>> [value.name for value in uses(graph.nodes[0])]
        ['x', 'x']
    """
    if not node.regions:
        return node.inputs
    inner = (value for region in node.regions for value in captures(region))
    return tuple(dict.fromkeys((*node.inputs, *inner)))


def needs(node: Node) -> Iterator[Value]:
    """Every value that a node depends on: its operands, its control edges and those of the nodes in its regions.

    Examples:
        >>> from graphls.ir import needs, parse
        >>> graph = parse('''
        ... graph @main(%x: f32[2], %y: f32[2]) {
        ...   %z = add(%x, %y) : f32[2]
        ...   return %z
        ... }
        ... ''')
        >>> [value.name for value in needs(graph.nodes[0])]
        ['x', 'y']
    """
    yield from node.inputs
    yield from node.after
    for region in node.regions:
        inner = {*region.inputs, *(value for n in region.nodes for value in n.outputs)}
        yield from (value for n in region.nodes for value in needs(n) if value not in inner)
        yield from (value for value in region.outputs if value not in inner)


def in_order(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """The nodes with control edges between those of a block that have effects, which run in this order."""
    linked: list[Node] = []
    last: tuple[Value, ...] = ()
    for node in nodes:
        node = with_blocks(node, in_order)
        if node.primitive.has_effect:
            node = replace(node, after=tuple(dict.fromkeys((*node.after, *last))))
            last = node.outputs[:1]
        linked.append(node)
    return tuple(linked)
