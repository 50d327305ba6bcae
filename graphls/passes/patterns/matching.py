"""Pattern matching: finds the nodes of a graph that compute a term, by backtracking over orders of operands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from graphls.base.errors import GraphKeyError
from graphls.ir.graph import Graph, Node, Value, blocks, definers, walk
from graphls.ir.registry import nearest
from graphls.ir.text import reference
from graphls.passes.patterns.sources import term_of_text
from graphls.passes.patterns.terms import (
    Call,
    Name,
    Number,
    Term,
    attribute_text,
    constant_of,
    defaults_of,
    is_close,
    number_in,
)

CLOSE = 1e-5
"""The relative tolerance between a constant, which is rounded to its dtype, and the number in a pattern."""


MANY_STEPS = 200
"""The number of parts that a search tries at one node before it looks further ahead."""

MOST_STEPS = 10_000
"""The number of parts that a search for the nearest place tries at one node."""


@dataclass(frozen=True)
class Match:
    """A place in a graph that fits a pattern: the bindings of its names, and its nodes.

    `values` has the values by their names, `numbers` those of constants and attributes by names in capitals, `sizes`
    the named sizes of types; `match[name]` is any of them. `nodes` are the nodes that the pattern computes, the last
    one first, without `constants`.

    Examples:
        >>> from graphls.ir import parse
        >>> from graphls.passes import Pattern
        >>> graph = parse('''
        ... graph @main(%x: f32[4]) {
        ...   %c = constant() {value=array(f32[], [0.1])} : f32[]
        ...   %m = mul(%c, %x) : f32[4]
        ...   return %m
        ... }
        ... ''')
        >>> (match,) = Pattern("mul(a, FACTOR)", types={"a": "f32[n]"}).find(graph)
        >>> match["a"], round(match["FACTOR"], 3), match["n"], match.uses("a")
        (%x: f32[4], 0.1, 4, 1)
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    constants: tuple[Node, ...] = ()
    readers: Mapping[Value, int] = field(default_factory=dict, repr=False)
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        bindings = self.bindings
        if name not in bindings:
            text = f"The match has no {name!r}{nearest(name, bindings)}"
            raise GraphKeyError(f"{text}; it has {', '.join(bindings)}.")
        return bindings[name]

    @property
    def bindings(self) -> dict[str, Any]:
        """All bindings by name."""
        return {**self.sizes, **self.numbers, **self.values}

    def uses(self, name: str) -> int:
        """How many nodes, outputs and states read the value of a name."""
        return self.readers.get(self.values[name], 0)


class Scene:
    """A graph as the matcher sees it: who defines and who reads each value, and in which block its node is."""

    def __init__(self, definer: Mapping[Value, Node], takes_edges: bool = True) -> None:
        self.definer, self.takes_edges = definer, takes_edges
        self.block: dict[Value, object] = {}
        self.readers: Counter[Value] = Counter()
        self.differentiated: set[Value] = set()

    @classmethod
    def of(cls, graph: Graph) -> Scene:
        """The scene of a graph with its regions."""
        scene = cls(definers(walk(graph)))
        for block in blocks(graph):
            scene.block.update((value, block) for node in block.nodes for value in node.outputs)
        scene.count(graph)
        return scene

    def count(self, graph: Graph) -> None:
        """Count the readers of each value."""
        for block in blocks(graph):
            self.readers.update(block.outputs)
            for node in block.nodes:
                self.readers.update({*node.inputs, *node.after})
                if node.primitive.name == "gradient":
                    self.differentiated.update(node.inputs)
        self.readers.update(write.value for write in graph.writes)


class Failure(NamedTuple):
    """Where an attempt failed: after how many parts and nodes, at which part, on which value, and why."""

    met: int
    nodes: int
    term: Term | None
    value: Value | None
    reason: str


Goals: TypeAlias = "tuple[Term, Value, Goals] | None"
"""Terms that have to match values, as a linked list."""


class Matcher:
    """A search for the bindings of a pattern's names; `accepts` returns a complete match, or why it does not count.

    With `explains`, `furthest` is the failure after the most parts of the pattern.
    """

    def __init__(
        self, scene: Scene, tolerance: float = CLOSE, accepts: Callable[[Match], Match | str] | None = None,
        explains: bool = False,
    ) -> None:  # fmt: skip
        self.scene, self.tolerance, self.accepts, self.explains = scene, tolerance, accepts, explains
        self.furthest: Failure | None = None
        self.result: Match | None = None
        self.values: dict[str, Value] = {}
        self.numbers: dict[str, Any] = {}
        self.nodes: dict[Node, None] = {}
        self.constants: dict[Node, None] = {}
        self.done: dict[tuple[Call, Value], None] = {}
        self.trail: list[tuple[dict[Any, Any], Any]] = []
        self.possible: dict[tuple[Number | Call, Value], bool] = {}
        self.met = self.steps = 0

    def match(self, pairs: Iterable[tuple[Term, Value]]) -> Match | None:
        """The match of several terms with values, with the same bindings for all; None where there is none."""
        pairs = list(pairs)
        return self.result if self.solve(_goals(pairs, None)) else None

    def solve(self, goals: Goals) -> bool:
        """Whether all goals can be met."""
        if goals is None:
            return self.is_accepted()
        self.steps += 1
        if self.explains and self.steps > MOST_STEPS:
            return False
        term, value, rest = goals
        start = len(self.trail)
        self.met += 1
        if isinstance(term, Call):
            is_met = self.calls(term, value, rest)
        elif isinstance(term, Number):
            is_met = self.is_number(term, value) and self.solve(rest)
        else:
            is_met = self.is_named(term, value) and self.solve(rest)
        self.met -= 1
        if not is_met:
            self.undo(start)
        return is_met

    def is_accepted(self) -> bool:
        """Whether the bindings are a match that counts."""
        nodes, constants = tuple(self.nodes), tuple(self.constants)
        match = Match(dict(self.values), dict(self.numbers), nodes, constants, self.scene.readers)
        accepted = self.accepts(match) if self.accepts is not None else match
        if isinstance(accepted, str):
            return self.fails(None, None, lambda: accepted)
        self.result = accepted
        return True

    def calls(self, term: Call, value: Value, rest: Goals) -> bool:
        """Whether a node applies the primitive of a term to operands that match, and the rest matches, too."""
        if (term, value) in self.done:
            return self.solve(rest)
        node = self.scene.definer.get(value)
        if node is None:
            return self.fails(term, value, lambda: "is not a result of a node")
        if not self.fits(term, node, value):
            return False
        self.bind(self.done, (term, value), None)
        self.bind(self.nodes, node, None)
        start = len(self.trail)
        for operands in orders(node):
            is_worth_it = self.explains or self.may_match_all(term, operands)
            if is_worth_it and self.solve(_goals(list(zip(term.operands, operands, strict=True)), rest)):
                return True
            self.undo(start)
        return False

    def may_match_all(self, term: Call, operands: Sequence[Value]) -> bool:
        """Whether the operands of a term may match: by a quick look, and by a complete one where a search is long."""
        if self.steps < MANY_STEPS:
            return is_possible(term, operands, self.scene.definer)
        return all(map(self.may_match, term.operands, operands))

    def may_match(self, term: Term, value: Value) -> bool:
        """Whether a term matches a value, whatever its names are; each pair is tried once, so that time is bounded."""
        if isinstance(term, Name):
            return True
        known = self.possible.get((term, value))
        if known is None:
            known = self.possible[term, value] = self.has_form(term, value)
        return known

    def has_form(self, term: Number | Call, value: Value) -> bool:
        """Whether a value is a constant as a term says, or a node whose operands may match."""
        if isinstance(term, Number):
            constant = constant_of(value, self.scene.definer)
            return constant is not None and is_close(constant[0], term.value, self.tolerance)
        node = self.scene.definer.get(value)
        if node is None or node.primitive.name != term.primitive.name or len(node.inputs) != len(term.operands):
            return False
        return any(all(map(self.may_match, term.operands, operands)) for operands in orders(node))

    def fits(self, term: Call, node: Node, value: Value) -> bool:
        """Whether a node itself is as a term says, whatever its operands are."""
        name = node.primitive.name
        if name != term.primitive.name:
            return self.fails(term, value, lambda: f"is a result of {name}")
        if node.outputs[term.output : term.output + 1] != (value,):
            return self.fails(term, value, lambda: f"is result {node.outputs.index(value)} of {name}")
        if len(node.inputs) != len(term.operands):
            return self.fails(term, value, lambda: f"has {len(node.inputs)} operands")
        if node.regions or (node.after and not self.scene.takes_edges):
            return self.fails(term, value, lambda: "has regions or control edges")
        return all([self.has(term, value, node, *each) for each in term.expected])

    def has(self, term: Call, value: Value, node: Node, key: str, expected: Any, is_default: bool) -> bool:
        """Whether a node has an attribute as expected."""
        actual = node.attrs.get(key, default_of(node, key))
        if isinstance(expected, Name):
            return self.is_bound(self.numbers, expected, actual, term, value)
        if is_same_attribute(actual, expected) or is_same_axis(key, actual, expected, node):
            return True
        written = f"{key}={attribute_text(actual)} where the pattern has {attribute_text(expected)}"
        advice = f", the default; write {key}={attribute_text(actual)}, {key}={key.upper()} or `...`"
        return self.fails(term, value, lambda: f"has {written}{advice if is_default else ''}")

    def is_named(self, term: Name, value: Value) -> bool:
        """Whether a value may have a name: one of a value, or one of a number that a constant repeats."""
        if not term.is_number:
            return self.is_bound(self.values, term, value, term, value)
        constant = constant_of(value, self.scene.definer)
        number = None if constant is None else number_in(constant[0])
        if constant is None or number is None:
            return self.fails(term, value, lambda: "is not a constant with one number")
        self.take_constants(constant[1])
        return self.is_bound(self.numbers, term, number, term, value)

    def is_number(self, term: Number, value: Value) -> bool:
        """Whether a value is a constant with the number, or the array, of a term."""
        constant = constant_of(value, self.scene.definer)
        if constant is None:
            return self.fails(term, value, lambda: "is not a constant")
        array = constant[0]
        if not is_close(array, term.value, self.tolerance):
            return self.fails(term, value, lambda: f"is the constant {_shown(array)}")
        self.take_constants(constant[1])
        return True

    def take_constants(self, nodes: Iterable[Node]) -> None:
        """Take note of the nodes of a constant."""
        for node in nodes:
            self.bind(self.constants, node, None)

    def is_bound(self, table: dict[str, Any], name: Name, thing: Any, term: Term, value: Value) -> bool:
        """Whether a name is bound to a thing, now or before."""
        if name.name not in table:
            self.bind(table, name.name, thing)
            return True
        known = table[name.name]
        if known is thing or (table is self.numbers and is_same_attribute(known, thing)):
            return True
        return self.fails(term, value, lambda: f"is another {name.name} than {_shown(known)}")

    def bind(self, table: dict[Any, Any], key: Any, value: Any) -> None:
        """Add an entry, which `undo` removes."""
        if key not in table:
            table[key] = value
            self.trail.append((table, key))

    def undo(self, length: int) -> None:
        """Remove the entries that were added since the trail had a length."""
        while len(self.trail) > length:
            table, key = self.trail.pop()
            del table[key]

    def fails(self, term: Term | None, value: Value | None, reason: Callable[[], str]) -> bool:
        """Note a failure if it is asked for; returns False."""
        if self.explains and (self.furthest is None or self.met > self.furthest.met):
            self.furthest = Failure(self.met, len(self.nodes), term, value, reason())
        return False


def orders(node: Node) -> Sequence[tuple[Value, ...]]:
    """The orders in which the operands of a node may stand."""
    inputs = node.inputs
    is_swapped = node.primitive.is_commutative and len(inputs) == 2 and inputs[0] is not inputs[1]
    return (inputs, inputs[::-1]) if is_swapped else (inputs,)


def is_possible(term: Call, operands: Sequence[Value], definer: Mapping[Value, Node]) -> bool:
    """Whether the nodes of operands have the primitives that a term has there, which is quick to see."""
    for part, value in zip(term.operands, operands, strict=False):
        if isinstance(part, Call):
            node = definer.get(value)
            if node is None or node.primitive.name != part.primitive.name:
                return False
    return True


def _goals(pairs: Sequence[tuple[Term, Value]], rest: Goals) -> Goals:
    for term, value in reversed(pairs):
        rest = (term, value, rest)
    return rest


def default_of(node: Node, key: str) -> Any:
    """The default of an attribute of a node; None where there is none."""
    default = defaults_of(node.primitive, len(node.inputs)).get(key)
    return None if default is Parameter.empty else default


def is_same_attribute(first: Any, second: Any) -> bool:
    """Whether two attributes are alike; those of NumPy have the same numbers."""
    if isinstance(first, np.ndarray) or isinstance(second, np.ndarray):
        return bool(np.array_equal(first, second))
    return bool(first == second)


def is_same_axis(key: str, first: Any, second: Any, node: Node) -> bool:
    """Whether two attributes are the same axes, of which a negative one counts from the end."""
    if key not in ("axis", "axes") or not node.inputs:
        return False
    rank = (node.outputs if node.primitive.name == "one_hot" else node.inputs)[0].rank
    axes = [_axes(each, rank) for each in (first, second)]
    return axes[0] is not None and axes[0] == axes[1]


def _axes(attribute: Any, rank: int) -> list[int] | None:
    several = attribute if isinstance(attribute, (tuple, list)) else (attribute,)
    if not all(isinstance(axis, int) for axis in several):
        return None
    return [axis + rank if axis < 0 else axis for axis in several]


def _shown(thing: Any) -> str:
    """A value, a number or an array in a message."""
    if isinstance(thing, Value):
        return reference(thing)
    array = np.asarray(thing)
    if array.dtype == object or array.size == 1:
        return attribute_text(array.item() if array.dtype != object else thing)
    number = "" if number_in(array) is None else f"{array.flat[0]} "
    return f"{number}of shape {list(array.shape)}"


def matches(pattern: str, node: Node, definer: Mapping[Value, Node]) -> Match | None:
    """The match of an expression whose last operation is a node without control edges; None where it does not match."""
    term = term_of_text(pattern)
    if not isinstance(term, Call) or node.primitive.name != term.primitive.name:
        return None
    if not any(is_possible(term, operands, definer) for operands in orders(node)):
        return None
    return Matcher(Scene(definer, takes_edges=False)).match(((term, node.outputs[0]),))


def joint_match(patterns: Iterable[str], values: Iterable[Value], definer: Mapping[Value, Node]) -> Match | None:
    """The match of expressions with values in which each name is the same everywhere; None where there is none."""
    terms = map(term_of_text, patterns)
    return Matcher(Scene(definer, takes_edges=False)).match(zip(terms, values, strict=False))


def root(text: str) -> str:
    """The primitive of the last operation of an expression."""
    term = term_of_text(text)
    assert isinstance(term, Call)
    return term.primitive.name
