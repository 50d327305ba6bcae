"""Metrics of similarity: cosines between rows, and the BLEU score of translations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.train.metrics.metric import Array, Metric, check_choice, check_type, misfit, rearrange_inputs

_SIMILARITIES, _REDUCTIONS = ("dot", "cosine"), ("none", "sum", "mean")


class CosineSimilarity(Metric):
    """The cosine of the angle between each two rows of the last matrix, or their dot products.

    `similarity` is "cosine" or "dot", `reduction` "none", "sum" or "mean" over each row of the result, and
    `zero_diagonal` sets the similarity of a row with itself to 0 before. Raises GraphTypeError and GraphValueError for
    settings that do not fit.

    Examples:
        >>> import numpy as np
        >>> from graphls.train import CosineSimilarity
        >>> metric = CosineSimilarity()
        >>> metric.clear()
        >>> metric.update(np.array([[3.0, 4.0], [4.0, 3.0]]))
        >>> metric.eval()
        array([[0.  , 0.96],
               [0.96, 0.  ]])
    """

    inputs = ("matrix",)

    def __init__(self, similarity: str = "cosine", reduction: str = "none", zero_diagonal: bool = True) -> None:
        super().__init__()
        check_choice(self, "similarity", similarity, _SIMILARITIES)
        check_choice(self, "reduction", reduction, _REDUCTIONS)
        check_type(self, "zero_diagonal", zero_diagonal, bool)
        self.similarity, self.reduction, self.zero_diagonal = similarity, reduction, zero_diagonal
        self.clear()

    def clear(self) -> None:
        self._matrix: Array | None = None

    @rearrange_inputs
    def update(self, *inputs: object) -> None:
        """Set the matrix (N, M), in place of an earlier one; raises GraphValueError for another shape."""
        (rows,) = self._arrays(inputs)
        if rows.ndim != 2:
            raise misfit(self, "a matrix, (N, M)", rows)
        if self.similarity == "cosine":
            with np.errstate(invalid="ignore"):  # a row of zeros has no direction, and the cosine is nan
                rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        self._matrix = rows @ rows.T
        if self.zero_diagonal:
            np.fill_diagonal(self._matrix, 0)

    def eval(self) -> Any:
        """The similarities (N, N), or their sums or means (N,); raises GraphRuntimeError before the first `update`."""
        if self._matrix is None:
            raise GraphRuntimeError("The 'CosineSimilarity' must be updated before it is evaluated.")
        if self.reduction == "none":
            return self._matrix
        return self._matrix.sum(axis=-1) if self.reduction == "sum" else self._matrix.mean(axis=-1)


class BleuScore(Metric):
    """The BLEU score: the geometric mean of n-gram precisions, times a penalty for translations that are too short.

    The n-grams of 1 to `n_gram` words (1 to 4) are counted over all batches; `smooth` adds 1 to each count and to each
    number of n-grams. 0 where the n-grams of one length are never right. Raises GraphTypeError for an `n_gram` that is
    not an int or a `smooth` that is not a bool, and GraphValueError for another `n_gram`.

    Source: Papineni et al., BLEU: a Method for Automatic Evaluation of Machine Translation, 2002.

    Examples:
        >>> from graphls.train import BleuScore
        >>> metric = BleuScore(2)
        >>> metric.clear()
        >>> metric.update([["the", "cat", "sat", "here"]], [[["the", "cat", "sat"], ["a", "cat", "sat", "here"]]])
        >>> metric.eval()
        1.0
    """

    inputs = ("candidate_corpus", "reference_corpus")

    def __init__(self, n_gram: int = 4, smooth: bool = False) -> None:
        super().__init__()
        check_type(self, "n_gram", n_gram, int)
        check_type(self, "smooth", smooth, bool)
        if not 1 <= n_gram <= 4:
            raise GraphValueError(f"For 'BleuScore', the argument 'n_gram' must be 1 to 4, not {n_gram}.")
        self.n_gram, self.smooth = n_gram, smooth
        self.clear()

    def clear(self) -> None:
        self._right: Array = np.zeros(self.n_gram)
        self._total: Array = np.zeros(self.n_gram)
        self._candidate_length = self._reference_length = 0
        self._is_updated = False

    @rearrange_inputs
    def update(self, *inputs: Any) -> None:
        """Add translations, each a list of words, and for each of them a list of references, also lists of words.

        Raises GraphValueError for other than 2 inputs, for as many lists of references as there are no translations,
        and for a translation without reference; GraphTypeError for anything but a list or tuple.
        """
        self._check_number(inputs)
        _check(*inputs)
        for candidate, references in zip(*inputs, strict=True):
            self._candidate_length += len(candidate)
            self._reference_length += min((len(r) for r in references), key=lambda n: abs(n - len(candidate)))
            n_grams = self._n_grams(candidate)
            allowed: Counter[tuple[Any, ...]] = Counter()
            for reference in references:
                allowed |= self._n_grams(reference)
            self._add(self._right, n_grams & allowed)
            self._add(self._total, n_grams)
        self._is_updated = True

    def _n_grams(self, words: Sequence[Any]) -> Counter[tuple[Any, ...]]:
        lengths = range(1, self.n_gram + 1)
        return Counter(tuple(words[i : i + n]) for n in lengths for i in range(len(words) - n + 1))

    @staticmethod
    def _add(counts: Array, n_grams: Counter[tuple[Any, ...]]) -> None:
        for words, count in n_grams.items():
            counts[len(words) - 1] += count

    def eval(self) -> float:
        """The score, from 0 to 1; raises GraphRuntimeError where there was no batch."""
        self._check_not_empty(self._is_updated)
        if not self._right.all():
            return 0.0
        precisions = (self._right + self.smooth) / (self._total + self.smooth)
        is_longer = self._candidate_length > self._reference_length
        penalty = 1.0 if is_longer else np.exp(1 - self._reference_length / self._candidate_length)
        return float(penalty * np.exp(np.log(precisions).mean()))


def _check(candidates: object, references: object) -> None:
    if not (isinstance(candidates, (list, tuple)) and isinstance(references, (list, tuple))):
        raise GraphTypeError("BleuScore takes translations and references as lists, not as tensors or arrays.")
    if len(candidates) != len(references):
        raise GraphValueError(
            "For 'BleuScore.update', 'candidate_corpus' and 'reference_corpus' must be of one length, but got "
            f"{len(candidates)} and {len(references)}.",
        )
    if not all(references):
        raise GraphValueError("For 'BleuScore.update', every translation needs a reference, but one has none.")
