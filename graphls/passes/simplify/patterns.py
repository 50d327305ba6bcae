"""Pattern matching: patterns of primitives are written as Python, such as `mul(x, sigmoid(x))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from graphls.ir.graph import Node, Value

COMMUTATIVE = {"add", "mul", "minimum", "maximum"}
CLOSE = 1e-5
"""The relative tolerance between a constant, which is rounded to its dtype, and the number in a pattern."""


@dataclass(frozen=True)
class Match:
    """The bindings of a pattern's names: values, and in capitals the numbers of constants and attributes.

    `nodes` are those that the pattern matches, the constants among them left out.
    """

    values: Mapping[str, Value] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.numbers[name] if name.isupper() else self.values[name]

    def with_value(self, name: str, value: Value) -> Match | None:
        """The match with a name bound to a value; None where it is bound to another one."""
        known = self.values.get(name, value)
        return Match({**self.values, name: value}, self.numbers, self.nodes) if known is value else None

    def with_number(self, name: str, number: Any) -> Match | None:
        """The match with a name bound to a number; None where it is bound to another one."""
        known = self.numbers.get(name, number)
        return Match(self.values, {**self.numbers, name: number}, self.nodes) if known == number else None

    def with_node(self, node: Node) -> Match:
        """The match with one more node."""
        return self if node in self.nodes else Match(self.values, self.numbers, (*self.nodes, node))


def matches(text: str, node: Node, definer: Mapping[Value, Node]) -> Match | None:
    """The match of a pattern whose last operation is a node; None where it does not match.

    Lower-case names are values, and names in capitals constants or attributes, each the same everywhere. Operands of
    `add`, `mul`, `minimum` and `maximum` may stand in either order.
    """
    pattern = _parsed(text)
    assert isinstance(pattern, ast.Call)
    return next(_call(pattern, node, definer, Match()), None)


@cache
def root(text: str) -> str:
    """The primitive of the last operation of an expression."""
    pattern = _parsed(text)
    assert isinstance(pattern, ast.Call) and isinstance(pattern.func, ast.Name)
    return pattern.func.id


@cache
def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _call(pattern: ast.Call, node: Node, definer: Mapping[Value, Node], match: Match) -> Iterator[Match]:
    assert isinstance(pattern.func, ast.Name)
    name = node.primitive.name
    if name != pattern.func.id or node.after or len(pattern.args) != len(node.inputs):
        return
    for word in pattern.keywords:
        step = _attribute(word, node, match)
        if step is None:
            return
        match = step
    match = match.with_node(node)
    yield from _operands(pattern.args, node.inputs, definer, match)
    if name in COMMUTATIVE:
        yield from _operands(pattern.args, node.inputs[::-1], definer, match)


def _attribute(word: ast.keyword, node: Node, match: Match) -> Match | None:
    value = node.attrs.get(word.arg or "")
    if isinstance(word.value, ast.Name):
        return match.with_number(word.value.id, value)
    return match if value == ast.literal_eval(word.value) else None


def _operands(
    patterns: list[ast.expr], values: tuple[Value, ...], definer: Mapping[Value, Node], match: Match
) -> Iterator[Match]:
    if not patterns:
        yield match
        return
    for step in _operand(patterns[0], values[0], definer, match):
        yield from _operands(patterns[1:], values[1:], definer, step)


def _operand(pattern: ast.expr, value: Value, definer: Mapping[Value, Node], match: Match) -> Iterator[Match]:
    maker = definer.get(value)
    step: Match | None = None
    if isinstance(pattern, ast.Call):
        if maker is not None and maker.outputs[0] is value:
            yield from _call(pattern, maker, definer, match)
    elif isinstance(pattern, ast.Name) and not pattern.id.isupper():
        step = match.with_value(pattern.id, value)
    elif maker is not None and maker.primitive.is_constant:
        number = number_of(maker)
        if isinstance(pattern, ast.Name):
            step = None if number is None else match.with_number(pattern.id, number)
        elif number is not None and np.isclose(number, ast.literal_eval(pattern), rtol=CLOSE, atol=0):
            step = match
    if step is not None:
        yield step


def number_of(constant: Node) -> float | None:
    """The number that all elements of a constant have; None where they differ."""
    array = constant.attrs["value"]
    return float(array.flat[0]) if array.size and (array == array.flat[0]).all() else None
