"""Counts the skipped steps of a run with loss scaling, and names the scale that its next run should begin with."""

from __future__ import annotations

import math

MOST = 0.5
"""The share of skipped steps from which on a run should begin with another scale."""
FEW = 4
"""Skipped steps below which an epoch is one in which a dynamic scale starts."""


class SkippedSteps:
    """The outcomes of steps in order; `scale` is the one before the first step, if it is known.

    `held` is the scale of the last step that was not skipped; None before there is one.
    """

    def __init__(self, scale: float | None = None) -> None:
        self.scale = scale
        self.steps = self.skipped = 0
        self.has_fallen = self.has_stayed = False
        self.held: float | None = None

    def after(self, skipped: bool, scale: float | None) -> None:
        """Process the outcome of a step, with the scale after it."""
        used = self.scale
        self.steps += 1
        self.skipped += skipped
        if not skipped:
            self.held = scale if used is None else used
        elif used is not None and scale is not None:
            self.has_fallen |= scale < used
            self.has_stayed |= scale >= used
        self.scale = scale

    @property
    def are_most(self) -> bool:
        """Whether at least half of the steps were skipped."""
        return self.skipped > 0 and self.skipped >= MOST * self.steps

    @property
    def searches(self) -> bool:
        """Whether overflows lower the scale, as far as is known: the scale before the first step may not be."""
        return self.has_fallen or not self.has_stayed

    @property
    def is_start(self) -> bool:
        """Whether few steps were skipped, each of which lowered the scale, as where a dynamic scale starts."""
        return self.searches and self.skipped < FEW

    def advice(self, setting: str = "the loss scale", fitting: float | None = None) -> str:
        """Which scale to begin with, as a part of a sentence; empty unless most steps were skipped.

        `setting` names the argument; `fitting` is a scale that is known to fit, for a run in which no step held.
        """
        if not self.are_most:
            return ""
        if self.held is not None and self.searches:
            first = 2.0 ** math.floor(math.log2(self.held)) if self.held > 0 else self.held
            return f"begin with {setting} {first:.12g}, the power of two that held last"
        if self.held is None and fitting is not None and fitting >= 1:
            return f"begin with {setting} {fitting:.12g}, the largest power of two that fits"
        below = f" below {self.scale:.12g}" if self.scale is not None else " that is smaller"
        return f"begin with {setting}{below}, or find the cause with step.explain_overflow"
