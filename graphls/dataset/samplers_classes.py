"""Samplers that share rows out among processes, or choose by weight or by class."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import numpy as np

from graphls.dataset import checks
from graphls.dataset.samplers import BuiltinSampler
from graphls.ir.errors import GraphlsError, GraphTypeError, GraphValueError


class DistributedSampler(BuiltinSampler):
    """The rows of one shard of `num_shards`: every `num_shards`-th, of the shuffled rows with `shuffle`.

    Shards have equally many rows: the last rounds begin again at the first rows. With an `offset` below `num_shards`
    the first row belongs to shard `offset`, and shards may differ by one row.
    """

    def __init__(
        self, num_shards: int, shard_id: int, shuffle: bool = True, num_samples: int | None = None, offset: int = -1
    ) -> None:
        super().__init__(num_samples)
        self.num_shards = checks.integer("num_shards", num_shards, 1)
        self.shard_id = checks.integer("shard_id", shard_id, 0)
        self.shuffle = checks.flag("shuffle", shuffle)
        self.offset = checks.integer("offset", offset, -1)
        if shard_id >= num_shards:
            raise GraphValueError(f"shard_id is below num_shards ({num_shards}), not {shard_id}.")
        if offset > num_shards:
            raise GraphValueError(f"offset is num_shards ({num_shards}) at most, not {offset}.")

    def _places(self, size: int) -> range:
        """The places of this shard in the shuffled rows, before they begin again."""
        if self.offset == -1:
            rounds = -(-size // self.num_shards)
            return range(self.shard_id, rounds * self.num_shards, self.num_shards)
        first = (self.shard_id - self.offset) % self.num_shards
        return range(first, size, self.num_shards)

    def available(self, size: int) -> int:
        return len(self._places(size))

    def chosen(self, size: int, draws: np.random.Generator, labels: Any) -> Iterable[int]:
        rows = draws.permutation(size).tolist() if self.shuffle else range(size)
        return [rows[place % size] for place in self._places(size)]


class WeightedRandomSampler(BuiltinSampler):
    """Rows drawn with probabilities in proportion to `weights`; row `i` has weight `i`, rows beyond them none."""

    def __init__(self, weights: Sequence[float], num_samples: int | None = None, replacement: bool = True) -> None:
        super().__init__(num_samples)
        self.replacement = checks.flag("replacement", replacement)
        try:
            self.weights = np.array(weights, np.float64)
        except (TypeError, ValueError):
            raise GraphTypeError(f"weights are numbers, not {weights!r}.") from None
        total = self.weights.sum()
        if self.weights.ndim != 1 or (self.weights < 0).any() or not (isfinite(total) and total > 0):
            raise GraphValueError("weights is a list of numbers of 0 or more, of which one at least is positive.")

    def available(self, size: int) -> int:
        return size if self.replacement else int(np.count_nonzero(self.weights))

    def _bounded(self, count: int) -> int:
        return self.num_samples if self.replacement and self.num_samples else super()._bounded(count)

    def chosen(self, size: int, draws: np.random.Generator, labels: Any) -> Iterable[int]:
        if len(self.weights) > size:
            raise GraphlsError(f"it has {len(self.weights)} weights for {size} rows")
        count = self._bounded(self.available(size))
        shares = self.weights / self.weights.sum()
        return draws.choice(len(shares), count, self.replacement, shares).tolist()  # type: ignore[no-any-return]


class PKSampler(BuiltinSampler):
    """`num_val` rows of each class, class after class; of `num_class` classes at most.

    The class of a row is its value in `class_column`, which is read once for all rows. With `shuffle` the classes come
    in a random order. Classes that have too few rows give some of them more than once.
    """

    def __init__(
        self,
        num_val: int,
        num_class: int | None = None,
        shuffle: bool = False,
        class_column: str = "label",
        num_samples: int | None = None,
    ) -> None:
        super().__init__(num_samples)
        self.num_val = checks.integer("num_val", num_val, 1)
        self.num_class = checks.optional_integer("num_class", num_class, 1)
        self.shuffle = checks.flag("shuffle", shuffle)
        self.class_column = class_column

    def length(self, size: int) -> int | None:
        return None

    def chosen(self, size: int, draws: np.random.Generator, labels: Any) -> Iterable[int]:
        if labels is None or self.child_sampler is not None:
            raise GraphlsError("PKSampler needs to know the class of every row of the source")
        values = labels(self.class_column)
        classes = np.unique(values)[: self.num_class]
        order = draws.permutation(len(classes)) if self.shuffle else range(len(classes))
        return [index for place in order for index in self._members(np.flatnonzero(values == classes[place]), draws)]

    def _members(self, members: np.ndarray[Any, Any], draws: np.random.Generator) -> list[int]:
        return draws.choice(members, self.num_val, len(members) < self.num_val).tolist()  # type: ignore[no-any-return]
