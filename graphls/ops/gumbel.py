"""Choices among categories at random that have a gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.checks import positive
from graphls.ops.creation import one_hot
from graphls.ops.elementwise import add, cast, div, log, maximum, neg, sub
from graphls.ops.network import softmax
from graphls.ops.operands import axis_of, float_of, in_single
from graphls.ops.random import rand
from graphls.ops.record import operation
from graphls.ops.reductions import argmax
from graphls.ops.state import stop_gradient
from graphls.tensors.tensor import Tensor

_LEAST = float(np.finfo(np.float32).tiny)


@operation
def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """The softmax along an axis of (logits + noise) / tau, where the noise has Gumbel's distribution.

    With `hard` the result is 1 at the largest and 0 elsewhere, with the gradient of the softmax (Jang et al.,
    "Categorical Reparameterization with Gumbel-Softmax", 2017). Random numbers are those of `rand`. Raises
    GraphValueError unless `tau` is above 0.
    """
    x, temperature = float_of(logits), positive("gumbel_softmax", "tau", tau)
    at = axis_of(dim, x.ndim)

    def computed(x: Tensor) -> Tensor:
        soft = softmax(div(add(x, _noise(x)), temperature), at)
        if not hard:
            return soft
        chosen = cast(one_hot(argmax(soft, at), x.shape[at], axis=at), x.dtype)
        return add(chosen, sub(soft, stop_gradient(soft)))

    return in_single(computed, x)


def _noise(x: Tensor) -> Tensor:
    uniform = maximum(rand(x.shape), _LEAST)
    return cast(neg(log(neg(log(uniform)))), x.dtype)
