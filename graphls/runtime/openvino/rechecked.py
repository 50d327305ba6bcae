"""A segment whose overflow bounds, where inconclusive, are rechecked by a second model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from graphls.ir.graph import Value
from graphls.ir.plan import Segment
from graphls.runtime.engine import Part, PlanContext, WrappedPart
from graphls.runtime.kernels import Run
from graphls.runtime.openvino.bounded import INCONCLUSIVE, BoundedLowering, ExactLowering
from graphls.runtime.openvino.part import OpenvinoPart, unless_refused

MOST_INCONCLUSIVE = 8
"""Steps in a row whose bounds are inconclusive, behind which the model with the exact check runs alone."""


def open_part(kind: type[OpenvinoPart], segment: Segment, context: PlanContext) -> Part:
    """A segment as a part of this kind; in two models where it may run once more and has overflow checks."""
    if segment not in context.pre_flag:
        return kind(segment, context)
    part = kind(segment, context, BoundedLowering)
    return RecheckedPart(part) if part.has_output(INCONCLUSIVE) else part


class RecheckedPart(WrappedPart):
    """A part whose bounds are checked exactly, by a model that runs behind it, where they are inconclusive.

    That model is made when it is needed first: one that may look at all gradients takes memory for all that they are
    made of, and time to bring it there. Where bounds stay inconclusive, it runs first, and alone while they are. So a
    step with an inconclusive bound has the results of the one, and a step without those of the other, whatever ran
    before: they may differ in the last bit.
    """

    part: Any
    """An OpenvinoPart, which may be profiled."""

    def __init__(self, part: OpenvinoPart) -> None:
        super().__init__(part)
        self.is_inconclusive = np.zeros((), np.bool_)
        part.flags[INCONCLUSIVE] = self.is_inconclusive
        self.exact: Part | None = None
        self.answers: Part = part
        self.count = 0

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        self.answers = self.part
        if isinstance(self.exact, OpenvinoPart) and self.count == MOST_INCONCLUSIVE:
            return partial(self._run_exact_first, self.exact, fed)
        return partial(self._run, super().begin(fed), fed)

    def _run(self, call: Callable[[], object], fed: Mapping[Value, Any]) -> object:
        """Run the model with the bounds, and where they are inconclusive the other one."""
        call()
        if not self.is_inconclusive:
            self.count = 0
            return None
        self.count = min(self.count + 1, MOST_INCONCLUSIVE)
        self.exact = self.answers = self.exact or self._open_exact()
        return self.answers.begin(fed)()

    def _run_exact_first(self, exact: OpenvinoPart, fed: Mapping[Value, Any]) -> object:
        """Run the model with the exact check, and where the bounds are conclusive the other one."""
        self.answers = exact
        exact.begin(fed)()
        if self.is_inconclusive:
            return None
        self.answers = self.part
        return self._run(self.part.begin(fed), fed)

    def _open_exact(self) -> Part:
        """The model with the exact check, or what ONNX Runtime makes of the segment where OpenVINO refuses it."""
        segment, context = self.part.segment, self.part.context

        def opened() -> Part:
            part = OpenvinoPart(segment, context, ExactLowering)
            part.flags[INCONCLUSIVE] = self.is_inconclusive
            return part

        part: Part = unless_refused(opened, lambda other: other.open(segment, context))
        return part

    def end(self) -> Mapping[Value, Any]:
        found = super().end()
        return found if self.answers is self.part else self.answers.end()

    def failed(self, error: Exception) -> Exception:
        return self.answers.failed(error)

    def profile(self) -> list[Run]:
        """The runs of the model with the bounds, where that is profiled."""
        runs: list[Run] = self.part.profile()
        return runs
