"""The overflow pass: places the overflow windows of loss scaling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.ir.build import Names
from graphls.ir.graph import Graph, Node, Value, definers, inside, uses, with_blocks
from graphls.ir.reachability import ancestors, descendants
from graphls.ir.registry import lookup
from graphls.ir.types import TOKEN, Type, bool_, float16
from graphls.passes.manager import Pipeline, register_pass
from graphls.passes.rewriter import carries, schedule
from graphls.passes.windows import (
    Window,
    closed_before,
    constants,
    flags,
    gets,
    token_of,
    window_of,
    windows,
)


def with_mode(pipeline: Pipeline, mode: str) -> Pipeline:
    """The pipeline with this mode set on its overflow passes.

    Raises GraphValueError where there is none, and for one whose options name another mode.
    """
    passes = [each for each in pipeline.passes if isinstance(each, Overflow)]
    if not passes:
        raise GraphValueError(f"These passes have no overflow pass to have the mode {mode!r}; add `overflow`.")
    for each in passes:
        if each.mode not in (mode, None):
            raise GraphValueError(f"The overflow mode is {mode!r} here and {each.mode!r} among the passes; name one.")
    replaced = (replace(each, mode=mode) if isinstance(each, Overflow) else each for each in pipeline.passes)
    return Pipeline(tuple(replaced))


@register_pass
@dataclass(frozen=True)
class Overflow:
    """Place `overflow_start` after the loss and before the backward, `overflow_get` after the values that it checks.

    Before:

        %loss = mean(%p) {axis=[0, 1]} : f32[]  // forward
        %seed = depend(%scale) after(%loss) : f32[]  // backward
        %gw = mul(%x, %seed) : f32[4]  // backward
        %overflow = overflow_get(%gw) : bool[]  // check

    After:

        %loss = mean(%p) {axis=[0, 1]} : f32[]  // forward
        %status = overflow_start() after(%loss) : token  // check
        %seed = depend(%scale) after(%loss, %status) : f32[]  // backward
        %gw = mul(%x, %seed) : f32[4]  // backward
        %overflow = overflow_get(%status, %gw) : bool[]  // check

    `mode` chooses the values that raise the status: "outputs" (also None), only those that the user checks; "window",
    every float value computed inside, as a hardware status register does. In a window without float16 values nothing is
    added: an overflow of float32 or bfloat16 there is a fault that no loss scale can avoid.
    """

    mode: str | None = None
    name = "overflow"

    def __post_init__(self) -> None:
        if self.mode not in ("outputs", "window", None):
            raise GraphValueError(f"The mode of overflow is 'outputs' or 'window', not {self.mode!r}.")

    def run(self, graph: Graph) -> Graph:
        """The graph with every window in its place."""
        return graph.replace(nodes=self.block(graph.nodes, Names.of(graph)))

    def block(self, nodes: Iterable[Node], names: Names) -> tuple[Node, ...]:
        nodes = [with_blocks(node, lambda inner: self.block(inner, names)) for node in nodes]
        nodes = with_starts(nodes, names)
        # One window after the other: the edges that place one decide which nodes the next one contains.
        for flag in flags(nodes):
            nodes = list(schedule(place_window(nodes, window_of(nodes, flag))))
        for flag in flags(nodes) if self.mode == "window" else ():
            window = window_of(nodes, flag)
            nodes = watch_all(nodes, window, names) if can_overflow_early(window.inside) else nodes
        return tuple(without_idle_edges(nodes))


def without_idle_edges(nodes: Sequence[Node]) -> list[Node]:
    """Drop the edges by which seeds of the backward wait for the loss, but for those that put them inside a window.

    Recomputed nodes keep their edges, without which they would be merged with the first run.
    """
    definer = definers(nodes)
    waits = [n for n in nodes if n.phase == "backward" and n.primitive.name == "depend"]
    seeds = [n for n in waits if not n.attrs.get("recompute")]
    waiting = {n for w in windows(nodes) for n in seeds if n in w.inside and definer.get(n.inputs[0]) not in w.behind}
    idle = set(seeds) - waiting
    return [replace(n, after=()) if n in idle else n for n in nodes]


def with_starts(nodes: Sequence[Node], names: Names) -> list[Node]:
    """Give every `overflow_get` without a status one that opens before the first backward node that it checks.

    A get that checks values of another window reads the status of that one. A get that checks nothing of a backward
    needs no window: it is a plain test of values.
    """
    result = list(nodes)
    for get in gets(nodes):
        if token_of(get) is None:
            before = ancestors(result, [get]) - closed_before(result, get)
            checked = [n for n in result if n in before and n.phase == "backward"]
            if checked:
                start = _open_window(result, checked) or _new_start(get, names)
                # An open window starts earlier where this get checks nodes before it.
                if start in result and result.index(start) > result.index(checked[0]):
                    result.remove(start)
                if start not in result:
                    result.insert(result.index(checked[0]), start)
                result[result.index(get)] = replace(get, inputs=(*start.outputs, *get.inputs))
    return result


def _open_window(nodes: Sequence[Node], checked: Sequence[Node]) -> Node | None:
    """The start of a window in which some of these nodes run."""
    for get in (n for n in gets(nodes) if token_of(n) is not None):
        if not (ancestors(nodes, [get]) - closed_before(nodes, get)).isdisjoint(checked):
            return definers(nodes).get(get.inputs[0])
    return None


def _new_start(get: Node, names: Names) -> Node:
    status = Value(names.fresh("status"), TOKEN)
    return Node(lookup("overflow_start"), (), (status,), phase="check", scope=get.scope, loc=get.loc)


def place_window(nodes: Sequence[Node], window: Window) -> list[Node]:
    """Open the window after every forward node that feeds it, and move the backward nodes into it."""
    start = replace(window.start, after=_merged(window.start.after, _opening(nodes, window)))
    (status,) = start.outputs
    fixed = constants(nodes)
    # Ancestors of the get that no edge puts after the start, such as nodes of the loss scale alone. Ancestors of the
    # start, and nodes of earlier windows, stay outside: an edge from the start would close a cycle.
    outside = {n for n in window.before - window.behind - fixed if n.phase == "backward"}
    outside -= ancestors(nodes, [window.start]) | closed_before(nodes, window.get)
    # The first node of a chain gets the edge; the others are after that one by data.
    values_outside = {v for n in outside for v in n.outputs}
    placed = []
    for node in nodes:
        if node is window.start:
            node = start
        elif node in outside and values_outside.isdisjoint(uses(node)):
            node = replace(node, after=_merged(node.after, (status,)))
        placed.append(node)
    return placed


def _opening(nodes: Sequence[Node], window: Window) -> tuple[Value, ...]:
    """The last forward values that feed the window, and those that its backward nodes wait for."""
    definer = definers(nodes)
    fixed = constants(nodes)
    closed = closed_before(nodes, window.get)
    outer = [n for n in nodes if n in window.before and n not in window.behind and n is not window.start]
    feeding = {n for n in outer if n.phase != "backward" and n not in fixed}
    # The seed of a backward reads only the loss scale; its control edge puts it after the loss.
    waited = {v for n in window.before if n.phase == "backward" for v in n.after if v in definer}
    feeding |= {definer[v] for v in waited if definer[v] not in window.behind and definer[v] not in fixed}
    # Backward nodes before the window are about to move inside, so the start cannot wait for their descendants.
    feeding -= {window.start} | descendants(nodes, [n for n in outer if n.phase == "backward" and n not in closed])
    # Of x -> matmul -> mean the start waits only for the mean, whose ancestors run before it anyway.
    used = {v for n in feeding for v in (*uses(n), *n.after)}
    last = [n for n in nodes if n in feeding and n.phase != "backward" and used.isdisjoint(n.outputs)]
    return tuple(n.outputs[0] for n in last)


def can_overflow_early(nodes: Iterable[Node]) -> bool:
    """Whether a value of these nodes overflows where float32 does not, so that it is worth watching."""
    return any(v.type.dtype is float16 for node in nodes for each in (node, *inside(node)) for v in each.outputs)


def watch_all(nodes: Sequence[Node], window: Window, names: Names) -> list[Node]:
    """Let the get check every float value that is computed inside the window, also in regions."""
    watched = {n: with_flag(n, names) for n in nodes if n in window.inside and runs_regions(n)}
    watched_values: list[Value] = []
    for node in (n for n in nodes if n in window.inside):
        watched_values += filter(is_checked, node.outputs)
        watched_values += [watched[node][1]] if node in watched else []
    inputs, attrs = _merged(window.get.inputs, tuple(watched_values)), {**window.get.attrs, "mode": "window"}
    replaced = {n: flagged for n, (flagged, _) in watched.items()}
    replaced[window.get] = (replace(window.get, inputs=inputs, attrs=attrs),)
    return [new for n in nodes for new in replaced.get(n, (n,))]


def _merged(first: tuple[Value, ...], second: tuple[Value, ...]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys((*first, *second)))


Item = TypeVar("Item")


def runs_regions(node: Node) -> bool:
    """Whether the regions of a node run with it; that of a custom gradient runs elsewhere."""
    return node.primitive.is_branch or node.primitive.is_loop


def with_flag(node: Node, names: Names) -> tuple[tuple[Node, ...], Value]:
    """A node, and nodes before it, with one more output: whether a float value of a region is not finite.

    A `cond` checks the branch that ran; a loop carries the flag, so that every iteration counts.
    """
    if node.primitive.is_branch:
        flag = _fresh(names)
        regions = tuple(_flagged(region, names, len(region.outputs)) for region in node.regions)
        return (replace(node, regions=regions, outputs=(*node.outputs, flag)),), flag
    return _loop_with_flag(node, names)


def _loop_with_flag(node: Node, names: Names) -> tuple[tuple[Node, ...], Value]:
    count = carries(node)
    start, own, flag = (_fresh(names) for _ in range(3))
    no = np.array(False)
    no.flags.writeable = False
    constant = Node(lookup("constant"), (), (start,), {"value": no}, phase="check", scope=node.scope, loc=node.loc)
    *tests, body = node.regions
    # The condition takes all carried values, also those that it does not read.
    tests = [r.replace(inputs=_inserted(r.inputs, count, _fresh(names))) for r in tests]
    body = _flagged(body.replace(inputs=_inserted(body.inputs, count, own)), names, count, own)
    attrs = {**node.attrs, "carries": count + 1} if "carries" in node.attrs else node.attrs
    inputs, outputs = _inserted(node.inputs, count, start), _inserted(node.outputs, count, flag)
    return (constant, replace(node, inputs=inputs, outputs=outputs, attrs=attrs, regions=(*tests, body))), flag


def _flagged(region: Graph, names: Names, at: int, *earlier: Value) -> Graph:
    """A region that also yields, at an index, whether a float value in it, or an earlier flag, is not finite."""
    nodes: list[Node] = []
    checked = list(earlier)
    for node in region.nodes:
        if runs_regions(node):
            flagged, flag = with_flag(node, names)
            nodes.extend(flagged)
            checked.append(flag)
        else:
            nodes.append(node)
        checked.extend(filter(is_checked, node.outputs))
    flag = _fresh(names)
    get = Node(lookup("overflow_get"), tuple(checked), (flag,), {"mode": "window"}, phase="check")
    return region.replace(nodes=(*nodes, get), outputs=_inserted(region.outputs, at, flag))


def is_checked(value: Value) -> bool:
    """Whether a check can take a value; elements of a stack are checked inside of the loop that computes them."""
    return value.type.dtype.is_float and not value.type.stacked


def _fresh(names: Names) -> Value:
    return Value(names.fresh("raised"), Type(bool_))


def _inserted(items: Sequence[Item], at: int, item: Item) -> tuple[Item, ...]:
    return (*items[:at], item, *items[at:])
