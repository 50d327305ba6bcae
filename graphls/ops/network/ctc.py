"""Connectionist temporal classification: the loss, and greedy decoding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.base.checks import integer
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import int32, int64
from graphls.ops.arrays.creation import arange, full
from graphls.ops.arrays.selection import known
from graphls.ops.arrays.shapes import broadcast_to, concat, cut, expand_dims, gather_elements, reshape, transpose
from graphls.ops.control_flow import scan
from graphls.ops.math.elementwise import (
    cast,
    clip_by_value,
    maximum,
    where,
)
from graphls.ops.math.transcendental import logaddexp
from graphls.ops.network.losses import check_reduction, operands, reduced
from graphls.ops.operands import in_graph, tensor_of
from graphls.ops.record import operation

IMPOSSIBLE = -1e30
"""The logarithm of a probability of 0: finite, so that gradients are numbers."""


@operation
def ctc_loss(
    log_probs: TensorLike, targets: TensorLike, input_lengths: TensorLike, target_lengths: TensorLike, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """-log of the probability of the targets under all alignments, and the logarithms of the probabilities on the way.

    `log_probs` are (T, N, C), `targets` (N, S) and both lengths (N,): the first so many times and labels count. Labels
    are written once for one time or more, with blanks in between where they wish, and where two are equal. The second
    result is (N, T, 2 * S + 1), over labels with blanks around. The mean divides each loss by the length of its target
    first. Where there is no alignment, the loss is infinite, or 0 with `zero_infinity`, and the gradient 0. From Graves
    et al. (2006). Raises GraphTypeError, GraphValueError and, for lengths that are known and out of range,
    GraphRuntimeError.
    """
    name = "ctc_loss"
    dtype, (x,) = operands(name, log_probs)
    check_reduction(name, reduction)
    labels, times, counts = map(tensor_of, (targets, input_lengths, target_lengths))
    _check(name, x, labels, times, counts, blank)
    spread = between_blanks(labels, blank, x.shape[2])
    alphas = paths_forward(x, spread, blank, times)
    losses = total_of(alphas, counts)
    losses = where(losses > -IMPOSSIBLE / 10, 0.0 if zero_infinity else math.inf, losses)
    if reduction == "mean":
        losses = losses / cast(maximum(counts, 1), losses.dtype)
    paths = where(alphas < IMPOSSIBLE / 10, -math.inf, alphas)
    return reduced(name, losses, reduction, dtype), cast(transpose(paths, (1, 0, 2)), dtype)


def _check(name: str, x: Tensor, labels: Tensor, times: Tensor, counts: Tensor, blank: TensorLike) -> None:
    for tensor in (labels, times, counts):
        if tensor.dtype not in (int32, int64):
            message = f"{name} takes targets and lengths in int32 or int64, not {tensor.type}; cast them."
            raise GraphTypeError(message)
    fits = x.ndim == 3 and labels.ndim == 2 and times.shape == counts.shape == labels.shape[:1] == x.shape[1:2]
    if not fits or not x.shape[0]:
        text = ", ".join(str(t.type) for t in (x, labels, times, counts))
        message = f"{name} takes log_probs (T, N, C), targets (N, S) and lengths (N,), (N,), not {text}."
        raise GraphValueError(message)
    if not 0 <= integer(name, "blank", blank) < x.shape[2]:
        raise GraphValueError(f"The 'blank' of {name} is one of {x.shape[2]} classes, not {blank}.")
    for setting, lengths, most in (("input_lengths", times, x.shape[0]), ("target_lengths", counts, labels.shape[1])):
        check_lengths(name, setting, lengths, most)


def check_lengths(name: str, setting: str, lengths: Tensor, most: int) -> None:
    """Raise GraphRuntimeError for lengths that are known and below 0 or above the most."""
    if not isinstance(lengths, Symbol) and any(not 0 <= n <= most for n in lengths.array.reshape(-1)):
        message = f"The {setting!r} of {name} are 0 to {most}, not {lengths.tolist()}."
        raise GraphRuntimeError(message)


def between_blanks(labels: Tensor, blank: int, classes: int) -> Tensor:
    """Labels with a blank before, between and behind them: (N, 2 * S + 1); what is no class is padding."""
    n, size = labels.shape
    own = clip_by_value(cast(labels, int64), 0, classes - 1)
    blanks = full((n, size, 1), blank, dtype=int64)
    pairs = reshape(concat((blanks, expand_dims(own, 2)), 2), (n, 2 * size))
    return concat((pairs, full((n, 1), blank, dtype=int64)), 1)


def paths_forward(x: Tensor, labels: Tensor, blank: int, times: Tensor, merges: bool = True) -> Tensor:
    """The logarithms of the probabilities of all beginnings, by time, sample and position: (T, N, positions).

    After the length of a sample they stay as they were. Unless a label that is repeated `merges`, every time that has
    a label is a label of its own.
    """
    n, positions = labels.shape
    picked = gather_elements(x, 2, broadcast_to(expand_dims(labels, 0), (x.shape[0], n, positions)))
    picked = maximum(picked, IMPOSSIBLE)  # finite, since the gradient of logaddexp of two -inf is nan
    # The blank between two labels may be left out, so that a path moves on by two; between equal labels it may not,
    # as they would be one label that lasts longer.
    can_skip = labels != blank
    if merges:
        can_skip = can_skip & (labels != _moved(labels, 2, blank))
    is_blank = labels == blank
    before = in_graph(arange(positions))
    start = broadcast_to(cast(where(before == 0, 0.0, IMPOSSIBLE), x.dtype), (n, positions))

    def step(alpha: Tensor, now: Tensor) -> tuple[Tensor, Tensor]:
        time, own = now
        skipped = where(can_skip, _moved(alpha, 2, IMPOSSIBLE), IMPOSSIBLE)
        stayed = alpha if merges else where(is_blank, alpha, IMPOSSIBLE)
        reached = logaddexp(logaddexp(stayed, _moved(alpha, 1, IMPOSSIBLE)), skipped)
        new = where(expand_dims(time < times, 1), maximum(reached + own, IMPOSSIBLE), alpha)
        return new, new

    alphas: Tensor = scan(step, start, (arange(x.shape[0]), picked))[1]
    return alphas


def _moved(x: Tensor, count: int, value: TensorLike) -> Tensor:
    """Rows moved to the right by some positions, with a value in front."""
    n, positions = x.shape
    count = min(count, positions)
    return concat((full((n, count), value, dtype=x.dtype), cut(x, 1, 0, positions - count)), 1)


def total_of(alphas: Tensor, counts: Tensor) -> Tensor:
    """-log of the probability that a sample ends on its last label or on the blank behind it."""
    last = alphas[-1]
    ends = expand_dims(cast(counts, int64) * 2, 1)
    blank = gather_elements(last, 1, ends)
    label = where(ends > 0, gather_elements(last, 1, maximum(ends - 1, 0)), IMPOSSIBLE)
    return -reshape(logaddexp(blank, label), (-1,))


@operation(classes="CTCGreedyDecoder", settings="merge_repeated")
def ctc_greedy_decoder(
    inputs: TensorLike, sequence_length: TensorLike, merge_repeated: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The likeliest class at each time of known scores (T, N, C), without blanks, which are the last class.

    Gives the int64 positions (sample, index) of the classes that are found, these classes, the shape of a matrix that
    holds them, and -1 times the sums of the scores on the way, (N, 1). With `merge_repeated`, a class that follows
    itself counts once. Raises GraphTypeError for what the graph computes, because the shapes would not be static, and
    GraphValueError for other shapes or lengths.
    """
    name = "ctc_greedy_decoder"
    x, lengths = known(name, inputs), known(name, sequence_length)
    if x.ndim != 3 or lengths.shape != x.shape[1:2] or 0 in x.shape or not (lengths.array >= 0).all():
        message = f"{name} takes scores (T, N, C) and lengths (N,), not {x.type} and {lengths.type}."
        raise GraphValueError(message)
    if lengths.array.max() > x.shape[0]:
        message = f"The 'sequence_length' of {name} is at most {x.shape[0]}, not {lengths.tolist()}."
        raise GraphValueError(message)
    return _decoded(x, lengths.array, merge_repeated)


def _decoded(x: Tensor, lengths: Any, merge_repeated: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scores = x.array.astype(np.float64)
    best = scores.argmax(2)
    counts = np.arange(len(scores))[:, None] < lengths
    is_new = counts & (best != x.shape[2] - 1)
    if merge_repeated:
        is_new[1:] &= best[1:] != best[:-1]
    samples, times = np.nonzero(is_new.T)
    numbers = np.cumsum(is_new, 0)[times, samples] - 1
    positions = np.stack((samples, numbers), 1)
    shape = [x.shape[1], int(is_new.sum(0).max())]
    total = -np.where(counts, scores.max(2), 0).sum(0)[:, None]
    classes = best[times, samples]
    return Tensor(positions, int64), Tensor(classes, int64), Tensor(shape, int64), Tensor(total, x.dtype)
