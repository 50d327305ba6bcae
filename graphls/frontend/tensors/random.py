"""The random seed, and the state of traced random tensors."""

from __future__ import annotations

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.sharing.locks import SEEDING
from graphls.frontend.tensors.parameter import Parameter
from graphls.ir.types import int64

_state = Parameter(np.zeros(2, np.int64), name="random_state", requires_grad=False)
_seeded: tuple[int | None, np.random.Generator] = None, np.random.default_rng(0)
"""The seed that was set and the generator of all threads, in one attribute, so that they belong together."""


def set_seed(seed: int) -> None:
    """Start all random numbers anew: initial weights, shuffles, dropout; the same seed gives the same run.

    Raises GraphTypeError for a seed that is not an integer, GraphValueError for a negative one.

    Examples:
        >>> import graphls
        >>> from graphls import ops
        >>> graphls.set_seed(7)
        >>> first = ops.randn(3)
        >>> graphls.set_seed(7)
        >>> bool((ops.randn(3) == first).all())
        True
    """
    global _seeded
    if isinstance(seed, bool) or not isinstance(seed, int):
        message = f"The argument 'seed' must be type of int, but got {type(seed)}."
        raise GraphTypeError(message)
    if seed < 0:
        message = f"For 'global_seed', the 'seed' must be int and must >= 0, but got {seed}."
        raise GraphValueError(message)
    with SEEDING.lock:
        _seeded = seed, np.random.default_rng(seed)
        _state.set_data(np.array([seed, 0], int64.numpy))


def get_seed() -> int | None:
    """The seed of the last `set_seed`; None before the first."""
    return _seeded[0]


def random_state() -> Parameter:
    """The (seed, step) state, int64 of shape (2,), that compiled steps draw from and advance."""
    return _state


def generator() -> np.random.Generator:
    """The generator of initial values and of random tensors outside compiled steps."""
    return _seeded[1]
