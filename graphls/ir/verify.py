"""The verifier: checks every invariant of a graph."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from graphls.base.errors import GraphlsError, VerifyError
from graphls.base.location import Location
from graphls.ir.graph import PHASES, Graph, Node, Value, Write, blocks, definers, needs, walk
from graphls.ir.registry import Operation
from graphls.ir.sharding import Sharding
from graphls.ir.text import lines, reference
from graphls.ir.types import TOKEN, Type


def verify(graph: Graph, typed: set[Node] | None = None) -> Graph:
    """Return `graph` if it keeps every rule of the IR.

    Each value is defined once and before its use (data and control edges have no cycle), names are
    unique, types are what the primitives infer, tokens are read only by primitives that take them and
    never leave their graph or region, what a region defines stays inside, and a state is written at
    most once by a value of its type. Shardings divide values evenly by axes of the mesh of the graph, and a value
    that a state takes has no other sharding than the state. Raises VerifyError, whose message is the graph with the
    fault under the offending line.

    `typed` are nodes whose types fit, as an earlier graph has shown that shares them; those of this graph join them.

    Examples:
        >>> from graphls.ir import parse, verify
        >>> graph = parse('''
        ... graph @main(%x: f32[2]) {
        ...   %y = exp(%x) : f32[2]
        ...   return %y
        ... }
        ... ''')
        >>> verify(graph) is graph
        True
    """
    _Verifier(graph, set() if typed is None else typed).run()
    return graph


def fault(graph: Graph, where: object, message: str, loc: Location | None = None) -> VerifyError:
    """The error that prints the graph with `message` marked under the line that shows `where`.

    `where` is what `lines` gives for that line; `loc` the user's line, if `where` is not a node that has one.
    """
    shown: list[str] = []
    mark = None
    for line, item in lines(graph):
        line = line if len(line) <= _WIDEST else f"{line[:_WIDEST]}..."
        shown.append(line)
        if item is where and mark is None:
            mark = len(shown)
            text = line.lstrip()
            shown.append(f"{line[: -len(text)]}{'^' * len(text)} {message}")
    loc = where.loc if isinstance(where, Node) else loc
    sentence = f"{message[0].upper()}{message[1:]}{f' ({loc})' if loc else ''}."
    return VerifyError("\n".join([sentence, *_near(shown, mark or 0)]))


def _near(shown: list[str], at: int, around: int = 40) -> list[str]:
    """The lines around the mark: a large graph is cut to a screen."""
    first, last = max(0, at - around), at + around
    before = [shown[0], "  ..."] if first > 1 else shown[:first]
    return [*before, *shown[first:last], *(["  ..."] if last < len(shown) else [])]


_WIDEST = 240


class _Verifier:
    def __init__(self, graph: Graph, typed: set[Node]) -> None:
        self.graph = graph
        self.typed = typed
        self.names: set[tuple[bool, str]] = set()
        self.defined: set[Value] = set()
        self.enclosed: set[Value] = set()
        self.shardings: dict[Value, Sharding | None] = {}
        """The shardings that are stated, of inputs, states and results of `shard`; None for a whole value."""

    def run(self) -> None:
        self.header()
        for node in self.graph.nodes:
            self.node(node)
        self.writes()
        outputs = self.graph.outputs
        for value in outputs:
            if value not in self.defined:
                raise fault(self.graph, outputs, f"the output {self.undefined(value)}")
            if value.type == TOKEN or value.type.stacked:
                kind = "token" if value.type == TOKEN else "stack"
                raise fault(self.graph, outputs, f"the {kind} {reference(value)} cannot leave the graph")

    def header(self) -> None:
        for value in self.graph.inputs:
            if value.is_state:
                raise fault(self.graph, self.graph, f"the input {reference(value)} is marked as a state")
            if value.type.stacked:
                raise fault(self.graph, self.graph, f"the input {reference(value)} cannot be a stack")
            self.define(value, self.graph)
            self.sharded(value, self.graph)
        for value in self.graph.states:
            if not value.is_state:
                raise fault(self.graph, value, f"the state {value.name!r} is not marked as a state")
            if value.type == TOKEN or value.type.stacked:
                kind = "token" if value.type == TOKEN else "stack"
                raise fault(self.graph, value, f"the state {reference(value)} cannot be a {kind}")
            self.define(value, value)
            self.sharded(value, value)

    def define(self, value: Value, where: object) -> None:
        key = (value.is_state, value.name)
        if value in self.defined or value in self.enclosed:
            raise fault(self.graph, where, f"{reference(value)} is defined twice")
        if key in self.names:
            raise fault(self.graph, where, f"the name {reference(value)} is used twice")
        self.names.add(key)
        self.defined.add(value)

    def sharded(self, value: Value, where: object) -> None:
        """Check and record the sharding that is stated for a value."""
        self.shardings[value] = sharding = value.sharding
        if sharding is None:
            return
        if self.graph.mesh is None:
            names = " and ".join(sharding.names)
            raise fault(self.graph, where, f"{reference(value)} is divided by {names}, and the graph has no mesh")
        if (reason := sharding.fault(value.type.shape, self.graph.mesh)) is not None:
            raise fault(self.graph, where, f"{reference(value)} {reason}")

    def node(self, node: Node) -> None:
        for value in chain(node.inputs, node.after):
            if value not in self.defined:
                raise fault(self.graph, node, self.undefined(value))
        if node.phase not in PHASES:
            raise fault(self.graph, node, f"{node.phase!r} is not a phase; there are {', '.join(PHASES)}")
        for region in node.regions:
            self.region(region, node)
        if node not in self.typed:
            self.types(node)
            self.typed.add(node)
        for value in node.outputs:
            self.result(value, node)

    def result(self, value: Value, node: Node) -> None:
        if value.is_state:
            raise fault(self.graph, node, f"a node cannot define the state {reference(value)}")
        self.define(value, node)
        if value.sharding is not None or self.graph.mesh is not None:
            self.sharded_result(value, node)

    def sharded_result(self, value: Value, node: Node) -> None:
        """Check that a result of a node, or a parameter of its region, has the sharding that the node requires."""
        required = node.primitive.result_sharding(node.attrs) if value in node.outputs else None
        if value.sharding != (required or None):
            expected = required.typed(value.type) if required else "not divided"
            raise fault(self.graph, node, f"{reference(value)} is {expected} by its node, and not {value.type_text}")
        if required is not None:
            self.sharded(value, node)

    def undefined(self, value: Value) -> str:
        """The reason why a value cannot be used at its position."""
        if value in self.enclosed:
            return f"{reference(value)} belongs to a region and cannot be used outside of it"
        if not any(value in node.outputs for node in walk(self.graph)):
            return f"{reference(value)} is not defined"
        cycle = next(filter(None, (find_cycle(block.nodes) for block in blocks(self.graph))), None)
        if cycle:
            return f"data and control edges form a cycle: {' -> '.join(cycle)}"
        return f"{reference(value)} is used before it is defined"

    def region(self, region: Graph, node: Node) -> None:
        if region.states or region.writes:
            raise fault(self.graph, node, "a region cannot have states or writes")
        if region.mesh is not None:
            raise fault(self.graph, node, "a region has the mesh of its graph, and none of its own")
        for value in region.inputs:
            self.result(value, node)
        for inner in region.nodes:
            self.node(inner)
        for value in region.outputs:
            # Messages are made only on failure, as to format one takes longer than the check.
            if value not in self.defined:
                text = f"the region yields {reference(value)}, which is not defined"
                raise fault(self.graph, region.outputs, text, node.loc)
            if value.type == TOKEN:
                text = f"the token {reference(value)} cannot leave its region"
                raise fault(self.graph, region.outputs, text, node.loc)
        own = {*region.inputs, *(value for inner in region.nodes for value in inner.outputs)}
        self.enclosed |= own
        self.defined -= own

    def types(self, node: Node) -> None:
        try:
            node.primitive.check_attributes(node.attrs)
            inferred = node.primitive.result_types(tuple(v.type for v in node.inputs), node.attrs, node.regions)
        except GraphlsError as error:
            raise fault(self.graph, node, error.message.rstrip(".")) from None
        except Exception as error:  # a type rule may fail in any way on attributes that it does not expect
            text = f"{node.primitive.name} does not take these operands and attributes ({error!r})"
            raise fault(self.graph, node, text) from error
        declared = tuple(v.type for v in node.outputs)
        if inferred != declared:
            expected, actual = (", ".join(map(str, types)) or "nothing" for types in (inferred, declared))
            raise fault(self.graph, node, f"{node.primitive.name} gives {expected} here, not {actual}")

    def writes(self) -> None:
        states = set(self.graph.states)
        for write in self.graph.writes:
            state, value = write.state, write.value
            if not state.is_state or state not in self.defined:
                raise fault(self.graph, write, f"{reference(state)} is not a state of this graph")
            if state not in states:
                raise fault(self.graph, write, f"{reference(state)} is written twice")
            if value not in self.defined:
                raise fault(self.graph, write, self.undefined(value))
            if state.type != value.type:
                text = f"{reference(state)} holds {state.type} and cannot take {value.type}"
                raise fault(self.graph, write, text)
            if self.shardings.get(value, state.sharding) != state.sharding:
                text = f"{reference(state)} is {state.type_text} and cannot take {value.type_text}, divided otherwise"
                raise fault(self.graph, write, text)
            states.remove(state)


def find_cycle(nodes: tuple[Node, ...]) -> list[str]:
    """The values along one cycle of data and control edges, first one repeated; empty if none."""
    import networkx

    definer = definers(nodes)
    edges = networkx.DiGraph()
    for node in nodes:
        edges.add_edges_from((definer[value], node) for value in needs(node) if value in definer)
    try:
        cycle = [edge[0] for edge in networkx.find_cycle(edges)]
    except networkx.NetworkXNoCycle:
        return []
    return [reference(n.outputs[0]) for n in (*cycle, cycle[0])]


_PARTS = {"inputs": Value, "states": Value, "nodes": Node, "writes": Write, "outputs": Value}


def type_errors(graph: Graph) -> Iterator[str]:
    """Sentences about parts of a graph that have the wrong Python type, which must be right before it is verified."""
    for name, kind in _PARTS.items():
        yield from _of_kind(f"its {name}", getattr(graph, name), kind)
    for node in graph.nodes:
        if not isinstance(node.primitive, Operation):
            yield f"the primitive of a node is {node.primitive!r}, and must be what graphls.passes.lookup gives"
        yield from _of_kind(f"the inputs of {node.primitive}", node.inputs, Value)
        yield from _of_kind(f"the outputs of {node.primitive}", node.outputs, Value)
    for value in (*graph.inputs, *graph.states, *(v for node in graph.nodes for v in node.outputs)):
        if not isinstance(value.type, Type):
            yield f"the type of {value.name!r} is {value.type!r}, and must be a Type, as of(float32, 2, 3) gives"


def _of_kind(part: str, items: object, kind: type) -> Iterator[str]:
    """A sentence where a part of the graph is not a tuple of objects of a class."""
    if not isinstance(items, (tuple, list)):
        yield f"{part} are {items!r}, and must be a tuple of {kind.__name__}s"
    elif wrong := [item for item in items if not isinstance(item, kind)]:
        yield f"{part} have {wrong[0]!r}, which is not a {kind.__name__}"
