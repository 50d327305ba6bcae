"""Lowerings of overflow checks for OpenVINO: bounds only, and bounds with the exact check."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from onnx import ModelProto

from graphls.ir.graph import Value
from graphls.ir.types import Type, bool_
from graphls.runtime.lowering.finite import any_not_finite, are_bounded
from graphls.runtime.lowering.lowering import Lowering

INCONCLUSIVE = "inconclusive bound"
"""The output that is true where a bound says too little."""


class BoundedLowering(Lowering):
    """Lowers overflow checks to their bounds, and gives one more output where there are any: INCONCLUSIVE.

    Where that is true the checks find nothing, so that a model with the exact check has to be asked.
    """

    is_exact = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
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
