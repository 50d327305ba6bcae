"""Functions with the arguments of operator classes, where those of `graphls.ops` have others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from graphls.ops import einstein, elementwise, norms, statistics


def with_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives the position of an extreme, then the extreme, by one that gives them in the other order."""

    def position_first(x: Any, axis: int = 0, keep_dims: bool = False) -> Any:
        return function(x, axis, keep_dims)[::-1]

    position_first.__doc__ = f"{inspect.getdoc(function)}\n\nThe position comes first."
    return position_first


def einsum(inputs: Any, equation: str) -> Any:
    """The sum of products that an equation says, of the tensors in a tuple."""
    return einstein.einsum(equation, *inputs)


def lp_norm(x: Any, axis: Any, p: int = 2, keep_dims: bool = False, epsilon: float = 1e-12) -> Any:
    """The norm of order `p` along axes, `epsilon` or more."""
    return elementwise.maximum(norms.vector_norm(x, p, axis, keep_dims), epsilon)


def reduced_std(x: Any, axis: Any = (), unbiased: bool = True, keep_dims: bool = False) -> Any:
    """The standard deviation, over one element less where `unbiased`, and the mean along axes."""
    return statistics.std_mean(x, axis, int(unbiased), keep_dims)
