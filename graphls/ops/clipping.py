"""Gradients kept small: by value, by the norm of all of them together, by any norm."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError, TraceError
from graphls.ir.types import float32
from graphls.ops import elementwise as e
from graphls.ops.elementwise import addn, cast
from graphls.ops.logic import greater_equal, isfinite, where
from graphls.ops.operands import float_of
from graphls.ops.record import operation
from graphls.ops.reductions import amax, sum
from graphls.ops.roots import root
from graphls.ops.shapes import stack
from graphls.tensors.pytree import leaves, map_leaves
from graphls.tensors.tensor import Tensor, is_tensor
from graphls.trace.current import current_tracer


@operation
def clip_by_global_norm(x: Any, clip_norm: float = 1.0, use_norm: Any = None) -> Any:
    """Tensors in a tuple or list, scaled so that their common norm is `clip_norm` at most, each in its own dtype.

    The norm n is the square root of the sum of all squares, in float32; each tensor is multiplied by
    clip_norm / max(n, clip_norm). A norm of nan clips nothing. Raises GraphTypeError for anything else,
    GraphValueError for a `clip_norm` that is not positive and for any `use_norm`.
    """
    _check_tensors("clip_by_global_norm", x)
    if use_norm is not None:
        raise GraphValueError("clip_by_global_norm computes the norm itself; leave use_norm None.")
    limit = _positive("clip_by_global_norm", "clip_norm", clip_norm)
    norm = root(addn([sum(e.square(_wide(t))) for t in leaves(x)]))
    coefficient = e.div(limit, where(greater_equal(norm, limit), norm, limit))
    return map_leaves(lambda t: _scaled(t, coefficient), x)


@operation
def clip_by_norm(x: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """A tensor, or a tuple or list of them, multiplied by min(max_norm / (n + 1e-6), 1), each in its own dtype.

    n is the norm of order `norm_type`, which may be infinity, of all elements together, in float32. With
    `error_if_nonfinite` an n that is not finite raises GraphRuntimeError; a traced step cannot do that (TraceError).
    Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """
    tensors = (x,) if is_tensor(x) else x
    _check_tensors("clip_by_norm", tensors)
    limit = _positive("clip_by_norm", "max_norm", max_norm)
    order = math.inf if norm_type in (math.inf, "inf") else _positive("clip_by_norm", "norm_type", norm_type)
    norm = _norm([e.abs(_wide(t)) for t in leaves(tensors)], order)
    if error_if_nonfinite:
        _check_finite(norm)
    coefficient = e.minimum(e.div(limit, e.add(norm, 1e-6)), 1.0)
    return map_leaves(lambda t: _scaled(t, coefficient), x)


def _norm(sizes: list[Tensor], order: float) -> Tensor:
    if order == math.inf:
        return amax(stack([amax(t) for t in sizes]))
    if order == 2:
        return root(addn([sum(e.square(t)) for t in sizes]))
    return root(addn([sum(e.pow(t, order)) for t in sizes]), order)


def _check_finite(norm: Tensor) -> None:
    if current_tracer() is not None:
        raise TraceError(
            "A step cannot raise by what it computes; leave error_if_nonfinite False and look at ops.isfinite of the "
            "result.",
        )
    if not isfinite(norm):
        raise GraphRuntimeError(f"The norm of what clip_by_norm got is {norm}.")


def _wide(t: Any) -> Tensor:
    t = float_of(t)
    return cast(t, float32) if t.dtype.is_half else t


def _scaled(t: Any, coefficient: Tensor) -> Tensor:
    t = float_of(t)
    return cast(e.mul(_wide(t), coefficient), t.dtype)


def _check_tensors(name: str, x: Any) -> None:
    if not isinstance(x, (tuple, list)) or not leaves(x) or not all(map(is_tensor, leaves(x))):
        raise GraphTypeError(f"{name} takes a tuple or list of tensors, not {x!r}.")


def _positive(name: str, argument: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise GraphTypeError(f"For {name!r}, the {argument!r} must be a number, but got {value!r}.")
    if not 0 < value < math.inf:
        raise GraphValueError(f"For {name!r}, the {argument!r} must be > 0, but got {value!r}.")
    return float(value)
