"""Overflow windows: what runs between `overflow_start` and `overflow_get`, and the proof that it is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from graphls.ir.graph import Graph, Node, Value, uses, walk
from graphls.ir.text import reference
from graphls.ir.types import TOKEN
from graphls.ir.verify import fault
from graphls.passes.rewrite import definers


@dataclass(frozen=True)
class Window:
    """One `overflow_get`, the `overflow_start` whose token it reads, and the nodes around them.

    `before` are the ancestors of the get, `behind` the descendants of the start, by data and control edges.
    """

    start: Node
    get: Node
    before: frozenset[Node]
    behind: frozenset[Node]

    @property
    def inside(self) -> frozenset[Node]:
        """What runs after the start and before the get."""
        return self.before & self.behind - {self.start}


def blocks(graph: Graph) -> Iterator[tuple[Node, ...]]:
    """The node lists of a graph and of every region in it."""
    yield graph.nodes
    for node in walk(graph):
        for region in node.regions:
            yield region.nodes


def windows(nodes: Sequence[Node]) -> list[Window]:
    """The windows of one block, in the order of their gets."""
    definer = definers(nodes)
    found = []
    for get in nodes:
        token = token_of(get)
        start = definer.get(token) if token is not None else None
        if start is not None and get.primitive.name == "overflow_get":
            found.append(Window(start, get, ancestors(nodes, [get]), descendants(nodes, [start])))
    return found


def token_of(node: Node) -> Value | None:
    """The token that a node reads."""
    return node.inputs[0] if node.inputs and node.inputs[0].type == TOKEN else None


def ancestors(nodes: Sequence[Node], of: Iterable[Node]) -> frozenset[Node]:
    """The nodes that run before one of these, by data and control edges."""
    needed: set[Value] = set()
    found = []
    ends = set(of)
    for node in reversed(nodes):
        inside = not needed.isdisjoint(node.outputs)
        if inside:
            found.append(node)
        if inside or node in ends:
            needed.update(uses(node), node.after)
    return frozenset(found)


def descendants(nodes: Sequence[Node], of: Iterable[Node], control: bool = True) -> frozenset[Node]:
    """The nodes that run after one of these, by data and (where `control`) control edges."""
    reached = {value for node in of for value in node.outputs}
    found = []
    for node in nodes:
        if not reached.isdisjoint(uses(node)) or (control and not reached.isdisjoint(node.after)):
            found.append(node)
            reached.update(node.outputs)
    return frozenset(found)


def constants(nodes: Sequence[Node]) -> frozenset[Node]:
    """The nodes whose results are known before the step: constants and what is made of them only."""
    known: set[Value] = set()
    found = []
    for node in nodes:
        if not any(v.type == TOKEN for v in node.outputs) and all(v in known for v in uses(node)):
            known.update(node.outputs)
            found.append(node)
    return frozenset(found)


def verify_windows(graph: Graph) -> Graph:
    """Return `graph` if every overflow window in it is right.

    1. A window opens after the loss: forward nodes that feed it run before it opens.
    2. Backward nodes that the check depends on run inside it.
    3. Nothing outside raises the status: what is checked was made inside (or is constant).
    4. Nothing outside clears it, and windows on one token do not interleave: a token is cleared again only
       after everyone who reads it has read it, and stays in its block.
    5. A state that is written from inside a window is written under a status that has been read.

    Raises VerifyError, with the graph and the fault marked, for the first property that is broken.
    """
    for nodes in blocks(graph):
        _check_tokens(graph, nodes)
        fixed = constants(nodes)
        for window in windows(nodes):
            _check_window(graph, nodes, window, fixed)
    for window in windows(graph.nodes):
        _check_writes(graph, window)
    return graph


def _check_window(graph: Graph, nodes: Sequence[Node], window: Window, fixed: frozenset[Node]) -> None:
    opened = ancestors(nodes, [window.start])
    for node in nodes:
        if node not in window.before or node in opened or node in fixed or node is window.start:
            continue
        if node.phase == "backward" and node not in window.behind:
            raise fault(graph, node, f"this backward node must run inside the window of {_name(window.start)}")
        if node not in window.behind:
            raise fault(graph, node, f"this node must run before {_name(window.start)}, which opens after the loss")
    definer = definers(nodes)
    for value in window.get.inputs[1:]:
        made = definer.get(value)
        if made is None or (made not in window.inside and made not in fixed):
            text = f"{reference(value)} is checked here, but was not made inside the window of {_name(window.start)}"
            raise fault(graph, window.get, text)


def _check_tokens(graph: Graph, nodes: Sequence[Node]) -> None:
    here = {value for node in nodes for value in node.outputs}
    for node in nodes:
        token = token_of(node)
        if token is not None and token not in here:
            raise fault(graph, node, f"the token {reference(token)} comes from outside of this region")
        if token is not None and node.primitive.name == "overflow_start":
            _check_cleared(graph, nodes, node, token)


def _check_cleared(graph: Graph, nodes: Sequence[Node], again: Node, token: Value) -> None:
    earlier = ancestors(nodes, [again])
    for reader in nodes:
        if reader is not again and token in reader.inputs and reader not in earlier:
            kind = "reads" if reader.primitive.name == "overflow_get" else "clears"
            text = f"{reference(token)} is cleared here while {_name(reader)} still {kind} it: windows interleave"
            raise fault(graph, again, text)


def _check_writes(graph: Graph, window: Window) -> None:
    checked = {v for n in descendants(graph.nodes, [window.get], control=False) for v in n.outputs}
    made_inside = _derived(graph.nodes, {v for n in window.inside for v in n.outputs})
    for write in graph.writes:
        if write.value in made_inside and write.value not in checked | set(window.get.outputs):
            text = f"{reference(write.state)} is written before the status of {_name(window.get)} is read"
            raise fault(graph, write, text)


def _derived(nodes: Sequence[Node], values: set[Value]) -> set[Value]:
    """The values and all that is computed from them."""
    derived = set(values)
    for node in nodes:
        if not derived.isdisjoint(uses(node)):
            derived.update(node.outputs)
    return derived


def _name(node: Node) -> str:
    shown = reference(node.outputs[0])
    return f"{shown} ({node.loc})" if node.loc else shown
