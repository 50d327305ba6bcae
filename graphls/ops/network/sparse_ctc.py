"""The loss of connectionist temporal classification, of labels that are written as positions and values."""

from __future__ import annotations

import math
from typing import Any

from graphls.base.checks import boolean
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Symbol, Tensor, TensorLike
from graphls.ir.types import float32, int32, int64
from graphls.ops.arrays.creation import full, ones_like
from graphls.ops.arrays.scattering import scatter_nd
from graphls.ops.arrays.shapes import concat, cut, gather, reshape
from graphls.ops.directions import vjp
from graphls.ops.math.elementwise import cast, logical_and, minimum, where
from graphls.ops.math.reductions import cumsum
from graphls.ops.network.ctc import IMPOSSIBLE, between_blanks, check_lengths, paths_forward, total_of
from graphls.ops.network.network import log_softmax
from graphls.ops.operands import float_of, tensor_of
from graphls.ops.record import operator_class


@operator_class("CTCLoss", "preprocess_collapse_repeated ctc_merge_repeated ignore_longer_outputs_than_inputs")
def _sparse_ctc_loss(
    x: TensorLike, labels_indices: TensorLike, labels_values: TensorLike, sequence_length: TensorLike,
    preprocess_collapse_repeated: bool = False, ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The CTC loss of each sample, (N,), and its gradient by x, which are scores (T, N, C) that are no probabilities.

    Row i of `labels_indices` (L, 2) is the sample and the number in it of the label `labels_values[i]`, rising. The
    blank is the last class, and a `sequence_length` (N,) of times counts. With `preprocess_collapse_repeated` equal
    labels that follow each other are one, without `ctc_merge_repeated` each label lasts one time. A sample with more
    labels than times has the loss 0 with `ignore_longer_outputs_than_inputs`, else an infinite one. Raises
    GraphTypeError, GraphValueError and, where it is known that there are more labels than times, GraphRuntimeError.
    """
    name = "CTCLoss"
    settings = {
        "preprocess_collapse_repeated": preprocess_collapse_repeated,
        "ctc_merge_repeated": ctc_merge_repeated,
        "ignore_longer_outputs_than_inputs": ignore_longer_outputs_than_inputs,
    }
    collapse, merges, ignore = (boolean(name, key, value) for key, value in settings.items())
    scores, places, values, times = float_of(x), *map(tensor_of, (labels_indices, labels_values, sequence_length))
    _check(name, scores, places, values, times)
    labels, counts = _dense(scores, places, values, collapse)
    if not ignore and not isinstance(times, Symbol) and not isinstance(counts, Symbol):
        _check_counts(name, counts, times)
    most = labels.shape[1]

    def losses(x: Tensor) -> Tensor:
        blank = x.shape[2] - 1
        alphas = paths_forward(log_softmax(x), between_blanks(labels, blank, x.shape[2]), blank, times, merges)
        found = total_of(alphas, minimum(counts, most))
        found = where(found > -IMPOSSIBLE / 10, math.inf, found)
        return where(counts > cast(times, int64), 0.0 if ignore else math.inf, found)

    found, pulled = vjp(losses, cast(scores, float32) if scores.dtype.is_half else scores)
    (gradient,) = pulled(ones_like(found))
    return cast(found, scores.dtype), cast(gradient, scores.dtype)


def _check(name: str, x: Tensor, places: Tensor, values: Tensor, times: Tensor) -> None:
    for tensor in (places, values, times):
        if tensor.dtype not in (int32, int64):
            message = f"{name} takes labels and lengths in int32 or int64, not {tensor.type}; cast them."
            raise GraphTypeError(message)
    fits = x.ndim == 3 and places.ndim == 2 and values.shape == places.shape[:1] and times.shape == x.shape[1:2]
    if not fits or places.shape[1] != 2 or 0 in x.shape:
        text = ", ".join(str(t.type) for t in (x, places, values, times))
        message = f"{name} takes x (T, N, C), indices (L, 2), values (L,) and lengths (N,), not {text}."
        raise GraphValueError(message)
    check_lengths(name, "sequence_length", times, x.shape[0])


def _check_counts(name: str, counts: Tensor, times: Tensor) -> None:
    for sample, (count, time) in enumerate(zip(counts.tolist(), times.tolist(), strict=True)):
        if count > time:
            message = f"{name} takes as many times as labels, but sample {sample} has {count} labels and {time} times."
            raise GraphRuntimeError(message)


def _dense(x: Tensor, places: Tensor, values: Tensor, collapse: bool) -> tuple[Tensor, Tensor]:
    """Labels (N, S) and how many of them each sample has (N,), in int64."""
    n, count = x.shape[1], places.shape[0]
    longest = count if isinstance(places, Symbol) else int(places.array[:, 1].max(initial=0)) + 1
    size = max(1, min(longest, x.shape[0]))
    samples, numbers = (reshape(cut(cast(places, int64), 1, i, i + 1), (count,)) for i in (0, 1))
    kept = full((count,), 1, dtype=int64)
    if collapse:
        kept = cast(_is_new(samples, cast(values, int64)), int64)
        order = cumsum(kept, 0) - 1
        first = scatter_nd(reshape(samples, (-1, 1)), kept, (n,))
        numbers = order - gather(cumsum(first, 0) - first, samples, 0)
    counts = scatter_nd(reshape(samples, (-1, 1)), kept, (n,))
    # What has no place of its own goes to a last column, which is cut off.
    column = where(kept == 1, minimum(numbers, size), size)
    wide = scatter_nd((samples * (size + 1) + column).reshape(-1, 1), cast(values, int64), (n * (size + 1),))
    return cut(reshape(wide, (n, size + 1)), 1, 0, size), counts


def _is_new(samples: Tensor, values: Tensor) -> Any:
    """Whether a label is another one than that before it in its sample."""
    count = samples.shape[0]
    same = logical_and(*(cut(t, 0, 1, count) == cut(t, 0, 0, count - 1) for t in (samples, values)))
    return concat((full((1,), 1, dtype=int64), cast(cast(same, int64) != 1, int64)), 0)
