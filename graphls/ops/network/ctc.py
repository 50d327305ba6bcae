"""Connectionist temporal classification (CTC): the loss, for dense and sparse labels, and greedy decoding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.base.checks import boolean, integer
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import float32, int32, int64
from graphls.ops.arrays.creation import arange, full, ones_like
from graphls.ops.arrays.scattering import scatter_nd
from graphls.ops.arrays.selection import known
from graphls.ops.arrays.shapes import (
    broadcast_to,
    concat,
    cut,
    expand_dims,
    gather,
    gather_elements,
    reshape,
    transpose,
)
from graphls.ops.control_flow import scan
from graphls.ops.directions import vjp
from graphls.ops.math.elementwise import (
    cast,
    clip_by_value,
    logical_and,
    maximum,
    minimum,
    where,
)
from graphls.ops.math.reductions import cumsum
from graphls.ops.math.transcendental import logaddexp
from graphls.ops.network.losses import check_reduction, operands, reduced
from graphls.ops.network.network import log_softmax
from graphls.ops.operands import float_of, in_graph, tensor_of
from graphls.ops.record import operation, operator_class

IMPOSSIBLE = -1e30
"""The logarithm of a probability of 0: finite, so that gradients are finite."""


@operation
def ctc_loss(
    log_probs: TensorLike, targets: TensorLike, input_lengths: TensorLike, target_lengths: TensorLike, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """-log of the probability of the targets over all alignments, and the logarithms of the forward probabilities.

    `log_probs` are (T, N, C), `targets` (N, S) and both lengths (N,): the numbers of times and labels that count. A
    label spans one time or more, with optional blanks between labels, and required ones between equal labels. The
    second result is (N, T, 2 * S + 1), over labels with blanks around. The mean divides each loss by the length of its
    target first. Without an alignment, the loss is infinite, or 0 with `zero_infinity`, and the gradient 0. From Graves
    et al. (2006). Raises GraphTypeError, GraphValueError and, for constant lengths out of range, GraphRuntimeError.
    """
    name = "ctc_loss"
    dtype, (x,) = operands(name, log_probs)
    check_reduction(name, reduction)
    labels, times, counts = map(tensor_of, (targets, input_lengths, target_lengths))
    _check(name, x, labels, times, counts, blank)
    spread = with_blanks(labels, blank, x.shape[2])
    alphas = forward_variables(x, spread, blank, times)
    losses = negative_log_likelihood(alphas, counts)
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
    """Raise GraphRuntimeError for constant lengths that are negative or above the most."""
    if not isinstance(lengths, Symbol) and any(not 0 <= n <= most for n in lengths.array.reshape(-1)):
        message = f"The {setting!r} of {name} are 0 to {most}, not {lengths.tolist()}."
        raise GraphRuntimeError(message)


def with_blanks(labels: Tensor, blank: int, classes: int) -> Tensor:
    """Labels with a blank before, between and after them: (N, 2 * S + 1); labels out of range are padding."""
    n, size = labels.shape
    own = clip_by_value(cast(labels, int64), 0, classes - 1)
    blanks = full((n, size, 1), blank, dtype=int64)
    pairs = reshape(concat((blanks, expand_dims(own, 2)), 2), (n, 2 * size))
    return concat((pairs, full((n, 1), blank, dtype=int64)), 1)


def forward_variables(x: Tensor, labels: Tensor, blank: int, times: Tensor, merges: bool = True) -> Tensor:
    """The forward variables: logarithms of the probabilities of all prefixes, (T, N, positions).

    After the length of a sample they stay constant. With `merges`, consecutive equal labels are one label.
    """
    n, positions = labels.shape
    picked = gather_elements(x, 2, broadcast_to(expand_dims(labels, 0), (x.shape[0], n, positions)))
    picked = maximum(picked, IMPOSSIBLE)  # finite, since the gradient of logaddexp of two -inf is nan
    # The blank between two labels may be skipped; between equal labels it may not, as they would be one longer label.
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
    """Rows shifted to the right, with a value in front."""
    n, positions = x.shape
    count = min(count, positions)
    return concat((full((n, count), value, dtype=x.dtype), cut(x, 1, 0, positions - count)), 1)


def negative_log_likelihood(alphas: Tensor, counts: Tensor) -> Tensor:
    """-log of the probability that a sample ends on its last label or on the blank after it."""
    last = alphas[-1]
    ends = expand_dims(cast(counts, int64) * 2, 1)
    blank = gather_elements(last, 1, ends)
    label = where(ends > 0, gather_elements(last, 1, maximum(ends - 1, 0)), IMPOSSIBLE)
    return -reshape(logaddexp(blank, label), (-1,))


@operation(classes="CTCGreedyDecoder", settings="merge_repeated")
def ctc_greedy_decoder(
    inputs: TensorLike, sequence_length: TensorLike, merge_repeated: bool = True
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The most likely class at each time of constant scores (T, N, C), without blanks, which are the last class.

    Returns the int64 positions (sample, index) of the decoded classes, these classes, the shape of their matrix, and
    -1 times the sums of the scores along the paths, (N, 1). With `merge_repeated`, consecutive equal classes count
    once. Raises GraphTypeError for scores that the graph computes, because the shapes would not be static, and
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


@operator_class("CTCLoss", "preprocess_collapse_repeated ctc_merge_repeated ignore_longer_outputs_than_inputs")
def _sparse_ctc_loss(
    x: TensorLike, labels_indices: TensorLike, labels_values: TensorLike, sequence_length: TensorLike,
    preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The CTC loss of each sample, (N,), and its gradient by x, unnormalized scores (T, N, C).

    Row i of `labels_indices` (L, 2) is the sample and the position in it of the label `labels_values[i]`, ascending.
    The blank is the last class, and the first `sequence_length` (N,) times count. With `preprocess_collapse_repeated`
    consecutive equal labels are one, without `ctc_merge_repeated` each label spans one time. A sample with more labels
    than times has the loss 0 with `ignore_longer_outputs_than_inputs`, else an infinite one. Raises GraphTypeError,
    GraphValueError and, for constants with more labels than times, GraphRuntimeError.
    """
    name = "CTCLoss"
    settings = {
        "preprocess_collapse_repeated": preprocess_collapse_repeated,
        "ctc_merge_repeated": ctc_merge_repeated,
        "ignore_longer_outputs_than_inputs": ignore_longer_outputs_than_inputs,
    }
    collapse, merges, ignore = (boolean(name, key, value) for key, value in settings.items())
    scores, positions, values, times = float_of(x), *map(tensor_of, (labels_indices, labels_values, sequence_length))
    _check_sparse(name, scores, positions, values, times)
    labels, counts = _dense(scores, positions, values, collapse)
    if not ignore and not isinstance(times, Symbol) and not isinstance(counts, Symbol):
        _check_counts(name, counts, times)
    most = labels.shape[1]

    def losses(x: Tensor) -> Tensor:
        blank = x.shape[2] - 1
        alphas = forward_variables(log_softmax(x), with_blanks(labels, blank, x.shape[2]), blank, times, merges)
        loss = negative_log_likelihood(alphas, minimum(counts, most))
        loss = where(loss > -IMPOSSIBLE / 10, math.inf, loss)
        return where(counts > cast(times, int64), 0.0 if ignore else math.inf, loss)

    loss, pulled = vjp(losses, cast(scores, float32) if scores.dtype.is_half else scores)
    (gradient,) = pulled(ones_like(loss))
    return cast(loss, scores.dtype), cast(gradient, scores.dtype)


def _check_sparse(name: str, x: Tensor, positions: Tensor, values: Tensor, times: Tensor) -> None:
    for tensor in (positions, values, times):
        if tensor.dtype not in (int32, int64):
            message = f"{name} takes labels and lengths in int32 or int64, not {tensor.type}; cast them."
            raise GraphTypeError(message)
    fits = x.ndim == 3 and positions.ndim == 2 and values.shape == positions.shape[:1] and times.shape == x.shape[1:2]
    if not fits or positions.shape[1] != 2 or 0 in x.shape:
        text = ", ".join(str(t.type) for t in (x, positions, values, times))
        message = f"{name} takes x (T, N, C), indices (L, 2), values (L,) and lengths (N,), not {text}."
        raise GraphValueError(message)
    check_lengths(name, "sequence_length", times, x.shape[0])


def _check_counts(name: str, counts: Tensor, times: Tensor) -> None:
    for sample, (count, time) in enumerate(zip(counts.tolist(), times.tolist(), strict=True)):
        if count > time:
            message = f"{name} takes as many times as labels, but sample {sample} has {count} labels and {time} times."
            raise GraphRuntimeError(message)


def _dense(x: Tensor, positions: Tensor, values: Tensor, collapse: bool) -> tuple[Tensor, Tensor]:
    """Labels (N, S) and their numbers for each sample (N,), in int64."""
    n, count = x.shape[1], positions.shape[0]
    longest = count if isinstance(positions, Symbol) else int(positions.array[:, 1].max(initial=0)) + 1
    size = max(1, min(longest, x.shape[0]))
    samples, numbers = (reshape(cut(cast(positions, int64), 1, i, i + 1), (count,)) for i in (0, 1))
    is_label = full((count,), 1, dtype=int64)
    if collapse:
        is_label = cast(_is_new(samples, cast(values, int64)), int64)
        order = cumsum(is_label, 0) - 1
        first = scatter_nd(reshape(samples, (-1, 1)), is_label, (n,))
        numbers = order - gather(cumsum(first, 0) - first, samples, 0)
    counts = scatter_nd(reshape(samples, (-1, 1)), is_label, (n,))
    # Collapsed and surplus labels go to a last column, which is cut off.
    column = where(is_label == 1, minimum(numbers, size), size)
    wide = scatter_nd((samples * (size + 1) + column).reshape(-1, 1), cast(values, int64), (n * (size + 1),))
    return cut(reshape(wide, (n, size + 1)), 1, 0, size), counts


def _is_new(samples: Tensor, values: Tensor) -> Any:
    """1 where a label differs from the one before it in its sample, else 0."""
    count = samples.shape[0]
    same = logical_and(*(cut(t, 0, 1, count) == cut(t, 0, 0, count - 1) for t in (samples, values)))
    return concat((full((1,), 1, dtype=int64), cast(cast(same, int64) != 1, int64)), 0)
