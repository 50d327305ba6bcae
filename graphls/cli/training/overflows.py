"""Summarizes the overflows of a run at its end, and stops a run whose loss is infinite or nan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby

from graphls.base.errors import GraphlsError, GraphValueError
from graphls.inspect.diagnosis.explanation import OverflowExplanation
from graphls.inspect.diagnosis.ranges import power
from graphls.inspect.diagnosis.regimes import Regimes
from graphls.inspect.diagnosis.report import History, StepReport
from graphls.train.callbacks import Callback, RunContext
from graphls.train.callbacks.callback import loss_of
from graphls.train.skips import SkippedSteps

SETTLED_AFTER, PATIENCE = 20, 8
MANY = 0.1
"""The share of skipped steps above which they cost more than a search for the loss scale."""
MOST_RANGES = 6
ADVICE = "take a smaller --learning-rate, --clip 1, or look for large numbers in the data"


class NotFinite(GraphValueError):
    """The loss of a step is infinite or nan, and its parameters with it."""


class OverflowSummary(Callback):
    """Follows the loss and, if there is an initial loss `scale`, the steps that overflow.

    `explain` is called with the row of a step that has just been skipped: the first one, and one at which the scale
    keeps falling. Raises NotFinite after a step that was not skipped although its loss is infinite or nan.
    """

    _reports_overflows = True

    def __init__(self, scale: float | None, explain: Callable[[Sequence[object]], OverflowExplanation]) -> None:
        self.scale, self.explain = scale, explain
        self.regimes = Regimes(scale, SETTLED_AFTER, PATIENCE)
        self.history = History()
        self.skipped: list[int] = []
        self.counts = SkippedSteps(scale)
        self.explanation: OverflowExplanation | None = None

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Check the outcome of a step."""
        params = run_context.original_args()
        if self.scale is not None and self._is_skipped(StepReport(params.net_outputs, self.history), params):
            return
        loss = loss_of(params.net_outputs)
        if loss is not None and not math.isfinite(loss):
            text = f"The loss is {loss} in step {params.cur_step_num}, epoch {params.cur_epoch_num}, and training ends"
            raise NotFinite(f"{text}; {ADVICE}.")

    def _is_skipped(self, report: StepReport, params: dict[str, object]) -> bool:
        change = self.regimes.after(report)
        self.counts.after(report.skipped, report.scale)
        if report.skipped:
            self.skipped.append(params["cur_step_num"])  # type: ignore[arg-type]
            if self.explanation is None or (change is not None and change.regime == "falling"):
                with suppress(GraphlsError):  # a run goes on without an explanation
                    self.explanation = self.explain(params["train_dataset_element"])  # type: ignore[arg-type]
        return report.skipped

    @property
    def trained_nothing(self) -> bool:
        """Tells whether every step was skipped."""
        return 0 < len(self.skipped) == self.history.steps

    def lines(self) -> Iterator[str]:
        """The sentences of the summary: the number of skipped steps, their cause, and advice."""
        if self.scale is None or not self.history.steps:
            return
        now = power(self.regimes.scale or self.scale)
        if not self.skipped:
            yield f"No step overflowed; the loss scale is {now}."
            return
        steps = f"{len(self.skipped)} of {self.history.steps} steps overflowed and were skipped"
        yield f"{steps} ({_ranges(self.skipped)}); the loss scale went from {power(self.scale)} to {now}."
        if self.explanation is not None:
            yield self.explanation.summary
        yield self._advice()

    def _advice(self) -> str:
        in_forward = self.explanation is not None and self.explanation.phase == "forward"
        fitting = self.explanation.fitting_scale if self.explanation is not None else None
        has_scale = self.counts.held is not None or (fitting is not None and fitting >= 1)
        if self.counts.are_most and has_scale and not in_forward:
            return f"Most steps went into the search for a scale: {self.counts.advice('--loss-scale', fitting)}."
        is_often = len(self.skipped) - self._halvings() > max(MANY * self.history.steps, PATIENCE)
        if in_forward or is_often or self.trained_nothing or self.regimes.regime == "falling":
            cause = "A scale does not help the forward" if in_forward else "The search for a scale takes fewer steps"
            return f"{cause}: train with --precision bfloat16 or float32, or with inputs in a smaller range."
        return "That is how the scale is found; nothing needs to be done."

    def _halvings(self) -> float:
        """The number of skipped steps that the fall to the present scale took."""
        return math.log2(max((self.scale or 1.0) / (self.regimes.scale or 1.0), 1.0))


def _ranges(steps: Sequence[int]) -> str:
    """Step numbers in words, consecutive ones as ranges."""
    runs = []
    for _, group in groupby(enumerate(steps), lambda pair: pair[1] - pair[0]):
        run = [step for _, step in group]
        runs.append(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}")
    rest = f" and {len(runs) - MOST_RANGES} times later" if len(runs) > MOST_RANGES else ""
    return f"step{'s' * (len(steps) > 1)} {', '.join(runs[:MOST_RANGES])}{rest}"
