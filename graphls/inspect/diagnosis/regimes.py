"""The regimes of a loss scale over many steps: calibrating, settled, falling or grown."""

from __future__ import annotations

from dataclasses import dataclass

from graphls.inspect.diagnosis.explanation import OverflowExplanation
from graphls.inspect.diagnosis.ranges import power
from graphls.inspect.diagnosis.report import StepReport

GROWTH = 4.0
"""The factor over the scale last reported from which on a scale is reported as grown."""


@dataclass(frozen=True)
class RegimeChange:
    """A change of the regime of a loss scale: the step, the new regime, the scale, and a sentence.

    `regime` is "calibrating", "settled", "falling" or "grown"; `explanation` belongs to "falling".

    Examples:
        >>> from graphls.diagnosis import RegimeChange
        >>> change = RegimeChange(12, "settled", 1024.0, "step 12: the scale has settled at 2^10")
        >>> change.regime, change.scale
        ('settled', 1024.0)
    """

    step: int
    regime: str
    scale: float
    text: str
    explanation: OverflowExplanation | None = None

    def __str__(self) -> str:
        cause = f" {self.explanation.summary}" if self.explanation is not None else ""
        return f"step {self.step}: {self.text}{cause}"


class Regimes:
    """The regime of a loss scale, by the outcomes of steps in order; `scale` is the one before the first step."""

    def __init__(self, scale: float | None, settled_after: int, patience: int) -> None:
        self.settled_after, self.patience = settled_after, patience
        self.regime = "calibrating"
        self.scale = self.start = self.reported = scale
        self.top = scale or 0.0
        self.good = self.high = self.bad = self.skipped = 0

    def after(self, report: StepReport) -> RegimeChange | None:
        """Process the outcome of a step; returns the change that it completes, if any."""
        before, self.scale = self.scale, report.scale
        if self.reported is None or before is None:
            self.start = self.reported = before = report.scale
        text = self.skip(before, report.scale) if report.skipped else self.hold(report.scale)
        return RegimeChange(report.step, self.regime, report.scale, text) if text else None

    def skip(self, before: float, scale: float) -> str:
        """Process a skipped step; returns the sentence to report, if any."""
        self.top = self.top if self.bad else before
        self.good = self.high = 0
        self.bad += 1
        self.skipped += 1
        if self.regime == "falling" or not self.falls(scale):
            is_first = self.regime == "calibrating" and self.skipped == 1
            return f"the scale is being calibrated: {power(before)} does not fit." if is_first else ""
        self.regime = "falling"
        if self.bad < self.patience:
            return f"the scale keeps falling: from {power(self.reported)} to {power(scale)}."
        if scale < self.top:
            return f"the scale keeps falling: from {power(self.top)} to {power(scale)} in {self.bad} skipped steps."
        return f"{self.bad} steps in a row were skipped at the scale {power(scale)}."

    def falls(self, scale: float) -> bool:
        in_a_row = self.bad >= self.patience
        if self.regime == "calibrating":
            return in_a_row and (scale <= 1 or scale >= self.top)
        return in_a_row or scale * 2.0**self.patience <= (self.reported or 0)

    def hold(self, scale: float) -> str:
        """Process a step that was not skipped; returns the sentence to report, if any."""
        reported = self.reported or scale
        self.good, self.bad = self.good + 1, 0
        self.high = self.high + 1 if scale >= GROWTH * reported else 0
        if self.regime in ("calibrating", "falling"):
            return self.settle(scale) if self.good >= self.settled_after else ""
        if self.good == self.settled_after:
            self.start, self.skipped = scale, 0
        if self.high < self.settled_after:
            return ""
        self.regime, self.reported, self.high = "grown", scale, 0
        grown = f"the scale has grown from {power(reported)} to {power(scale)}"
        return f"{grown}; {self.good} steps in a row did not overflow."

    def settle(self, scale: float) -> str:
        text = f"the scale has settled at {power(scale)}; no step was skipped."
        if self.skipped:
            steps = f"{self.skipped} skipped {'step' if self.skipped == 1 else 'steps'}"
            text = f"the scale has settled: from {power(self.start)} to {power(scale)} in {steps}."
            if self.regime == "calibrating" and self.skipped >= self.good:
                text = f"{text[:-1]}; begin the next run with {power(scale)}."
        self.regime, self.reported, self.start, self.skipped = "settled", scale, scale, 0
        return text
