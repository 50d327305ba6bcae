"""Errors for attributes that a primitive does not take, and for rules of plugins that raise or return wrong types."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from inspect import Parameter, signature
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, NoReturn, Union, get_args, get_origin, get_type_hints

from graphls.base.errors import (
    GraphAttributeError,
    GraphIndexError,
    GraphKeyError,
    GraphlsError,
    GraphRuntimeError,
    GraphTypeError,
    GraphValueError,
)
from graphls.base.location import Location, line_of
from graphls.ir.registry import Operation, nearest
from graphls.ir.types import Type

RULES = {"infer": "type rule", "numpy": "NumPy rule", "vjp": "gradient rule", "onnx": "ONNX rule", "xla": "XLA rule"}
_PACKAGE = __name__.partition(".")[0] + "."
_FITTING: tuple[tuple[type[Exception], type[GraphlsError]], ...] = (
    (TypeError, GraphTypeError),
    (IndexError, GraphIndexError),
    (KeyError, GraphKeyError),
    (AttributeError, GraphAttributeError),
    (ValueError, GraphValueError),
)


def is_builtin(operation: Operation) -> bool:
    """True for a primitive of graphls itself: an error in its rules is a defect and is not wrapped."""
    return type(operation).__module__.startswith(_PACKAGE)


def raise_from_rule(operation: Operation, rule: str, error: Exception) -> NoReturn:
    """Raise the error that a user sees when a rule raised one: the error itself where it is clear enough."""
    if isinstance(error, (GraphlsError, MemoryError)) or is_builtin(operation):
        raise error
    kind = next((ours for theirs, ours in _FITTING if isinstance(error, theirs)), GraphRuntimeError)
    message = f"{_named(operation, rule)} raised {type(error).__name__}: {str(error).rstrip('.')}"
    if rule == "onnx" and isinstance(error, AttributeError) and error.name:
        message += nearest(error.name, [name for name in dir(error.obj) if not name.startswith("_")])
        if error.name[:1].isupper():
            message += f"; an operator that is not a method is e.operator({error.name!r}, [x])"
    raise kind(f"{message}; {_advice(operation, rule)}", line_of(error)) from error


def mismatch(
    operation: Operation, rule: str, results: str, expected: str, location: Location | None = None
) -> GraphTypeError:
    """The error for a rule whose results are not the expected ones."""
    text = f"{_named(operation, rule)} gives {results} where {expected}; {_advice(operation, rule)}"
    return GraphTypeError(text, location)


def untraceable(operation: Operation, location: Location | None) -> GraphTypeError:
    """The error for a NumPy rule that takes no traced arrays."""
    text = f"{_named(operation, 'numpy')} takes no arrays of XLA, although {type(operation).__name__} `is_traceable`"
    return GraphTypeError(f"{text}; call functions of `namespace(x)` in it, or leave the fact out.", location)


def missing_rule(operation: Operation, rule: str) -> GraphValueError:
    """The error for a primitive that lacks a required rule."""
    near = get_close_matches(rule, [name for name in vars(type(operation)) if not hasattr(Operation, name)], 1)
    hint = f"; did you mean {rule!r} by {near[0]!r}" if near else ""
    return GraphValueError(f"The primitive {operation.name} has no {RULES[rule]}{hint}; give its class one, `{rule}`.")


def check_members(cls: type, known: Iterable[str]) -> None:
    """Raise GraphAttributeError for a fact of a class of a primitive that is misspelled; rules are missed when used."""
    names = {name for name in known if not name.startswith("_")}
    for name, value in vars(cls).items():
        if name in names or name.startswith("_") or callable(value) or hasattr(value, "__get__"):
            continue
        near = get_close_matches(name, names, 1, 0.85)
        if near:
            text = f"A primitive has no member {name!r}, which is in the class {cls.__name__}; did you mean {near[0]!r}"
            raise GraphAttributeError(f"{text}; a member of your own needs another name.")


def listed(types: Iterable[object]) -> str:
    """Types, or other results of a rule, as text for a message."""
    return ", ".join(map(_described_result, types)) or "nothing"


def _described_result(item: object) -> str:
    kind = "str" if isinstance(item, str) else type(item).__name__
    return str(item) if isinstance(item, Type) else f"{kind} {item!r}"


def _named(operation: Operation, rule: str) -> str:
    return f"The {RULES[rule]} of the primitive {operation.name}"


def _advice(operation: Operation, rule: str) -> str:
    return f"mend `{rule}` of {type(operation).__name__}, which graphls.testing.check_primitive tries."


_NUMBERS: dict[object, type] = {int: Integral, float: Real}
_WORDS: dict[object, str] = {
    int: "an integer", float: "a number", bool: "true or false", str: "a text", NoneType: "none",
}  # fmt: skip


def check_attributes(name: str, rules: tuple[Callable[..., Any], ...], attrs: Mapping[str, Any]) -> None:
    """Raise GraphTypeError for an attribute that no rule of a primitive takes, or whose type is not the annotated one.

    A parameter without an annotation takes any type.
    """
    hints, takes_others = _annotations(rules)
    for key, value in attrs.items():
        if key not in hints and not takes_others:
            raise GraphTypeError(f"{name} has no attribute {key!r}{nearest(key, hints)}.")
        if not _fits(value, hints.get(key, Any)):
            raise GraphTypeError(f"{name} takes {_described(hints[key])} as {key}, not {value!r}.")


@cache
def _annotations(rules: tuple[Callable[..., Any], ...]) -> tuple[dict[str, Any], bool]:
    """The annotated types of the keywords of rules, and whether one of them takes any keyword."""
    parameters = [p for rule in rules for p in signature(rule).parameters.values()]
    hints: dict[str, Any] = {p.name: Any for p in parameters if p.kind is not Parameter.VAR_KEYWORD}
    for rule in rules:
        with suppress(NameError):  # a type that only checkers import
            hints |= get_type_hints(rule)
    is_open = len(rules) == 1 and any(p.kind is Parameter.VAR_KEYWORD for p in parameters)
    return hints, is_open or not rules


def _fits(value: Any, hint: Any) -> bool:
    kind, members = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(value, member) for member in members)
    if kind is tuple:
        members = members[:1] * len(value) if isinstance(value, tuple) and members[1:] == (...,) else members
        return isinstance(value, tuple) and len(value) == len(members) and all(map(_fits, value, members))
    if hint in _NUMBERS:
        return isinstance(value, _NUMBERS[hint]) and not isinstance(value, bool)
    kind = kind or hint
    return kind is Any or not isinstance(kind, type) or isinstance(value, kind)


def _described(hint: Any) -> str:
    """A type as words of an error message."""
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(map(_described, get_args(hint)))
    if get_origin(hint) is tuple:
        inner = _WORDS.get(get_args(hint)[0])
        return "a list" if inner is None else f"a list of {inner.partition(' ')[2]}s"
    return _WORDS.get(hint) or f"a {getattr(get_origin(hint) or hint, '__name__', hint)}"
