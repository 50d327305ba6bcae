"""Checks attributes against the annotated parameters of a primitive's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from inspect import Parameter, signature
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from graphls.base.errors import GraphTypeError

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
            raise GraphTypeError(f"{name} has no attribute {key!r}.")
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
