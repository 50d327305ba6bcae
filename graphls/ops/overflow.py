"""The overflow window as user code opens and closes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls import dispatch
from graphls.tensor import Symbol, Tensor, is_tensor
from graphls.tree import leaves


def overflow_start(pre_cond: Any, compute_input: Any) -> tuple[Any, Any]:
    """A cleared overflow status, set after `pre_cond`; `compute_input` comes back ordered after it."""
    tracer = dispatch.current_tracer()
    if tracer is None:
        return Tensor(np.zeros(8, np.int32)), compute_input
    after = [tracer.value(leaf) for leaf in _tensors(pre_cond)]
    with tracer.phase("check"):
        status = Symbol(tracer.emit("overflow_start", (), {}, after=after, name="status")[0])
    with tracer.phase("backward"):
        return status, tracer.depend(compute_input, status)


def overflow_get(status: Any, compute_output: Any) -> Tensor:
    """Whether a float tensor in `compute_output` holds an infinity or nan, bool of shape ()."""
    tracer = dispatch.current_tracer()
    if tracer is None:
        arrays = tuple(leaf.array for leaf in _tensors(compute_output) if leaf.dtype.is_float)
        return Tensor(not all(np.isfinite(array).all() for array in arrays))
    values = [tracer.value(leaf) for leaf in _tensors(compute_output)]
    floats = [v for v in values if v.type.dtype.is_float]
    token = [status.value] if isinstance(status, Symbol) and status.dtype.kind == "token" else []
    with tracer.phase("check"):
        return Symbol(tracer.emit("overflow_get", (*token, *floats), {}, name="overflow")[0])


def _tensors(tree: Any) -> list[Any]:
    """The tensors in a nest."""
    return [leaf for leaf in leaves(tree) if is_tensor(leaf)]
