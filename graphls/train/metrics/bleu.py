"""How much of a translation stands in references."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.train.metrics.metric import Array, Metric, check_type, rearrange_inputs


class BleuScore(Metric):
    """The BLEU score: the geometric mean of n-gram precisions, times a penalty for translations that are too short.

    The n-grams of 1 to `n_gram` words (1 to 4) are counted over all batches; `smooth` adds 1 to each count and to each
    number of n-grams. 0 where the n-grams of one length are never right. Raises GraphTypeError for an `n_gram` that is
    no int or a `smooth` that is no bool, and GraphValueError for another `n_gram`.

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
        """Take in translations, each a list of words, and for each of them a list of references, lists of words, too.

        Raises GraphValueError for other than 2 inputs, for as many lists of references as there are no translations,
        and for a translation without reference; GraphTypeError for what is no list or tuple.
        """
        self._check_number(inputs)
        _check(*inputs)
        for candidate, references in zip(*inputs, strict=True):
            self._candidate_length += len(candidate)
            self._reference_length += min((len(r) for r in references), key=lambda n: abs(n - len(candidate)))
            found = self._n_grams(candidate)
            allowed: Counter[tuple[Any, ...]] = Counter()
            for reference in references:
                allowed |= self._n_grams(reference)
            self._add(self._right, found & allowed)
            self._add(self._total, found)
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
        self._check_some(self._is_updated)
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
