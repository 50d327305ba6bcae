"""What overflowed, where, and whether it was the forward or the backward; see docs/overflow.md.

A plain `import graphls` leaves this package alone, and a step that is not asked pays nothing for it.
"""

from graphls.diagnosis.explanation import NonFinite, Operand, OverflowExplanation, Source
from graphls.diagnosis.gradients import GradientRange, GradientRanges
from graphls.diagnosis.monitor import LossScaleMonitor
from graphls.diagnosis.ranges import Range
from graphls.diagnosis.regimes import RegimeChange
from graphls.diagnosis.report import StepReport
from graphls.passes import rescale, watch, widen

__all__ = [
    "GradientRange", "GradientRanges", "LossScaleMonitor", "NonFinite", "Operand", "OverflowExplanation", "Range",
    "RegimeChange", "Source", "StepReport", "rescale", "watch", "widen",
]  # fmt: skip
