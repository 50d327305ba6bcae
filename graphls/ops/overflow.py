"""The overflow window as user code opens and closes it, with a status that says what belongs to it.

Clearing a status opens a window after everything that the status was made to depend on. Getting it reads whether a
float tensor overflowed that the status was made to depend on since.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.errors import GraphValueError
from graphls.ir.types import Type, float32
from graphls.ops.operands import tensor_of
from graphls.tensors.pytree import leaves
from graphls.tensors.tensor import Symbol, Tensor, is_tensor
from graphls.trace.current import current_tracer
from graphls.trace.tracer import Tracer


def overflow_start(pre_cond: Any, compute_input: Any) -> tuple[Any, Any]:
    """A cleared overflow status, set after `pre_cond`; `compute_input` comes back ordered after it."""
    tracer = current_tracer()
    if tracer is None:
        return Tensor(np.zeros(8, np.int32)), compute_input
    status = tracer.depend(new_status(tracer), _tensors(pre_cond))
    cleared = clear_status(tracer, status)
    with tracer.phase("backward"):
        return status, tracer.depend(compute_input, cleared)


def overflow_get(status: Any, compute_output: Any) -> Tensor:
    """Whether a float tensor in `compute_output` holds an infinity or nan, bool of shape ().

    A status that was not cleared leaves it to the compiler to place the window. Raises GraphValueError where there is
    no float tensor to look at.
    """
    floats = [t for t in map(tensor_of, _tensors(compute_output)) if t.dtype.is_float]
    if not floats:
        raise GraphValueError("There is no float tensor to look at; give the gradients.")
    tracer = current_tracer()
    if tracer is None:
        return Tensor(not all(np.isfinite(t.array).all() for t in floats))
    token = tracer.windows.get(_key(tracer, status)) if is_tensor(status) else None
    read = () if token is None else (token,)
    with tracer.phase("check"):
        return Symbol(tracer.emit("overflow_get", (*read, *map(tracer.value, floats)), {}, name="overflow")[0])


def new_status(tracer: Tracer) -> Tensor:
    """A status, f32[8], zeros until it is read."""
    return tracer.scratch("float_status", Type(float32, (8,)))


def clear_status(tracer: Tracer, status: Any) -> Any:
    """Open a window; the status, ordered after that."""
    with tracer.phase("check"):
        (token,) = tracer.emit("overflow_start", (), {}, after=tracer.awaited(status), name="status")
    tracer.windows[_key(tracer, status)] = token
    return tracer.depend(status, Symbol(token))


def get_status(tracer: Tracer, status: Any) -> Tensor:
    """Whether what the status was made to depend on in its window overflowed, bool of shape ().

    Raises GraphValueError where that is nothing.
    """
    token = tracer.windows.get(_key(tracer, status))
    opened = -1 if token is None else tracer.made[token]
    floats = (v for v in tracer.awaited(status) if v.type.dtype.is_float)
    inside = [Symbol(v) for v in floats if tracer.made.get(v, -1) > opened]
    if not inside:
        raise GraphValueError(
            "The status depends on no float tensor made since it was cleared, so it says nothing; write "
            "`status = ops.depend(status, grads)` before you read it.",
        )
    return overflow_get(status, inside)


def _key(tracer: Tracer, status: Any) -> Any:
    """What all forms of one status have in common."""
    return tracer.behind_depends(status if isinstance(status, Symbol) else Symbol(tracer.value(status)))


def _tensors(tree: Any) -> list[Any]:
    """The tensors in a nest."""
    return [leaf for leaf in leaves(tree) if is_tensor(leaf)]
