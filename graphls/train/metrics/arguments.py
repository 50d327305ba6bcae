"""Checks of what a metric is made with."""

from __future__ import annotations

from collections.abc import Collection

from graphls.base.errors import GraphTypeError, GraphValueError


def check_type(owner: object, name: str, value: object, kind: type) -> None:
    """Raise GraphTypeError unless the value is of exactly this type, so that True is no int."""
    if type(value) is not kind:
        raise GraphTypeError(
            f"For '{type(owner).__name__}', the argument {name!r} must be {kind.__name__}, not {value!r}.",
        )


def check_choice(owner: object, name: str, value: object, choices: Collection[str]) -> None:
    """Raise GraphTypeError for what is no str, and GraphValueError for one that is none of the choices."""
    check_type(owner, name, value, str)
    if value not in choices:
        raise GraphValueError(
            f"For '{type(owner).__name__}', the argument {name!r} must be one of {', '.join(choices)}, not {value!r}.",
        )
