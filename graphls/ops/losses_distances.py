"""Losses of how near vectors are to each other."""

from __future__ import annotations

import math
from typing import Any

from graphls.ir import checks
from graphls.ir.errors import GraphValueError
from graphls.ops.elementwise import abs, add, clip_by_value, div, minimum, mul, pow, sqrt, square, sub
from graphls.ops.exponentials import root
from graphls.ops.logic import equal, where
from graphls.ops.loss_operands import (
    operands,
    reduced,
    require_same_shape,
)
from graphls.ops.operands import Operand
from graphls.ops.record import operation, operator_class
from graphls.ops.reductions import amax, sum
from graphls.tensors.tensor import Tensor, TensorLike


@operation
def cosine_embedding_loss(
    input1: TensorLike, input2: TensorLike, target: TensorLike, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """1 - cosine of two vectors where the target is 1, and what the cosine exceeds `margin` by where it is -1.

    Vectors lie along axis 1 of (N, D, ...), or are (D,); the target has the shape without that axis. 1e-12 is added
    to squared lengths. Raises GraphValueError for other shapes and for a margin outside of [-1, 1].
    """
    name = "cosine_embedding_loss"
    dtype, (x, other, y) = operands(name, input1, input2, target)
    require_same_shape(name, x, other)
    axis = 1 if x.ndim > 1 else 0
    if not x.ndim or y.shape != x.shape[:axis] + x.shape[axis + 1 :]:
        raise GraphValueError(f"{name} of vectors {x.type} does not fit a target {y.type}.")
    margin = checks.number(name, "margin", margin, -1, 1)
    lengths = [sqrt(add(sum(square(v), axis), 1e-12)) for v in (x, other)]
    cosine = div(sum(mul(x, other), axis), mul(*lengths))
    apart = where(equal(y, -1.0), clip_by_value(sub(cosine, margin), 0.0), 0.0)
    return reduced(name, where(equal(y, 1.0), sub(1.0, cosine), apart), reduction, dtype)


@operation
def triplet_margin_loss(
    anchor: TensorLike,
    positive: TensorLike,
    negative: TensorLike,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """What the distance to a negative lacks of that to a positive and `margin`, for vectors along the last axis.

    The distance is the `p`-norm of the difference plus `eps`. With `swap` the negative's is the smaller one of those to
    the anchor and to the positive (Balntas et al., 2016). Raises GraphValueError for settings that do not fit.
    """
    name = "triplet_margin_loss"
    dtype, (x, near, far) = operands(name, anchor, positive, negative)
    how = checks.number(name, "p", p, 1), checks.positive(name, "eps", eps)
    to_far = _distance(x, far, *how)
    to_far = minimum(to_far, _distance(near, far, *how)) if swap else to_far
    lacking = add(sub(_distance(x, near, *how), to_far), checks.number(name, "margin", margin, 0))
    return reduced(name, clip_by_value(lacking, 0.0), reduction, dtype)


def _distance(x: Tensor, other: Tensor, p: float, eps: float) -> Tensor:
    if not x.ndim or not other.ndim:
        raise GraphValueError(f"triplet_margin_loss takes vectors, not {x.type} and {other.type}.")
    difference = abs(add(sub(x, other), eps))
    if p == 1:
        return sum(difference, -1)
    if p == 2:
        return root(sum(square(difference), -1))
    return amax(difference, -1) if p == math.inf else root(sum(pow(difference, p), -1), p)


@operator_class("TripletMarginLoss", "p swap eps reduction", like=triplet_margin_loss)
def _triplet_margin_loss(
    x: Any, positive: Any, negative: Any, margin: Operand, p: int = 2, swap: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    number = float(margin.item()) if isinstance(margin, Tensor) else margin
    return triplet_margin_loss(x, positive, negative, number, p, eps, swap, reduction)
