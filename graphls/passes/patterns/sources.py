"""Terms from what users write: an expression, a Python function that is called with symbols, or a graph."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import cache
from inspect import Parameter, signature
from typing import Any, NoReturn, TypeAlias

from graphls.base.errors import GraphAttributeError, GraphKeyError, GraphTypeError, GraphValueError
from graphls.ir.graph import Graph, Value, definers
from graphls.ir.registry import lookup
from graphls.ir.types import DTYPES
from graphls.passes.patterns.terms import Call, Name, Number, Term, applied, constant_of, frozen, number_array

Source: TypeAlias = "str | Graph | Callable[..., Any]"
"""An expression, a graph, or a function of a builder and of names."""

_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.MatMult: operator.matmul, ast.Pow: operator.pow,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip

BUILDER_FIRST = "A pattern's function takes the builder and names, as in `lambda e, x: e.exp(x)`"

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
        is_behind = error.msg.startswith("positional argument follows keyword")
        example = "`...` stands before attributes" if is_behind else "write it like 'mul(x, sigmoid(x))'"
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
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _operation(_OPERATORS[type(tree.op)], _expression(tree.left), _expression(tree.right))
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _OPERATORS:
        return _operation(_OPERATORS[type(tree.ops[0])], _expression(tree.left), _expression(tree.comparators[0]))
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return _operation(operator.neg, _expression(tree.operand))
    if isinstance(tree, ast.Tuple):
        raise GraphValueError(f"A pattern has one last operation, not {len(tree.elts)}; write a pattern for each.")
    return Number(_literal(tree))


def _operation(function: Callable[..., Any], *terms: Term) -> Term:
    """An operator applied to terms; of numbers alone the number, as in Python."""
    parts = [term.value if isinstance(term, Number) else term for term in terms]
    try:
        result = function(*parts)
    except ArithmeticError as error:
        raise GraphValueError(f"A number in a pattern cannot be computed: {error}.") from None
    return result if isinstance(result, Call) else Number(result)


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
    try:
        return frozen(ast.literal_eval(tree))
    except ValueError:
        text = f"The attribute value {ast.unparse(tree)!r} is neither a literal nor a name in capitals"
        raise GraphValueError(f"{text}; write the replacement as a function to compute it.") from None


def _named_attribute(name: str) -> Any:
    if name.isupper():
        return Name(name)
    if name in _DTYPES:
        return _DTYPES[name]
    raise GraphValueError(f"The attribute value {name!r} is not a dtype; a name of any value is in capitals.")


def _literal(tree: ast.expr) -> Any:
    try:
        return ast.literal_eval(tree)
    except ValueError:
        text = f"{ast.unparse(tree)!r} is not a part of a pattern"
        raise GraphValueError(f"{text}; a part is a name, a number or a primitive, such as add(x, 1.0).") from None


class Symbols:
    """The builder with which a pattern's function is called: every primitive is a method that returns a symbol.

    Operands are symbols, numbers and arrays; `...` after them allows any attributes besides those that are written.
    """

    def __array__(self, *args: object, **options: object) -> NoReturn:
        raise GraphTypeError(f"{BUILDER_FIRST}.")

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
        return Number(number_array(value))

    const = scalar = constant


def parameters_of(function: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters."""
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return [p.name for p in signature(function).parameters.values() if p.kind in kinds]


def _term_of_function(function: Callable[..., Any]) -> Term:
    _, *named = parameters_of(function) or [""]
    if not named:
        raise GraphTypeError(f"{BUILDER_FIRST}.")
    result = function(Symbols(), *map(Name, named))
    if not isinstance(result, (Name, Number, Call)):
        is_several = isinstance(result, (tuple, list)) and all(isinstance(each, Call) for each in result)
        what = f"{len(result)} of them; write a pattern for each" if is_several else repr(result)
        raise GraphTypeError(f"A pattern's function returns the symbol of its last operation, not {what}.")
    return result


def _term_of_graph(graph: Graph) -> Term:
    """The term of the only output; inputs are names, and texts in capitals among the attributes are, too."""
    if len(graph.outputs) != 1 or graph.states:
        raise GraphValueError(f"The graph @{graph.name} is not a pattern, which has one output and no states.")
    terms: dict[Value, Term] = {value: Name(value.name) for value in graph.inputs}
    definer = definers(graph.nodes)
    for node in graph.nodes:
        if node.regions:
            text = f"The graph @{graph.name} is not a pattern: its node {node.primitive.name} has regions."
            raise GraphValueError(text)
        constant = constant_of(node.outputs[0], definer)
        attrs = {key: _graph_attribute(value) for key, value in node.attrs.items()}
        for number, value in enumerate(node.outputs):
            called = None if constant else Call(node.primitive, tuple(map(terms.__getitem__, node.inputs)), attrs)
            terms[value] = Number(constant[0]) if constant else called[number]  # type: ignore[index]
    return terms[graph.outputs[0]]


def _graph_attribute(value: Any) -> Any:
    return Name(value) if isinstance(value, str) and value.isidentifier() and value.isupper() else value
