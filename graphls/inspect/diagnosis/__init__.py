"""Diagnosis of overflows and of low precision: explanations, gradient ranges and a monitor of the loss scale.

See docs/overflow.md. A plain `import graphls` does not load this package, and a step that is not diagnosed has no
cost from it.
"""

from graphls.inspect.diagnosis.explanation import NonFinite, Operand, OverflowExplanation, Source
from graphls.inspect.diagnosis.gradients import GradientRange, GradientRanges
from graphls.inspect.diagnosis.monitor import LossScaleMonitor
from graphls.inspect.diagnosis.precision_explanation import PrecisionExplanation
from graphls.inspect.diagnosis.ranges import Range
from graphls.inspect.diagnosis.recipe_search import LayerChoice, RecipeSearch
from graphls.inspect.diagnosis.regimes import RegimeChange
from graphls.inspect.diagnosis.report import StepReport
from graphls.inspect.diagnosis.rounded import Alternative, RoundedTensor, Window
from graphls.inspect.diagnosis.sensitivity import RoundingEffect
from graphls.passes.autodiff import widen
from graphls.passes.overflow import rescale, watch

__all__ = [
    "Alternative", "GradientRange", "GradientRanges", "LayerChoice", "LossScaleMonitor", "NonFinite", "Operand",
    "OverflowExplanation", "PrecisionExplanation", "Range", "RecipeSearch", "RegimeChange", "RoundedTensor",
    "RoundingEffect", "Source", "StepReport", "Window", "rescale", "watch", "widen",
]  # fmt: skip
