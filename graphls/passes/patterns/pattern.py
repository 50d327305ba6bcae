"""Pattern: what a rewrite searches for, with the types, the number of readers and a guard."""

from __future__ import annotations

import ast
import reprlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.graph import Graph, Node, walk
from graphls.ir.registry import nearest
from graphls.ir.text import reference
from graphls.ir.types import DType, Type
from graphls.passes.patterns.matching import CLOSE, Failure, Match, Matcher, Scene
from graphls.passes.patterns.sources import Source, parameters_of, term_of
from graphls.passes.patterns.terms import Call, calls, names
from graphls.passes.patterns.type_patterns import TypePattern, is_type_text

LARGEST = 100
"""The number of primitives that a pattern may have, as searches are recursive."""

Guard = Callable[..., object]
"""A function of some names of a pattern, and of `match`, which is true where the match counts."""


class NearMatch(NamedTuple):
    """The place where a pattern came nearest to a match; `str` says what failed there, and `node` is the last node.

    `matched` of the `total` nodes of the pattern did match.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.passes import Pattern
        >>> graph = parse('''
        ... graph @main(%x: f32[4]) {
        ...   %e = exp(%x) : f32[4]
        ...   %y = neg(%e) : f32[4]
        ...   return %y
        ... }
        ... ''')
        >>> near = Pattern("neg(log(a))").nearest(graph)
        >>> near.matched, near.total
        (1, 2)
        >>> print(near)
        1 of 2 nodes match at %y = neg(%e), where the pattern has log(a): %e is a result of exp
    """

    node: Node
    matched: int
    total: int
    part: str
    reason: str

    def __str__(self) -> str:
        nodes = "1 node matches" if self.total == 1 == self.matched else f"{self.matched} of {self.total} nodes match"
        where = f", where the pattern has {self.part}" if self.part else ""
        return f"{nodes} at {node_text(self.node)}{where}: {self.reason}"


class Pattern:
    """A pattern of primitives, written as a function, an expression or a graph.

    The function takes a builder, whose methods are the primitives as in a gradient rule, and a parameter for each name;
    the expression writes the same as text. Names in capitals are the numbers of constants and attributes, other names
    any values. Numbers and arrays match constants of these, rounded to their dtype, with a relative `tolerance`; a
    number also matches one that is repeated to a shape. Attributes that are not written have their defaults, unless
    `...` stands behind the operands. Operands of commutative primitives match in both orders. In a graph, inputs are
    names, dtypes count and shapes do not, and texts in capitals are names of attributes.

    `types` says which types a name has, such as `{"x": "f32[..., n]"}`: a dtype, or "float", "int", "uint", "bool", and
    sizes, of which a name is the same size everywhere and `...` any sizes; annotations of the function say the same.
    `when` is a function of names, by its parameters, that is true where a match counts; a parameter `match` is the
    Match itself. All nodes of a match are of one block and, those that a rewrite removes, of one phase. Nothing else
    reads the values between them, unless `shared`.

    Raises GraphTypeError and GraphValueError for what is not a pattern.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.passes import Pattern
        >>> graph = parse('''
        ... graph @main(%a: f32[2,3], %b: f32[3]) {
        ...   %s = add(%b, %a) : f32[2,3]
        ...   %y = relu(%s) : f32[2,3]
        ...   return %y
        ... }
        ... ''')
        >>> def biased(e, x: "[..., n]", b: "[n]"):
        ...     return e.relu(e.add(x, b))
        >>> (match,) = Pattern(biased).find(graph)
        >>> match["x"], match["n"]
        (%a: f32[2,3], 3)
    """

    def __init__(
        self, source: Source, *, types: Mapping[str, object] | None = None, when: Guard | None = None,
        shared: bool = False, tolerance: float = CLOSE,
    ) -> None:  # fmt: skip
        term = term_of(source)
        if (size := sum(1 for _ in calls(term))) > LARGEST:
            raise GraphValueError(f"A pattern has {LARGEST} primitives at most, not {size}; search for a part of it.")
        if not isinstance(term, Call):
            raise GraphValueError(f"The pattern {term} is not an operation, so that it would match any value.")
        if when is not None and not callable(when):
            raise GraphTypeError(f"`when` is a function of names, such as `lambda x: x.rank == 2`, not {when!r}.")
        self.root, self.shared, self.tolerance, self.guard = term, shared, tolerance, when
        self.source = source
        self.names = names(term)
        self.types = self._types({**_annotated(source), **(types or {})})
        self.bindings = [*self.names, *dict.fromkeys(size for kind in self.types.values() for size in kind.names)]
        self.guarded = arguments(self, when, "The function `when`") if when is not None else []

    def _types(self, expected: Mapping[str, object]) -> dict[str, TypePattern]:
        values = [name for name in self.names if not name.isupper()]
        for name in expected:
            if name not in values:
                text = f"The pattern has no value {name!r}{nearest(name, values)}"
                raise GraphValueError(f"{text}; it has {', '.join(values)}.")
        types = {name: TypePattern.of(kind) for name, kind in expected.items()}
        clashing = [size for kind in types.values() for size in kind.names if size in self.names]
        if clashing:
            raise GraphValueError(f"The size {clashing[0]!r} has the name of a value; give it another one.")
        return types

    @property
    def nodes(self) -> int:
        """The number of primitives in the pattern, equal parts once."""
        return len({str(call) for call in calls(self.root)})

    def find(self, graph: Graph) -> tuple[Match, ...]:
        """All matches in a graph and its regions, which may overlap, in the order of their last nodes."""
        scene = Scene.of(checked_graph(graph))
        matches = (match_at(self, node, scene) for node in walk(graph))
        return tuple(match for match in matches if match is not None)

    def nearest(self, graph: Graph) -> NearMatch | None:
        """Where the most nodes of the pattern match and the next one does not; None without a node for its last one."""
        scene, best = Scene.of(checked_graph(graph)), None
        for node in walk(graph):
            if node.primitive.name == self.root.primitive.name:
                if len(node.outputs) <= self.root.output:
                    return NearMatch(node, 0, self.nodes, str(self.root), f"it has {len(node.outputs)} results")
                matcher = _matcher(self, scene, explains=True)
                failed = matcher.match([(self.root, node.outputs[self.root.output])]) is None and matcher.furthest
                if failed and (best is None or failed.met > best[1].met):
                    best = node, failed
        return None if best is None else _near(self, *best)

    def missing(self, graph: Graph) -> list[str]:
        """The primitives of the pattern that no node of a graph has."""
        present = {node.primitive.name for node in walk(graph)}
        return [name for name in dict.fromkeys(c.primitive.name for c in calls(self.root)) if name not in present]

    def __str__(self) -> str:
        return str(self.root)

    def __repr__(self) -> str:
        return f"<Pattern {self.root}>"


def checked_graph(graph: Graph) -> Graph:
    """The graph itself; raises GraphTypeError for anything else."""
    if isinstance(graph, Graph):
        return graph
    advice = "a cell's is graphls.trace_graph(cell, *inputs).graph, that of a compiled step is its attribute `graph`"
    raise GraphTypeError(f"A pattern is searched for in a graph, not in {reprlib.repr(graph)}; {advice}.")


def arguments(pattern: Pattern, function: Callable[..., Any], title: str, skipped: int = 0) -> list[str]:
    """The names that a function takes after some parameters; raises GraphTypeError for one that there is not."""
    parameters = parameters_of(function)[skipped:]
    known = [*pattern.bindings, "match"]
    for name in parameters:
        if name not in known:
            listed = ", ".join(pattern.bindings)
            raise GraphTypeError(f"{title} takes {name!r}{nearest(name, known)}; the pattern has {listed}.")
    return parameters


def match_at(pattern: Pattern, node: Node, scene: Scene) -> Match | None:
    """The match whose last operation is a node; None where there is none."""
    if node.primitive.name != pattern.root.primitive.name or len(node.outputs) <= pattern.root.output:
        return None
    return _matcher(pattern, scene).match([(pattern.root, node.outputs[pattern.root.output])])


def _matcher(pattern: Pattern, scene: Scene, explains: bool = False) -> Matcher:
    """A search for the pattern in a scene."""
    return Matcher(scene, pattern.tolerance, lambda match: _accepted(pattern, match, scene), explains)


def _accepted(pattern: Pattern, match: Match, scene: Scene) -> Match | str:
    """A match with its sizes, or why it does not count: its types, its readers or the guard."""
    sizes: dict[str, int] = {}
    for name, kind in pattern.types.items():
        bound = kind.bind(match.values[name].type, sizes)
        if bound is None:
            known = "".join(f", {size} = {sizes[size]}" for size in kind.names if size in sizes)
            return f"{name} is {match.values[name]} and must be {kind.text}{known}"
        sizes = bound
    match = replace(match, sizes=sizes)
    return _blocked(pattern, match, scene) or _refused(pattern, match) or match


def _blocked(pattern: Pattern, match: Match, scene: Scene) -> str | None:
    """Why the nodes between the values of a match cannot be removed."""
    last, *inner = match.nodes
    own = Counter(value for node in match.nodes for value in {*node.inputs, *node.after})
    for node in inner:
        if scene.block.get(node.outputs[0]) is not scene.block.get(last.outputs[0]):
            return f"{reference(node.outputs[0])} is computed in another block"
        read = next((v for v in node.outputs if scene.readers[v] > own[v]), None)
        if read is not None and not pattern.shared:
            return f"{reference(read)} has other readers; `shared=True` allows them"
        if not scene.differentiated.isdisjoint(node.outputs):
            return f"a gradient is taken of {reference(node.outputs[0])}"
        if read is None and node.phase != last.phase:
            return f"{reference(node.outputs[0])} is of the phase {node.phase}, and the last node of {last.phase}"
    return None


def _refused(pattern: Pattern, match: Match) -> str | None:
    if pattern.guard is None:
        return None
    return None if pattern.guard(**called_with(match, pattern.guarded)) else "the function `when` refuses it"


def called_with(match: Match, parameters: Iterable[str]) -> dict[str, Any]:
    """The arguments of a function by the names that it takes."""
    known = {**match.bindings, "match": match}
    return {name: known[name] for name in parameters}


def _near(pattern: Pattern, last: Node, failure: Failure) -> NearMatch:
    part = "" if failure.term is None else str(failure.term)
    reason = failure.reason if failure.term is None else f"{reference(failure.value)} {failure.reason}"  # type: ignore[arg-type]
    return NearMatch(last, failure.nodes, pattern.nodes, part, reason)


def node_text(node: Node) -> str:
    """A node in a message: its results, its primitive and operands, and the user's line."""
    results = ", ".join(map(reference, node.outputs))
    line = f" ({node.loc})" if node.loc is not None else ""
    return f"{results} = {node.primitive.name}({', '.join(map(reference, node.inputs))}){line}"


def _annotated(source: Source) -> dict[str, object]:
    """The types that a function's annotations say, or the dtypes of a graph's inputs."""
    if isinstance(source, Graph):
        return {value.name: value.type.dtype for value in source.inputs}
    hints: Mapping[str, object] = getattr(source, "__annotations__", {})
    written = {name: _written(hint) for name, hint in hints.items() if name != "return"}
    return {name: hint for name, hint in written.items() if hint is not None}


def _written(hint: object) -> object:
    """A type of a pattern; None for an annotation that is for type checkers."""
    if isinstance(hint, str):
        text = str(ast.literal_eval(hint)) if hint[:1] in ("'", '"') else hint  # `from __future__ import annotations`
        return text if is_type_text(text) else None
    return hint if isinstance(hint, (DType, Type)) else None
