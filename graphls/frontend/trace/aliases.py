"""Aliases in a trace: results of `depend`, and negations of a bool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from graphls.ir.graph import Value


@dataclass
class Aliases:
    """Values that alias others: results of `depend`, with their control edges, and of `logical_not`."""

    waiting: dict[Value, tuple[Value, tuple[Value, ...]]] = field(default_factory=dict)
    negated: dict[Value, Value] = field(default_factory=dict)

    def note(self, name: str, outputs: Sequence[Value], inputs: Sequence[Value], after: Sequence[Value]) -> None:
        """Record the alias that a new node of this name creates, if any."""
        if name == "depend":
            self.waiting[outputs[0]] = inputs[0], tuple(after)
        elif name == "logical_not":
            self.negated[outputs[0]] = inputs[0]

    def note_choice(self, value: Value, pair: tuple[Value, Value]) -> None:
        """Record that a choice between two values is their common original, where both come from `depend`s of it."""
        first, second = map(self.original, pair)
        if first is second:
            self.waiting[value] = first, ()

    def original(self, value: Value) -> Value:
        """The value behind all `depend`s."""
        while value in self.waiting:
            value = self.waiting[value][0]
        return value

    def awaited(self, value: Value) -> tuple[Value, ...]:
        """The values that a value waits for by `depend`, in order."""
        values: tuple[Value, ...] = ()
        while value in self.waiting:
            value, after = self.waiting[value]
            values = (*after, *values)
        return values

    def canonical(self, value: Value) -> tuple[Value, bool]:
        """The bool behind negations and `depend`s, and whether it is negated."""
        is_negated = False
        while value in self.waiting or value in self.negated:
            is_negated ^= value in self.negated
            value = self.negated[value] if value in self.negated else self.waiting[value][0]
        return value, is_negated
