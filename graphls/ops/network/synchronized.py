"""Batch normalisation by the batches of several ranks, joined."""

from __future__ import annotations

from math import prod
from typing import Any

from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.arrays.creation import full
from graphls.ops.arrays.shapes import expand_dims, reshape, stack
from graphls.ops.collectives import all_gathered
from graphls.ops.math.elementwise import maximum, square, sub
from graphls.ops.math.reductions import mean, sum
from graphls.ops.network.normalization import batch_axes, move, normalised_by_channel
from graphls.ops.state import stop_gradient


def batch_norm_over_ranks(
    x: TensorLike, running_mean: TensorLike, running_var: TensorLike, weight: Any, bias: Any, momentum: float,
    eps: float, group: str,
) -> Tensor:  # fmt: skip
    """`ops.batch_norm` in training, by the mean and variance of the joined batches of all ranks of a group.

    Each rank may have another number of rows. The ranks communicate once in the forward and once in the backward.
    """

    def moments(wide: Tensor) -> tuple[Tensor, Tensor]:
        average, left, variance, count = _of_all(wide, group)
        move(running_mean, average + left, momentum)
        move(running_var, variance * (count / maximum(count - 1, 1)), momentum)
        column = (1, wide.shape[1], *[1] * (wide.ndim - 2))
        centred = wide - reshape(average, column) - reshape(left, column)
        return centred, reshape(variance, column)

    return normalised_by_channel(x, running_mean, running_var, weight, bias, eps, moments)


def _of_all(x: Tensor, group: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of each channel over all ranks: the mean, what rounding leaves of it, the variance, and how many elements.

    Each rank gives its own mean and the sum of squares around it, which are put together as Chan, Golub and LeVeque do
    (Updating formulae and a pairwise algorithm for computing sample variances, 1979): no difference of large squares.
    What rounding leaves of a mean has no gradient of its own; see `ops.batch_norm`.
    """
    means, lefts, squares, counts = _gathered(x, group)
    total = sum(counts, 0)
    shares = counts / total
    average = sum(shares * means, 0)
    apart = means - average + lefts
    left = stop_gradient(sum(shares * apart, 0))
    between = counts * square(sub(apart, left))
    return average, left, sum(squares + between, 0) / total, total


def _gathered(x: Tensor, group: str) -> list[Tensor]:
    """Of each rank and channel: the mean, what rounding leaves of it, the squares around it, and how many elements."""
    axes, shape = batch_axes(x), (x.shape[1],)
    average = mean(x, axes, keepdims=True)
    centred = x - average
    left = stop_gradient(mean(centred, axes, keepdims=True))
    squares = sum(square(sub(centred, left)), axes)
    count = full(shape, prod(x.shape[i] for i in axes), dtype=x.dtype)
    own = stack([reshape(average, shape), reshape(left, shape), squares, count])
    rows = all_gathered(expand_dims(own, 0), group)
    return [rows[:, i] for i in range(4)]
