"""Overflow checks in two OpenVINO models: a bound, and the exact check that runs where the bound is inconclusive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
from onnx import ModelProto

from graphls.ir.graph import Value
from graphls.ir.plan import Segment
from graphls.ir.types import Type, bool_
from graphls.runtime.engine import Part, PlanContext, WrappedPart
from graphls.runtime.kernels import Run
from graphls.runtime.lowering.finite import any_not_finite, are_bounded
from graphls.runtime.lowering.lowering import Lowering
from graphls.runtime.openvino.part import OpenvinoPart, open_or_fall_back

INCONCLUSIVE = "inconclusive bound"
"""The name of the output that is true where the bound of an overflow check is inconclusive."""

MOST_INCONCLUSIVE = 8
"""Consecutive steps with an inconclusive bound after which the model with the exact check runs first."""


class BoundedLowering(Lowering):
    """Lowers overflow checks to their bounds, with the output INCONCLUSIVE where there are any checks.

    Where that output is true the checks report no overflow, and the model with the exact check must run.
    """

    is_exact = False

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.names.fresh(INCONCLUSIVE)
        self.inconclusive: list[str] = []

    def any_not_finite(self, values: Sequence[Value]) -> str:
        """Whether a float tensor holds an infinity or nan; False where the bound is inconclusive."""
        values = [v for v in values if v.type.size]
        if not values or self.body is not self.main:
            return super().any_not_finite(values)
        is_finite = are_bounded(self, values)
        self.inconclusive.append(self.Not(is_finite))
        return any_not_finite(self, values, is_finite) if self.is_exact else self.const(False)

    def model(self) -> ModelProto:
        """The model written so far."""
        if self.inconclusive:
            self.node = None
            name = reduce(self.Or, self.inconclusive)  # which nothing else reads
            next(proto for proto in reversed(self.main.node) if name in proto.output).output[:] = [INCONCLUSIVE]
            self.yield_from_branch(INCONCLUSIVE, Type(bool_))
        return super().model()


class ExactLowering(BoundedLowering):
    """Lowers overflow checks to their bounds and, where these are inconclusive, to the exact check."""

    is_exact = True


def open_part(kind: type[OpenvinoPart], segment: Segment, context: PlanContext) -> Part:
    """Opens a segment as a part of this kind; an ExactCheckPart where it has overflow checks and may run twice."""
    if segment not in context.pre_flag:
        return kind(segment, context)
    is_inconclusive = np.zeros((), np.bool_)
    part = kind(segment, context, BoundedLowering, {INCONCLUSIVE: is_inconclusive})
    return ExactCheckPart(part, is_inconclusive) if part.has_output(INCONCLUSIVE) else part


class ExactCheckPart(WrappedPart):
    """A part whose overflow checks are bounds, and that runs a second model, with the exact check, as needed.

    The second model is compiled at the first inconclusive bound: it may read all gradients, so it takes memory for all
    their operands, and time to load them. After MOST_INCONCLUSIVE steps in a row it runs first, and alone as long as
    the bound stays inconclusive. A step with an inconclusive bound always has the results of the second model, any
    other step those of the first one, whatever ran before: they may differ in the last bit.
    """

    part: Any
    """An OpenvinoPart, which may be profiled."""

    def __init__(self, part: OpenvinoPart, is_inconclusive: np.ndarray[Any, Any]) -> None:
        super().__init__(part)
        self.is_inconclusive = is_inconclusive
        self.exact: Part | None = None
        self.answers: Part = part
        self.count = 0

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        self.answers = self.part
        if isinstance(self.exact, OpenvinoPart) and self.count == MOST_INCONCLUSIVE:
            return partial(self._run_exact_first, self.exact, fed)
        return partial(self._run, super().begin(fed), fed)

    def _run(self, call: Callable[[], object], fed: Mapping[Value, Any]) -> object:
        """Run the model with the bounds, and the exact check where they are inconclusive."""
        call()
        if not self.is_inconclusive:
            self.count = 0
            return None
        self.count = min(self.count + 1, MOST_INCONCLUSIVE)
        self.exact = self.answers = self.exact or self._open_exact()
        return self.answers.begin(fed)()

    def _run_exact_first(self, exact: OpenvinoPart, fed: Mapping[Value, Any]) -> object:
        """Run the model with the exact check, and the one with the bounds where these are conclusive."""
        self.answers = exact
        exact.begin(fed)()
        if self.is_inconclusive:
            return None
        self.answers = self.part
        return self._run(self.part.begin(fed), fed)

    def _open_exact(self) -> Part:
        """Opens the model with the exact check, in ONNX Runtime where OpenVINO refuses it."""
        segment, context, flags = self.part.segment, self.part.context, {INCONCLUSIVE: self.is_inconclusive}
        opened = partial(OpenvinoPart, segment, context, ExactLowering, flags)
        part: Part = open_or_fall_back(opened, lambda engine: engine.open(segment, context))
        return part

    def end(self) -> Mapping[Value, Any]:
        results = super().end()
        return results if self.answers is self.part else self.answers.end()

    def failed(self, error: Exception) -> Exception:
        return self.answers.failed(error)

    def profile(self) -> list[Run]:
        """The runs of the model with the bounds, where that is profiled."""
        runs: list[Run] = self.part.profile()
        return runs
