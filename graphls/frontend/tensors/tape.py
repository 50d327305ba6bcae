"""The eager tape: records operations that are computed at once, for their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

SAME, COMPILED = "", "compiled"
"""Marks in place of a primitive: of an alias of another tensor, and of a result of a compiled step."""


@dataclass(frozen=True, eq=False)
class Noted:
    """A recorded operation: a primitive with its operands and results, the very tensors of the program."""

    primitive: str
    operands: tuple[Any, ...]
    attrs: Mapping[str, object]
    results: tuple[Any, ...]


_TAPE: ContextVar[list[Noted] | None] = ContextVar("tape", default=None)


def note(primitive: str, operands: tuple[object, ...], attrs: Mapping[str, object], results: object) -> None:
    """Record an operation, where a tape is active."""
    tape = _TAPE.get()
    if tape is not None:
        tape.append(Noted(primitive, operands, attrs, results if isinstance(results, tuple) else (results,)))


@contextmanager
def noting() -> Iterator[list[Noted]]:
    """Record the operations of a block, in order; the tape keeps every tensor alive, so that identities stay unique."""
    tape: list[Noted] = []
    before = _TAPE.set(tape)
    try:
        yield tape
    finally:
        _TAPE.reset(before)
