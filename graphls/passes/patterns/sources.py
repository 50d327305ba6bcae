"""Terms from what users write: an expression, a Python function that is called with symbols, or a graph."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter, signature
from typing import Any, TypeAlias

import numpy as np

from graphls.base.errors import GraphAttributeError, GraphKeyError, GraphTypeError, GraphValueError
from graphls.ir.graph import Graph, Value, definers
from graphls.ir.registry import Operation, lookup, nearest
from graphls.ir.types import DTYPES
from graphls.passes.patterns.terms import Call, Name, Number, Term, constant_of, defaults_of

Source: TypeAlias = "str | Graph | Callable[..., Any]"
"""An expression, a graph, or a function of a builder and of names."""

_DTYPES = {dtype.name: dtype for dtype in DTYPES} | {dtype.long_name: dtype for dtype in DTYPES}


def term_of(source: Source) -> Term:
    """The term of an expression, a graph or a function; raises GraphTypeError for anything else."""
    if isinstance(source, str):
        return term_of_text(source)
    if isinstance(source, Graph):
        return _term_of_graph(source)
    if callable(source):
        return _term_of_function(source)
    raise GraphTypeError(f"A pattern is a function, an expression as text, or a graph, not {source!r}.")


@cache
def term_of_text(text: str) -> Term:
    """The term of an expression such as `mul(x, sigmoid(x))`; raises GraphValueError for other text."""
    try:
        return _expression(ast.parse(text.strip(), mode="eval").body)
    except (RecursionError, MemoryError):
        raise GraphValueError(f"The pattern {text[:30]!r}... has too many parts in one another.") from None
    except SyntaxError as error:
        example = "write it like 'mul(x, sigmoid(x))'"
        raise GraphValueError(f"The pattern {text!r} does not parse ({error.msg}); {example}.") from None
    except GraphKeyError as error:
        raise GraphValueError(f"In the pattern {text!r}: {error.message}") from None


def _expression(tree: ast.expr) -> Term:
    if isinstance(tree, ast.Name):
        return Name(tree.id)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        is_open = any(map(_is_ellipsis, tree.args))
        operands = tuple(_expression(each) for each in tree.args if not _is_ellipsis(each))
        attrs = {word.arg: _attribute(word.value) for word in tree.keywords if word.arg is not None}
        return applied(lookup(tree.func.id), operands, attrs, is_open)
    if isinstance(tree, ast.Subscript) and isinstance(value := _expression(tree.value), Call):
        return value[_index(tree.slice)]
    return Number(_literal(tree))


def _is_ellipsis(tree: ast.expr) -> bool:
    return isinstance(tree, ast.Constant) and tree.value is ...


def _index(tree: ast.expr) -> int:
    index = _literal(tree)
    if isinstance(index, int):
        return index
    raise GraphValueError(f"The result of a primitive is chosen by its number, not by {ast.unparse(tree)}.")


def _attribute(tree: ast.expr) -> Any:
    if isinstance(tree, ast.Name):
        return _named_attribute(tree.id)
    return _frozen(_literal(tree))


def _named_attribute(name: str) -> Any:
    if name.isupper():
        return Name(name)
    if name in _DTYPES:
        return _DTYPES[name]
    raise GraphValueError(f"The attribute value {name!r} is no dtype; a name of any value is in capitals.")


def _literal(tree: ast.expr) -> Any:
    try:
        return ast.literal_eval(tree)
    except ValueError:
        text = f"{ast.unparse(tree)!r} is no part of a pattern"
        raise GraphValueError(f"{text}; a part is a name, a number or a primitive, such as add(x, 1.0).") from None


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def applied(primitive: Operation, operands: tuple[Any, ...], attrs: Mapping[str, Any], is_open: bool) -> Call:
    """A primitive applied to terms and to numbers; raises GraphTypeError for an attribute that it does not have."""
    known = defaults_of(primitive, len(operands))
    for key in attrs:
        if key not in known:
            raise GraphTypeError(f"{primitive.name} has no attribute {key!r}{nearest(key, known)}.")
    terms = tuple(each if isinstance(each, (Name, Number, Call)) else Number(_array(each)) for each in operands)
    return Call(primitive, terms, {key: _frozen(value) for key, value in attrs.items()}, is_open)


def _array(value: object) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "biufV":
        raise GraphTypeError(f"An operand in a pattern is a symbol, a number or an array of numbers, not {value!r}.")
    return value


class Symbols:
    """The builder with which a pattern's function is called: every primitive is a method that returns a symbol.

    Operands are symbols, numbers and arrays; `...` after them allows any attributes besides those that are written.
    """

    def __getattr__(self, name: str) -> Callable[..., Call]:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            primitive = lookup(name)
        except GraphKeyError as error:
            raise GraphAttributeError(error.message) from None

        def call(*operands: Any, **attrs: Any) -> Call:
            inputs = tuple(each for each in operands if each is not ...)
            return applied(primitive, inputs, attrs, len(inputs) < len(operands))

        return call

    def constant(self, value: Any) -> Number:
        """A constant with that number, or that array."""
        return Number(_array(value))

    const = scalar = constant


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return [p.name for p in signature(function).parameters.values() if p.kind in kinds]


def _term_of_function(function: Callable[..., Any]) -> Term:
    _, *named = parameters_of(function) or [""]
    if not named:
        raise GraphTypeError("A pattern's function takes the builder and names, as in `lambda e, x: e.exp(x)`.")
    result = function(Symbols(), *map(Name, named))
    if not isinstance(result, (Name, Number, Call)):
        raise GraphTypeError(f"A pattern's function returns the symbol of its last operation, not {result!r}.")
    return result


def _term_of_graph(graph: Graph) -> Term:
    """The term of the only output; inputs are names, and texts in capitals among the attributes are, too."""
    if len(graph.outputs) != 1 or graph.states:
        raise GraphValueError(f"The graph @{graph.name} is no pattern, which has one output and no states.")
    terms: dict[Value, Term] = {value: Name(value.name) for value in graph.inputs}
    definer = definers(graph.nodes)
    for node in graph.nodes:
        if node.regions:
            raise GraphValueError(f"The graph @{graph.name} is no pattern: its node {node.primitive.name} has regions.")
        constant = constant_of(node.outputs[0], definer)
        attrs = {key: _graph_attribute(value) for key, value in node.attrs.items()}
        for number, value in enumerate(node.outputs):
            called = None if constant else Call(node.primitive, tuple(map(terms.__getitem__, node.inputs)), attrs)
            terms[value] = Number(constant[0]) if constant else called[number]  # type: ignore[index]
    return terms[graph.outputs[0]]


def _graph_attribute(value: Any) -> Any:
    return Name(value) if isinstance(value, str) and value.isidentifier() and value.isupper() else value
