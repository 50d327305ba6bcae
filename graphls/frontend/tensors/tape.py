"""The eager tape: records operations that are computed at once, for their gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

SAME, COMPILED = "", "compiled"
"""What is noted in place of a primitive: that a tensor is another one, and that a compiled step gave it."""


@dataclass(frozen=True, eq=False)
class Noted:
    """A primitive with its operands and results, which are tensors as they were handed on."""

    primitive: str
    operands: tuple[Any, ...]
    attrs: Mapping[str, object]
    results: tuple[Any, ...]


_TAPE: ContextVar[list[Noted] | None] = ContextVar("tape", default=None)


def note(primitive: str, operands: tuple[object, ...], attrs: Mapping[str, object], results: object) -> None:
    """Write down what was computed, where somebody asks for it."""
    tape = _TAPE.get()
    if tape is not None:
        tape.append(Noted(primitive, operands, attrs, results if isinstance(results, tuple) else (results,)))


@contextmanager
def noting() -> Iterator[list[Noted]]:
    """All that is computed at once in a block, in order; it keeps every tensor, so that none is taken for another."""
    tape: list[Noted] = []
    before = _TAPE.set(tape)
    try:
        yield tape
    finally:
        _TAPE.reset(before)
