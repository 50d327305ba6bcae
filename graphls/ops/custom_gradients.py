"""Functions of tensors whose gradient is a formula instead of that of their steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphls.tensors.tensor import Symbol, TensorLike
from graphls.trace.current import current_tracer
from graphls.trace.custom import with_custom_gradient
from graphls.trace.regions import once


@dataclass(frozen=True)
class _Formula:
    """What the tracer takes for a cell with a gradient of its own."""

    construct: Callable[..., Any]
    bprop: Callable[..., Any]


def with_gradient(function: Callable[..., Any], gradient: Callable[..., Any], *tensors: TensorLike) -> Any:
    """`function(*tensors)`, of which the gradients by the tensors are `gradient(*tensors, result, sensitivity)`.

    Those are a tuple, one of the type of each tensor. In a backward, where second derivatives come from, the steps of
    the function have their own: else a formula that calls the function again would have no end.
    """
    tracer = current_tracer()
    if tracer is None or tracer.here.phase == "backward" or not any(isinstance(t, Symbol) for t in tensors):
        return function(*tensors)
    formula = _Formula(function, gradient)
    return once(tracer, "custom_gradient", lambda: with_custom_gradient(formula, tensors, {}))
