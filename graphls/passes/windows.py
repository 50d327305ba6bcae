"""Overflow windows from `overflow_start` to `overflow_get`, and the proof of their correctness."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from graphls.base.location import Location
from graphls.ir.graph import Graph, Node, Value, Write, captures, definers, uses
from graphls.ir.reachability import Reachability, ancestors, dependents, descendants, marked_dependents
from graphls.ir.text import reference
from graphls.ir.types import TOKEN
from graphls.ir.verify import fault
from graphls.passes.rewriter import carries


@dataclass(frozen=True)
class Written:
    """A block of nodes with the states whose new values it computes; `outputs` are those of a region."""

    nodes: Sequence[Node]
    writes: tuple[Write, ...]
    outputs: tuple[Value, ...] | None = None
    loc: Location | None = None

    def line(self, write: Write) -> object:
        """The location that the text shows for a write."""
        return write if self.outputs is None else self.outputs


def written(graph: Graph) -> Iterator[Written]:
    """The graph, and each region of a loop that carries a state to its new value."""
    yield from _with_loops(Written(graph.nodes, graph.writes))


def _with_loops(block: Written) -> Iterator[Written]:
    yield block
    for node, writes in _carried(block).items():
        region = node.regions[-1]
        yield from _with_loops(Written(region.nodes, tuple(writes), region.outputs, node.loc))


def _carried(block: Written) -> dict[Node, list[Write]]:
    """The loops of a block that carry states, each with the writes of these in one iteration."""
    definer = definers(block.nodes)
    loops: dict[Node, list[Write]] = {}
    for write in block.writes:
        node = definer.get(write.value)
        if node is not None and node.primitive.is_loop:
            at = node.outputs.index(write.value)
            if at < carries(node):
                loops.setdefault(node, []).append(Write(write.state, node.regions[-1].outputs[at]))
    return loops


@dataclass(frozen=True)
class Window:
    """One `overflow_get`, the `overflow_start` whose token it reads, and the nodes around them.

    `before` are the ancestors of the get, `behind` the descendants of the start, by data and control edges.
    """

    start: Node
    get: Node
    before: frozenset[Node]
    behind: frozenset[Node]

    @cached_property
    def inside(self) -> frozenset[Node]:
        """The nodes after the start and before the get."""
        return self.before & self.behind - {self.start}


def windows(nodes: Sequence[Node]) -> list[Window]:
    """The windows of one block, in the order of their gets."""
    return [window_of(nodes, flag) for flag in flags(nodes)]


def flags(nodes: Sequence[Node]) -> list[Value]:
    """The flags of the `overflow_get` nodes whose status is of this block."""
    here = {value for node in nodes for value in node.outputs}
    return [n.output for n in gets(nodes) if token_of(n) in here]


def gets(nodes: Iterable[Node]) -> list[Node]:
    """The `overflow_get` nodes of a block."""
    return [node for node in nodes if node.primitive.is_check]


def window_of(nodes: Sequence[Node], flag: Value) -> Window:
    """The window that the `overflow_get` of this flag closes."""
    definer = definers(nodes)
    get = definer[flag]
    start = definer[get.inputs[0]]
    return Window(start, get, ancestors(nodes, [get]), descendants(nodes, [start]))


def token_of(node: Node) -> Value | None:
    """The token that a node reads."""
    return node.inputs[0] if node.inputs and node.inputs[0].type == TOKEN else None


def closed_before(nodes: Sequence[Node], get: Node) -> frozenset[Node]:
    """The nodes of windows that have closed before this one opens: they decide its operands."""
    earlier = gets(ancestors(nodes, [get]))
    return ancestors(nodes, earlier) | set(earlier)


def constants(nodes: Sequence[Node], around: Iterable[Value] = ()) -> frozenset[Node]:
    """The nodes whose results are known before the step: constants and all that depends on constants only.

    `around` are the values around a region that are known.
    """
    known = set(around)
    nodes_found = []
    for node in nodes:
        if not any(v.type == TOKEN for v in node.outputs) and all(v in known for v in uses(node)):
            known.update(node.outputs)
            nodes_found.append(node)
    return frozenset(nodes_found)


def _blocks_with_constants(
    nodes: tuple[Node, ...], around: frozenset[Value] = frozenset()
) -> Iterator[tuple[tuple[Node, ...], frozenset[Node]]]:
    """Each block of nodes, the regions included, with the nodes whose results are known before the step."""
    fixed = constants(nodes, around)
    yield nodes, fixed
    holders = [node for node in nodes if node.regions]
    known = around.union(v for node in fixed for v in node.outputs) if holders else around
    for region in (region for node in holders for region in node.regions):
        yield from _blocks_with_constants(region.nodes, known)


def verify_windows(graph: Graph) -> Graph:
    """Return `graph` if every overflow window in it is right.

    1. A window opens after the loss: forward nodes that feed it run before it opens.
    2. Backward nodes that the check depends on run inside it.
    3. No value from outside raises the status: checked values are computed inside, or constant.
    4. No node from outside clears it: a token is cleared again only after all of its readers and stays in its block,
       and windows of different tokens do not interleave.
    5. A state that is written from inside a window is written under a status that has been read; in a loop that
       carries it, in each iteration.
    6. That status covers all of the backward that the state is written with.

    Raises VerifyError, with the graph and the fault marked, for the first property that is broken.
    """
    for nodes, fixed in _blocks_with_constants(graph.nodes):
        _check_tokens(graph, nodes)
        block_windows = windows(nodes)
        for window in block_windows:
            _check_window(graph, nodes, window, fixed)
        _check_apart(graph, block_windows)
    for block in written(graph):
        for window in windows(block.nodes):
            _check_writes(graph, block, window)
        _check_cover(graph, block)
    return graph


def _check_apart(graph: Graph, block_windows: Sequence[Window]) -> None:
    for i, window in enumerate(block_windows):
        for other in block_windows[:i]:
            if other.start is not window.start and not window.inside.isdisjoint(other.inside):
                text = (
                    f"the window of {_name(window.start)} interleaves with that of {_name(other.start)}: read the "
                    "status of one before the other opens, or use one status for both"
                )
                raise fault(graph, window.get, text)


def _check_window(graph: Graph, nodes: Sequence[Node], window: Window, fixed: frozenset[Node]) -> None:
    opened = ancestors(nodes, [window.start])
    for node in nodes:
        # Nodes that the get does not need may run at any time, and ancestors of the start run before it already.
        if node not in window.before or node in opened or node in fixed or node is window.start:
            continue
        if node.phase == "backward" and node not in window.behind:
            raise fault(graph, node, f"this backward node must run inside the window of {_name(window.start)}")
        if node not in window.behind:
            raise fault(graph, node, f"this node must run before {_name(window.start)}, which opens after the loss")
    definer = definers(nodes)
    for value in window.get.inputs[1:]:
        maker = definer.get(value)
        if maker is None or (maker not in window.inside and maker not in fixed):
            text = f"{reference(value)} is checked here, but not computed inside the window of {_name(window.start)}"
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
            kind = "reads" if reader.primitive.is_check else "clears"
            text = f"{reference(token)} is cleared here while {_name(reader)} still {kind} it: windows interleave"
            raise fault(graph, again, text)


def _check_writes(graph: Graph, block: Written, window: Window) -> None:
    # An update that can be skipped reads the flag by data; one that only runs after the get always writes.
    readers = descendants(block.nodes, [window.get], control=False)
    checked = {*window.get.outputs, *(v for n in readers for v in n.outputs)}
    values_inside = dependents(block.nodes, {v for n in window.inside for v in n.outputs})
    for write in block.writes:
        if write.value in values_inside and write.value not in checked:
            writer = definers(block.nodes).get(write.value)
            text = (
                f"{reference(write.state)} is written{_at(writer)} before the status {_name(window.get)} is read, so "
                "no overflow can be skipped: update under `if not overflow`"
            )
            raise fault(graph, block.line(write), text, block.loc)


def _check_cover(graph: Graph, block: Written) -> None:
    """Check that every backward node that a guarded write needs runs before a status that guards it."""
    cover = Cover(block.nodes)
    definer = definers(block.nodes)
    for write in block.writes:
        writer = definer.get(write.value)
        missed = cover.missed(writer) if writer is not None else None
        if writer is not None and missed is not None and _depends_on(write.value, writer, missed):
            get = next(n for n in block.nodes if cover.guards(n, writer))
            text = (
                f"{reference(write.state)} is written with {_name(missed)}, which the status {_name(get)} does not "
                "cover: its window closes before what it must check, so give get_overflow_status every gradient"
            )
            raise fault(graph, missed, text)


def _depends_on(value: Value, writer: Node, missed: Node) -> bool:
    """Whether a branch of the writer computes the value from results of the missed node, as far as captures show."""
    if not writer.primitive.is_branch:
        return True
    at = writer.outputs.index(value)
    seen = [r for r in writer.regions if not set(captures(r)).isdisjoint(missed.outputs)]
    return not seen or any(region.outputs[at] in dependents(region.nodes, missed.outputs) for region in seen)


class Cover:
    """The `overflow_get`s before each node, and the backward nodes before each of them, by data.

    A write of `where(flag1, w, w - g1 - g2)` where flag1 checks g1 only is guarded by flag1, but the node that makes g2
    comes before no get that guards it: an overflow of g2 would be written. Sets of gets are integers of bits,
    computed in one sweep forward and one back.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        checks = gets(nodes)
        self.nodes = nodes if checks else ()
        self.reach = Reachability(self.nodes, checks)
        self.covered = marked_dependents(self.nodes, self.reach.bit)
        self.backward: dict[Node, frozenset[int]] = {}
        for node in self.nodes:
            self.backward[node] = self._covers_before(node)

    def _covers_before(self, node: Node) -> frozenset[int]:
        """The covers of the backward nodes up to this one, each different set of gets once."""
        covers = frozenset({self.covered[node]}) if node.phase == "backward" and uses(node) else frozenset[int]()
        for earlier in self.reach.predecessors(node):
            # Most nodes have the covers of their predecessors; a union would copy them each time.
            if not self.backward[earlier] <= covers:
                covers |= self.backward[earlier]
        return covers

    def guards(self, get: Node, writer: Node) -> bool:
        """Whether a get comes before a writer by data."""
        bit = self.reach.bit.get(get, 0)
        return bool(bit and bit & self.reach.until(writer))

    def missed(self, writer: Node) -> Node | None:
        """A backward node before the writer that none of the gets before the writer comes after."""
        guards = self.reach.until(writer) if self.nodes else 0
        if not guards or all(bits & guards for bits in self.backward[writer]):
            return None
        earlier = ancestors(self.nodes, [writer])
        uncovered = [n for n in self.nodes if n in earlier and n.phase == "backward" and not self.covered[n] & guards]
        return uncovered[-1]


def _at(node: Node | None) -> str:
    return f" ({node.loc})" if node is not None and node.loc is not None else ""


def _name(node: Node) -> str:
    shown = reference(node.outputs[0])
    return f"{shown} ({node.loc})" if node.loc else shown
