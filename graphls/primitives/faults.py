"""Errors for primitives of plugins whose rules raise, or return results that do not fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from graphls.base.errors import (
    GraphAttributeError,
    GraphIndexError,
    GraphKeyError,
    GraphlsError,
    GraphRuntimeError,
    GraphTypeError,
    GraphValueError,
)
from graphls.base.location import line_of
from graphls.ir.registry import Operation
from graphls.ir.types import Type

RULES = {"infer": "type rule", "numpy": "NumPy rule", "vjp": "gradient rule", "onnx": "ONNX rule"}
_PACKAGE = __name__.partition(".")[0] + "."
_FITTING: tuple[tuple[type[Exception], type[GraphlsError]], ...] = (
    (TypeError, GraphTypeError),
    (IndexError, GraphIndexError),
    (KeyError, GraphKeyError),
    (AttributeError, GraphAttributeError),
    (ValueError, GraphValueError),
)


def is_ours(operation: Operation) -> bool:
    """True for a primitive of graphls itself: an error in its rules is a defect and is not wrapped."""
    return type(operation).__module__.startswith(_PACKAGE)


def tell(operation: Operation, rule: str, error: Exception) -> NoReturn:
    """Raise the error that a user sees when a rule raised one: the error itself where it is clear enough."""
    if isinstance(error, (GraphlsError, MemoryError)) or is_ours(operation):
        raise error
    kind = next((ours for theirs, ours in _FITTING if isinstance(error, theirs)), GraphRuntimeError)
    message = f"{_named(operation, rule)} raised {type(error).__name__}: {str(error).rstrip('.')}"
    if rule == "onnx" and isinstance(error, AttributeError) and (error.name or "")[:1].isupper():
        message += f"; an operator that is no method is e.operator({error.name!r}, [x])"
    raise kind(f"{message}; {_advice(operation, rule)}", line_of(error)) from error


def unfit(operation: Operation, rule: str, results: str, expected: str) -> GraphTypeError:
    """The error for a rule whose results are not the expected ones."""
    return GraphTypeError(f"{_named(operation, rule)} gives {results} where {expected}; {_advice(operation, rule)}")


def missing(operation: Operation, rule: str) -> GraphValueError:
    """The error for a primitive that lacks a required rule."""
    return GraphValueError(f"The primitive {operation.name} has no {RULES[rule]}; give its class one, `{rule}`.")


def listed(types: Iterable[object]) -> str:
    """Types, or other results of a rule, as text for a message."""
    texts = (str(item) if isinstance(item, Type) else f"{type(item).__name__} {item!r}" for item in types)
    return ", ".join(texts) or "nothing"


def _named(operation: Operation, rule: str) -> str:
    return f"The {RULES[rule]} of the primitive {operation.name}"


def _advice(operation: Operation, rule: str) -> str:
    return f"mend `{rule}` of {type(operation).__name__}, which graphls.testing.check_primitive tries."
