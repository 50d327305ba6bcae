"""Delta debugging of graphs: cuts away all that a fault does not need, even a fault that crashes the process."""

from __future__ import annotations

import faulthandler
import multiprocessing
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from graphls.base.errors import GraphlsError, GraphValueError
from graphls.ir.build import substitute
from graphls.ir.graph import Graph, Node, Value, captures, filtered, uses, walk, with_regions
from graphls.ir.parse import parse
from graphls.ir.text import dump
from graphls.ir.types import TOKEN
from graphls.ir.verify import verify

Predicate = Callable[[Graph], bool]


def reduce_graph(graph: Graph, predicate: Predicate, *, attempts: int = 2000) -> Graph:
    """The smallest graph that could be cut out of `graph` so that `predicate` still holds for it.

    Outputs and writes are dropped, nodes at any depth become inputs of the graph, conditions become one of their
    branches, and nodes are replaced by an operand of their type, as long as the predicate holds, in at most `attempts`
    attempts. Each graph that is tried is valid and has no dead nodes; values that become inputs keep their names. A
    GraphlsError in the predicate counts as false. Where the fault may crash the process, the predicate calls
    `run_apart`.

    Raises GraphValueError where the predicate does not hold for `graph` itself.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.testing import reduce_graph
        >>> graph = parse('''
        ... graph @main(%x: f32[2]) {
        ...   %a = exp(%x) : f32[2]
        ...   %b = log(%a) : f32[2]
        ...   %c = abs(%b) : f32[2]
        ...   return %c
        ... }
        ... ''')
        >>> def has_log(graph):
        ...     return any(node.primitive.name == "log" for node in graph.nodes)
        >>> [node.primitive.name for node in reduce_graph(graph, has_log).nodes]
        ['log']
    """
    reducer = _Reducer(predicate, attempts)
    if not reducer.holds(_trimmed(graph)) and not reducer.holds(graph):
        raise GraphValueError(f"The predicate does not hold for the graph @{graph.name} that is to be reduced.")
    return reducer.reduced(graph)


@dataclass
class _Reducer:
    predicate: Predicate
    attempts: int

    def holds(self, graph: Graph) -> bool:
        """Whether a graph is valid and the predicate holds for it."""
        if self.attempts <= 0:
            return False
        try:
            verify(graph)
            self.attempts -= 1
            return bool(self.predicate(graph))
        except GraphlsError:
            return False

    def reduced(self, graph: Graph) -> Graph:
        while True:
            before = graph
            graph = self.with_fewest(graph, _results, _without_results)
            graph = self.with_fewest(graph, _nodes, _without_nodes)
            graph = self.with_first(graph, _bypassed)
            graph = self.with_first(graph, _with_branch)
            if graph is before:
                return graph

    def with_fewest(
        self, graph: Graph, parts_of: Callable[[Graph], Sequence[object]],
        without: Callable[[Graph, Sequence[Any]], Graph],
    ) -> Graph:  # fmt: skip
        """Leave out parts, all at first and single ones at last, as long as the predicate holds."""
        size = len(parts_of(graph))
        while size:
            start = 0
            while start < len(parts := parts_of(graph)):
                candidate = without(graph, parts[start : start + size])
                if self.holds(candidate):
                    graph = candidate
                else:
                    start += size
            size //= 2
        return graph

    def with_first(self, graph: Graph, candidates_of: Callable[[Graph], Iterator[Graph]]) -> Graph:
        """Replace the graph by the first candidate for which the predicate holds, as long as there is one."""
        while (match := next(filter(self.holds, candidates_of(graph)), None)) is not None:
            graph = match
        return graph


def _results(graph: Graph) -> list[Any]:
    return [*graph.writes, *enumerate(graph.outputs)]


def _without_results(graph: Graph, parts: Sequence[object]) -> Graph:
    writes = tuple(w for w in graph.writes if w not in parts)
    numbers = {part[0] for part in parts if isinstance(part, tuple)}
    outputs = tuple(v for i, v in enumerate(graph.outputs) if i not in numbers)
    return _trimmed(graph.replace(writes=writes, outputs=outputs))


def _nodes(graph: Graph) -> list[Node]:
    return list(walk(graph))[::-1]


def _without_nodes(graph: Graph, nodes: Sequence[Node]) -> Graph:
    removed = set(nodes)
    return _trimmed(graph.replace(nodes=filtered(graph.nodes, lambda node: node not in removed)))


def _trimmed(graph: Graph) -> Graph:
    """The graph without dead nodes, control edges to removed nodes, and unread inputs and states.

    Values that no node defines any more become inputs.
    """
    nodes = _live(graph.nodes, [*graph.outputs, *(w.value for w in graph.writes)])
    body = Graph(graph.name, (), (), nodes, (), (*graph.outputs, *(w.value for w in graph.writes)))
    read = captures(body)
    written = {w.state for w in graph.writes}
    states = tuple(v for v in graph.states if v in read or v in written)
    inputs = tuple(v for v in graph.inputs if v in read)
    return graph.replace(nodes=nodes, states=states, inputs=(*inputs, *(v for v in read if _is_new(v, graph))))


def _is_new(value: Value, graph: Graph) -> bool:
    return value not in graph.inputs and value not in graph.states


def _live(nodes: Sequence[Node], results: Iterable[Value]) -> tuple[Node, ...]:
    live, retained = set(results), []
    for node in reversed(nodes):
        if live.isdisjoint(node.outputs):
            continue
        retained.append(with_regions(node, lambda region: region.replace(nodes=_live(region.nodes, region.outputs))))
        live.update(uses(retained[-1]))
    return tuple(_with_known_edges(reversed(retained)))


def _with_known_edges(nodes: Iterable[Node]) -> Iterator[Node]:
    defined: set[Value] = set()
    for node in nodes:
        after = tuple(v for v in node.after if v in defined)
        yield replace(node, after=after) if after != node.after else node
        defined.update(node.outputs)


def _bypassed(graph: Graph) -> Iterator[Graph]:
    """The graph without each node in turn, its result replaced by an operand of its type."""
    for node in _nodes(graph):
        if len(node.outputs) != 1 or node.regions or node.output.type == TOKEN:
            continue
        for value in dict.fromkeys(node.inputs):
            if value.type == node.output.type:
                yield _exchanged(graph, {node}, {node.output: value})


def _exchanged(graph: Graph, removed: set[Node], mapping: dict[Value, Value]) -> Graph:
    nodes = tuple(substitute(n, mapping) for n in filtered(graph.nodes, lambda node: node not in removed))
    writes = tuple(replace(w, value=mapping.get(w.value, w.value)) for w in graph.writes)
    outputs = tuple(mapping.get(v, v) for v in graph.outputs)
    return _trimmed(graph.replace(nodes=nodes, writes=writes, outputs=outputs))


def _with_branch(graph: Graph) -> Iterator[Graph]:
    """The graph with each condition in turn replaced by one of its branches."""
    for node in graph.nodes:
        for region in node.regions if node.primitive.is_branch else ():
            at = graph.nodes.index(node)
            nodes = (*graph.nodes[:at], *region.nodes, *graph.nodes[at + 1 :])
            mapping = dict(zip(node.outputs, region.outputs, strict=True))
            yield _exchanged(graph.replace(nodes=nodes), set(), mapping)


@dataclass(frozen=True)
class Ending:
    """The end of a call in a process of its own, by its kind: it `returned`, `raised`, `died` or `hung`.

    `text` is the returned value, the exception, or the name of the signal that ended the process.

    Examples:
        >>> from graphls.testing import Ending
        >>> Ending("raised", "GraphValueError").kind
        'raised'
    """

    kind: str
    text: str = ""


def run_apart(function: Callable[[Graph], object], graph: Graph, *, seconds: float = 60.0, start: str = "") -> Ending:
    """Call `function(graph)` in a process of its own, which may crash, and return how that ended.

    `start` is "fork" or "spawn"; by default processes are forked where the system can, which takes milliseconds. One
    that is spawned imports the function again, so it must stand at the top of a module. After `seconds` the
    process is killed. Raises GraphValueError for another `start`.

    Examples:
        >>> import os
        >>> from graphls import parse
        >>> from graphls.testing import run_apart
        >>> graph = parse("graph @g(%x: f32[2]) { return %x }")
        >>> run_apart(lambda graph: None, graph), run_apart(lambda graph: os.abort(), graph)
        (Ending(kind='returned', text='None'), Ending(kind='died', text='SIGABRT'))
    """
    known = multiprocessing.get_all_start_methods()
    if start not in ("", *known):
        raise GraphValueError(f"{start!r} does not start a process here; use one of {', '.join(known)}.")
    context: Any = multiprocessing.get_context(start or ("fork" if "fork" in known else "spawn"))
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(sender, function, dump(graph)), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads, none of which the child needs
        process.start()
    sender.close()
    process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
        return Ending("hung", f"after {seconds:g} seconds")
    try:
        return Ending(*receiver.recv())
    except EOFError:
        return Ending("died", _signal_name(process.exitcode))


def _child(sender: Any, function: Callable[[Graph], object], text: str) -> None:
    faulthandler.disable()  # which would print the same as the ending
    try:
        ending = "returned", repr(function(parse(text)))
    except BaseException as error:
        ending = "raised", f"{type(error).__name__}: {error}"
    sys.stdout.flush()
    sender.send((ending[0], ending[1][:4000]))


def _signal_name(code: int | None) -> str:
    """The name of the signal of a negative exit code, such as SIGFPE for -8."""
    try:
        return signal.Signals(-(code or 0)).name
    except ValueError:
        return f"with the exit code {code}"
