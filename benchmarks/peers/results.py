"""The result of a contender in a row, and the check that it did the same work as the first one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

TOLERANCES = {"float32": 2e-3, "scaled": 2e-3, "bfloat16": 5e-2}
"""The allowed relative difference between a loss of the first steps and that of the first contender."""


@dataclass
class Result:
    """One contender in one row; times in milliseconds by round, `relative` to the reference's in the same round."""

    contender: str
    framework: str
    precision: str
    first_step_s: float = 0.0
    imported_mb: float = 0.0
    peak_mb: float = 0.0
    losses: list[float] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    least: float = float("inf")
    relatives: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def works(self) -> bool:
        """Returns whether it did the work and was measured."""
        return not self.error and bool(self.rounds)

    @property
    def ms(self) -> float:
        """The median over the rounds."""
        return median(self.rounds)

    @property
    def relative(self) -> float:
        """Its time as a multiple of the reference's."""
        return median(self.relatives)

    def begin(self, answer: dict[str, Any]) -> None:
        """Store the worker's answer about its first steps."""
        self.first_step_s, self.imported_mb = answer["first_step_s"], answer["imported_mb"]
        self.losses = answer["losses"]

    def add(self, answer: dict[str, Any]) -> None:
        """Store the worker's answer about a turn."""
        self.rounds.append(median(answer["ms"]))
        self.least = min(self.least, *answer["ms"])
        self.peak_mb = answer["peak_mb"]

    def compare(self, losses: Sequence[float]) -> None:
        """Set the error where the losses of the first steps are not those of the first contender."""
        tolerance = TOLERANCES[self.precision]
        for step, (own, expected) in enumerate(zip(self.losses, losses, strict=True), 1):
            if not abs(own - expected) <= tolerance * abs(expected):
                self.error = f"other work: at step {step} its loss is {own:.5f} instead of {expected:.5f}"
                return

    def as_json(self) -> dict[str, Any]:
        """All of it for a file, with medians."""
        known = {**vars(self), "least": self.least if self.rounds else None}
        return {**known, "ms": self.ms, "relative": self.relative} if self.works else known
