"""The place of the low_precision pass in a pipeline."""

from __future__ import annotations

from graphls.passes.manager import Pipeline
from graphls.passes.precision.low_precision import LowPrecision


def behind_gradient(pipeline: Pipeline, low: LowPrecision) -> Pipeline:
    """The pipeline with this pass behind the one for gradients, in place of any other of its kind."""
    passes = [each for each in pipeline.passes if each.name != low.name]
    at = next((number for number, each in enumerate(passes) if each.name == "gradient"), -1)
    return Pipeline((*passes[: at + 1], low, *passes[at + 1 :]))
