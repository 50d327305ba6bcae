"""What is told of primitives from outside of graphls whose rules raise, or give what does not fit."""

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
    """Whether a primitive is one of graphls, in whose rules an error is a defect, which is shown as it is."""
    return type(operation).__module__.startswith(_PACKAGE)


def tell(operation: Operation, rule: str, error: Exception) -> NoReturn:
    """Raise what a user is told of an error that a rule raised: the error itself where it tells enough."""
    if isinstance(error, (GraphlsError, MemoryError)) or is_ours(operation):
        raise error
    kind = next((ours for theirs, ours in _FITTING if isinstance(error, theirs)), GraphRuntimeError)
    what = f"{_named(operation, rule)} raised {type(error).__name__}: {str(error).rstrip('.')}"
    if rule == "onnx" and isinstance(error, AttributeError) and (error.name or "")[:1].isupper():
        what += f"; an operator that is no method is e.operator({error.name!r}, [x])"
    raise kind(f"{what}; {_advice(operation, rule)}", line_of(error)) from error


def unfit(operation: Operation, rule: str, given: str, wanted: str) -> GraphTypeError:
    """The error for a rule that gives something else than what is wanted of it."""
    return GraphTypeError(f"{_named(operation, rule)} gives {given} where {wanted}; {_advice(operation, rule)}")


def missing(operation: Operation, rule: str) -> GraphValueError:
    """The error for a primitive that lacks a rule which is needed."""
    return GraphValueError(f"The primitive {operation.name} has no {RULES[rule]}; give its class one, `{rule}`.")


def listed(types: Iterable[object]) -> str:
    """Types, or other things that a rule gives, in a message."""
    texts = (str(item) if isinstance(item, Type) else f"{type(item).__name__} {item!r}" for item in types)
    return ", ".join(texts) or "nothing"


def _named(operation: Operation, rule: str) -> str:
    return f"The {RULES[rule]} of the primitive {operation.name}"


def _advice(operation: Operation, rule: str) -> str:
    return f"mend `{rule}` of {type(operation).__name__}, which graphls.testing.check_primitive tries."
