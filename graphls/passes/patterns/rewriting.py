"""Rewrite: a pass that replaces what a pattern matches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.location import Location
from graphls.ir.build import Builder, Names, copy_nodes
from graphls.ir.graph import Graph, Node, Value, filtered, walk
from graphls.ir.registry import nearest
from graphls.ir.text import reference
from graphls.ir.types import Type
from graphls.passes.manager import Pass
from graphls.passes.patterns.matching import CLOSE, Match, Scene
from graphls.passes.patterns.pattern import (
    Guard,
    Pattern,
    arguments,
    called_with,
    checked_graph,
    match_at,
    node_text,
)
from graphls.passes.patterns.sources import Source, parameters_of, term_of
from graphls.passes.patterns.terms import Call, Name, Number, Term, calls, names
from graphls.passes.rewriter import Rewriter, schedule

DEEPEST = 50
"""The number of replacements in one another after which a rewrite is taken to have no end."""

Replacement = Callable[..., Any]
"""A function of a Builder and of names of a pattern that returns the new values."""


@dataclass(frozen=True, repr=False)
class Rewrite(Pass):
    """A pass that replaces every match of a pattern, made by `rewrite`.

    New nodes stand in the place of the last node of a match, with its phase, cell and line, and with the control edges
    of all its nodes; they are searched, too. Values of another type than those that they replace are an error.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.passes import rewrite
        >>> double = rewrite("add(x, x)", "mul(x, 2.0)", name="double")
        >>> graph = parse('''
        ... graph @main(%a: f32[4]) {
        ...   %y = add(%a, %a) : f32[4]
        ...   return %y
        ... }
        ... ''')
        >>> after, matches = double.replaced(graph)
        >>> [node.primitive.name for node in after.nodes], len(matches)
        (['constant', 'mul'], 1)
    """

    name: ClassVar[str] = "rewrite"
    pattern: ClassVar[Pattern]
    replacement: ClassVar[Source]
    build: ClassVar[Callable[[Builder, Match], Any]]

    def __repr__(self) -> str:
        return f"<Rewrite {self.name}: {self.pattern}>"

    def run(self, graph: Graph) -> Graph:
        """The graph with all matches replaced."""
        return self.replaced(graph)[0]

    def replaced(self, graph: Graph) -> tuple[Graph, tuple[Match, ...]]:
        """The graph with all matches replaced, and these.

        Raises GraphTypeError where a new value has another type than the one that it replaces, and GraphValueError
        where the replacement contains the pattern, so that there is no end.
        """
        sweep = _Sweep(checked_graph(graph), self)
        result = sweep.run()
        dead = sweep.dead
        if dead:
            result = result.replace(nodes=filtered(result.nodes, lambda node: node not in dead))
        return result, tuple(sweep.matches)

    def sides(self, match: Match) -> tuple[Graph, Graph]:
        """Two graphs of the values of a match: of its nodes, and of those that replace them.

        Raises GraphTypeError where both have other types, or what the function of the replacement raises, such as
        GraphValueError for attributes that do not fit.
        """
        names = Names(value.name for value in match.values.values())
        inputs = {old: Value(old.name, old.type) for old in match.values.values()}
        bare = [replace(node, after=()) for node in (*match.constants, *match.nodes)]
        before = copy_nodes(schedule(bare), mapping := dict(inputs), names)
        results = match.nodes[0].outputs
        e = Builder(names)
        again = replace(match, values={name: inputs[value] for name, value in match.values.items()})
        outputs = _results(e, self, again, results)
        own = tuple(inputs.values())
        first = Graph("pattern", own, (), tuple(before), (), tuple(mapping[value] for value in results))
        return first, Graph("replacement", own, (), tuple(e.nodes), (), outputs)


def rewrite(
    pattern: Pattern | Source, replacement: Source, *, name: str | None = None,
    types: Mapping[str, object] | None = None, when: Guard | None = None, shared: bool = False,
    tolerance: float = CLOSE,
) -> Rewrite:  # fmt: skip
    """A pass that replaces what a pattern matches by what a replacement computes.

    Both are functions, expressions or graphs, as `Pattern` describes; so are `types`, `when`, `shared` and `tolerance`.
    The function of a replacement takes a Builder and, by their names, those values, numbers and sizes of the pattern
    that it needs, and `match` for the Match itself. `name` is the name of the pass, by default that of the
    replacement's function. `register_pass(rewrite(...))` lets pipelines know it by its name.

    Raises GraphTypeError and GraphValueError for what is not a pattern or no replacement of it.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls.passes import rewrite
        >>> def two_products(e, x, y, z):
        ...     return e.add(e.mul(x, y), e.mul(x, z))
        >>> def one_product(e, x, y, z):
        ...     return e.mul(x, e.add(y, z))
        >>> factor_out = rewrite(two_products, one_product, types={"x": "f32[n]", "y": "f32[n]", "z": "f32[n]"})
        >>> v = np.float32([1, 2])
        >>> step = graphls.compile(lambda x, y, z: x * y + z * x, v, v, v, passes=[factor_out])
        >>> [node.primitive.name for node in step.graph.nodes], step(v, v, v).asnumpy().tolist()
        (['add', 'mul'], [2.0, 8.0])
    """
    if name is not None and not name.isidentifier():
        raise GraphValueError(f"The name of a rewrite has letters, digits and '_', for pipelines, not {name!r}.")
    searched = pattern
    if not isinstance(searched, Pattern):
        searched = Pattern(searched, types=types, when=when, shared=shared, tolerance=tolerance)
    elif types is not None or when is not None or shared or tolerance != CLOSE:
        raise GraphTypeError("A Pattern has its own types, guard and tolerance; give them to Pattern(...).")
    members = {
        "name": name or _name_of(replacement), "pattern": searched, "replacement": replacement,
        "build": staticmethod(_builder_of(searched, replacement)),
        "__doc__": _document(searched, replacement),
        "__module__": getattr(replacement, "__module__", None) or "rewrites",
    }  # fmt: skip
    kind: type[Rewrite] = type("Rewrite", (Rewrite,), members)
    return kind()


def _name_of(replacement: Source) -> str:
    name = getattr(replacement, "__name__", "rewrite")
    return name if name.isidentifier() and name != "replacement" else "rewrite"


def _document(pattern: Pattern, replacement: Source) -> str:
    """The docstring of the replacement, or what becomes what."""
    if isinstance(replacement, str):
        return f"{pattern} becomes {replacement}."
    written = None if isinstance(replacement, Graph) else getattr(replacement, "__doc__", None)
    name = getattr(replacement, "__name__", "")
    return written or f"{_clipped(str(pattern))} becomes {name if name.isidentifier() else 'another computation'}."


def _clipped(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _builder_of(pattern: Pattern, replacement: Source) -> Callable[[Builder, Match], Any]:
    """The function that builds a replacement for a match."""
    if callable(replacement) and not isinstance(replacement, Graph):
        parameters = arguments(pattern, replacement, "The replacement", 1)
        first = next(iter(parameters_of(replacement)), None)
        if first is None or (first in pattern.bindings and first != "e"):
            raise GraphTypeError("A replacement's function takes a builder and names, as in `lambda e, x: e.exp(x)`.")
        return lambda e, match: replacement(e, **called_with(match, parameters))
    term = term_of(replacement)
    unknown = [name for name in names(term) if name not in pattern.bindings]
    if unknown:
        which = f"{unknown[0]!r}{nearest(unknown[0], pattern.bindings)}"
        raise GraphTypeError(f"The replacement has {which}; the pattern has {', '.join(pattern.bindings)}.")
    if is_open := next((call for call in calls(term) if call.is_open), None):
        advice = f"name them in the pattern, such as {is_open.primitive.name}(x, axis=AXIS), and write them here"
        raise GraphTypeError(f"The replacement {term} has `...`, which only matches attributes; {advice}.")
    return lambda e, match: _built(e, term, match, {})


def _built(e: Builder, term: Term, match: Match, done: dict[int, Any]) -> Any:
    """The value of a term whose names are those of a match."""
    if isinstance(term, Name):
        return match[term.name]
    if isinstance(term, Number):
        return term.value
    if id(term) not in done:
        operands = [_built(e, each, match, done) for each in term.operands]
        attrs = {key: match[value.name] if isinstance(value, Name) else value for key, value in term.attrs.items()}
        results = _applied(e, term, operands, attrs)
        done[id(term)] = results[term.output] if isinstance(results, tuple) else results
    return done[id(term)]


def _applied(e: Builder, term: Call, operands: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    """The results of a primitive; those of numbers alone are computed at once, in float64."""
    rule = getattr(term.primitive, "numpy", None)
    if rule is None or not operands or any(isinstance(each, Value) for each in operands):
        return getattr(e, term.primitive.name)(*operands, **attrs)
    with np.errstate(all="ignore"):
        return rule(*(np.asarray(each, np.float64) for each in operands), **attrs)


class _Sweep(Rewriter):
    """One sweep over a graph, which searches new nodes, too."""

    def __init__(self, graph: Graph, rule: Rewrite) -> None:
        super().__init__(graph)
        self.rule = rule
        self.scene = Scene(self.definer)
        self.scene.count(graph)
        self.has_windows = any(node.primitive.is_check for node in walk(graph))
        self.matches: list[Match] = []
        self.dead: set[Node] = set()
        self.around: list[tuple[Match, set[Value]]] = []
        """The replacements that are being put in place, each with the values of its new nodes."""

    def define(self, node: Node) -> None:
        """Take note of a node that has been put in place, and of its block."""
        super().define(node)
        self.scene.block.update(dict.fromkeys(node.outputs, self.e))

    def visit(self, node: Node) -> Node | Sequence[Value]:
        """The node, or the values that replace its results."""
        if node.primitive.name != self.rule.pattern.root.primitive.name:
            return node
        self.define(node)
        match = match_at(self.rule.pattern, node, self.scene)
        if match is None:
            return node
        self.check_end(node, match)
        nodes, results = self.replacement(node, match)
        fresh = {value for new in nodes for value in new.outputs}
        edges = self.edges(match, nodes)
        is_tied = not self.scene.differentiated.isdisjoint(node.outputs) or bool(edges)
        if is_tied and not fresh.issuperset(results):
            return node  # a control edge, or a gradient of the value itself, needs a node of its own
        nodes = [_behind(new, edges) for new in nodes]
        self.matches.append(match)
        self.count(node, match, nodes, results)
        self.around.append((match, fresh))
        for new in nodes:
            self._step(new)
        self.around.pop()
        return self.current(results)

    def check_end(self, node: Node, match: Match) -> None:
        """Raise GraphValueError for a match within a replacement that is as the one that is replaced, or too deep."""
        if not self.around:
            return
        outer, fresh = self.around[-1]
        is_again = outer.numbers == match.numbers and _types(outer) == _types(match)
        if len(self.around) < DEEPEST and not (is_again and all(n.outputs[0] in fresh for n in match.nodes)):
            return
        text = f"The rewrite {self.rule.name!r} has no end: its replacement contains its pattern, {self.rule.pattern}"
        advice = "let `when` refuse what it has made, or write another replacement"
        raise GraphValueError(f"{text}, at {node_text(node)}; {advice}.", node.loc)

    def replacement(self, node: Node, match: Match) -> tuple[list[Node], tuple[Value, ...]]:
        """The new nodes for a match, and the values in place of the results of its last node."""
        e = Builder(self.names)
        e.follow(node)
        e.loc = _line(match)
        results = _results(e, self.rule, match, node.outputs)
        nodes = e.nodes
        if nodes and nodes[-1].outputs == results:  # readers, and people, find the value by its old name
            nodes[-1], results = replace(nodes[-1], outputs=node.outputs), node.outputs
        return nodes, results

    def edges(self, match: Match, nodes: Sequence[Node]) -> dict[Value, None]:
        """The values that new nodes run after: as the nodes of a match did, by control edges.

        In a graph with overflow windows also those that the nodes of a match read, or shared, and new ones do not: they
        may be read in a window, and ran before it because something before it read them.
        """
        edges = dict.fromkeys(value for node in match.nodes for value in node.after)
        if self.has_windows:
            own = {value for node in match.nodes for value in node.outputs}
            inner = Counter(value for node in match.nodes for value in {*node.inputs, *node.after})
            read = {value for new in nodes for value in new.inputs}
            operands = (v for node in match.nodes for v in node.inputs if v in self.definer and v not in read)
            is_kept = (v for v in operands if v not in own or self.scene.readers[v] > inner[v])
            edges |= dict.fromkeys(v for v in is_kept if not self.definer[v].primitive.is_constant)
        return edges

    def count(self, node: Node, match: Match, nodes: Sequence[Node], results: Sequence[Value]) -> None:
        """Exchange the readers of values, and take note of the nodes of a match that nothing reads any more."""
        readers = self.scene.readers
        for new in nodes:
            readers.update({*new.inputs, *new.after})
        for old, value in zip(node.outputs, results, strict=True):
            if value is not old:
                readers[value] += readers[old]
                self.scene.differentiated.update({value} if old in self.scene.differentiated else ())
        removable = {*match.nodes, *match.constants}
        removed = [node]
        while removed:
            for value in {*(last := removed.pop()).inputs, *last.after}:
                readers[value] -= 1
                definer = self.definer.get(value)
                if definer in removable and definer is not None and not any(readers[v] for v in definer.outputs):
                    removable.remove(definer)
                    self.dead.add(definer)
                    removed.append(definer)


def _results(e: Builder, rule: Rewrite, match: Match, replaced: Sequence[Value]) -> tuple[Value, ...]:
    """What a replacement builds, as values of the types of those that they replace; else raises GraphTypeError."""
    name = rule.name
    with e.operators():
        built = type(rule).build(e, match)
    several = built if isinstance(built, (tuple, list)) else (built,)
    if len(several) != len(replaced):
        counts = f"{len(several)} values where the last node of the pattern has {len(replaced)}"
        raise GraphTypeError(f"The replacement of {name!r} gives {counts}.", e.loc)
    is_repeated = any(value.shape for node in match.constants for value in node.outputs)
    results = tuple(_value(e, new, old, is_repeated) for new, old in zip(several, replaced, strict=True))
    for new, old in zip(results, replaced, strict=True):
        if new.type != old.type:
            text = f"The replacement of {name!r} gives {new.type} where {reference(old)} is {old.type}"
            remedy = "cast the result" if new.dtype is not old.dtype else "give it that shape, as by broadcast_to"
            raise GraphTypeError(f"{text}; restrict the pattern with `types` or `when`, or {remedy}.", e.loc)
    return results


def _types(match: Match) -> dict[str, Type]:
    return {name: value.type for name, value in match.values.items()}


def _behind(node: Node, edges: Iterable[Value]) -> Node:
    """A node with more control edges, unless it is a constant."""
    more = [value for value in edges if value not in node.inputs]
    return replace(node, after=tuple(dict.fromkeys((*node.after, *more)))) if more and node.inputs else node


def _line(match: Match) -> Location | None:
    """The line of the last node of a match that has one."""
    return next((node.loc for node in match.nodes if node.loc is not None), None)


def _value(e: Builder, new: Any, old: Value, is_repeated: bool) -> Value:
    """A value of a replacement; a number is a constant of the type of the value that it replaces.

    Where the match has a constant that repeats its number to a shape, the value is repeated to its shape, too.
    """
    if isinstance(new, np.ndarray) and new.dtype.kind in "biufV":
        new = e.constant(new, old.dtype)
    if isinstance(new, (int, float, np.generic)):
        return e.constant(new, old.dtype, old.shape)
    if not isinstance(new, Value):
        raise GraphTypeError(f"A replacement returns values of its builder, or a number, not {new!r}.")
    if is_repeated and new.type != old.type and _broadcasts(new.shape, old.shape):
        new = e.broadcast_to(new, shape=old.shape)
    return cast(Value, new)


def _broadcasts(shape: tuple[int, ...], larger: tuple[int, ...]) -> bool:
    """Whether a shape repeats to another one."""
    pairs = zip(reversed(shape), reversed(larger), strict=False)
    return len(shape) <= len(larger) and all(size in (1, other) for size, other in pairs)
