"""Samplers, which choose the rows of a pass and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from math import isfinite
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphTypeError, GraphValueError
from graphls.dataset import checks
from graphls.dataset.randomness import generator

Indices = list[int]
Array = np.ndarray[Any, Any]
Labels = Callable[[str], Array]
"""A function of the labels of all rows, by the name of their column."""


class Sampler:
    """The base of custom samplers: `__iter__` yields the indices of the rows of a pass.

    While it runs, `self.dataset_size` is the number of rows of the source, and `self.num_samples` that of the
    constructor, the most rows of a pass. A sampler that has a child samples from the child's choice.

    Examples:
        >>> from graphls import dataset as ds
        >>> class Odd(ds.Sampler):
        ...     def __iter__(self):
        ...         return iter(range(1, self.dataset_size, 2))
        >>> [int(x) for (x,) in ds.NumpySlicesDataset([10, 11, 12, 13], "x", sampler=Odd())]
        [11, 13]
    """

    dataset_size = 0
    num_samples: int | None = None
    child_sampler: Sampler | None = None

    joined = 1
    """The number of shards whose rows it chooses; see `joined_shards`."""

    def __init__(self, num_samples: int | None = None) -> None:
        self.num_samples = checks.optional_integer("num_samples", num_samples, 0) or None

    def joined_shards(self) -> int:
        """The number of shards whose rows it chooses, or its child: all those of the devices that this process drives.

        A batch of rows is one for each of them.
        """
        return self.joined if self.child_sampler is None else max(self.joined, self.child_sampler.joined_shards())

    def __iter__(self) -> Iterator[int]:
        raise GraphTypeError(f"{type(self).__name__} needs a method __iter__ that yields row indices.")

    def add_child(self, sampler: SamplerLike) -> None:
        """Sample from the choice of another sampler; raises GraphValueError where there is a child already."""
        if self.child_sampler is not None:
            raise GraphValueError("A sampler has one child, and this one has one already.")
        self.child_sampler = as_sampler(sampler)

    def get_child(self) -> Sampler | None:
        """The sampler that this one samples from, or None."""
        return self.child_sampler

    def get_num_samples(self) -> int | None:
        """The maximum number of rows of a pass, if set."""
        return self.num_samples

    def order(self, size: int, draws: np.random.Generator, labels: Labels | None = None) -> Indices:
        """The rows of a pass over `size` rows; `labels(column)` returns the labels of all rows on request."""
        if self.child_sampler is None:
            return self._checked(self.chosen(size, draws, labels), size)
        before = self.child_sampler.order(size, draws, labels)
        return [before[i] for i in self._checked(self.chosen(len(before), draws, labels), len(before))]

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        """The rows before the bound by `num_samples`; here those of `__iter__`."""
        self.dataset_size = size
        return iter(self)

    def _checked(self, chosen: Iterable[int], size: int) -> Indices:
        indices = [int(index) for index in islice(chosen, self.num_samples)]
        if indices and not (-size <= min(indices) and max(indices) < size):
            wrong = next(index for index in indices if not -size <= index < size)
            raise GraphlsError(f"it chose row {wrong} of a source of {size} rows")
        return [index % size for index in indices] if indices and min(indices) < 0 else indices

    def length(self, size: int) -> int | None:
        """The number of rows of every pass; None where it is known only after a pass."""
        return None

    def _bounded(self, count: int) -> int:
        return count if self.num_samples is None else min(count, self.num_samples)


SamplerLike = Sampler | Iterable[int]


class BuiltinSampler(Sampler):
    """A sampler whose passes all have the same number of rows."""

    def available(self, size: int) -> int:
        """The number of rows chosen out of `size`, before the bound by `num_samples`."""
        return size

    def length(self, size: int) -> int | None:
        before = size if self.child_sampler is None else self.child_sampler.length(size)
        return None if before is None else self._bounded(self.available(before))

    def __iter__(self) -> Iterator[int]:
        return iter(self.order(self.dataset_size, generator()))


class SequentialSampler(BuiltinSampler):
    """The rows in their order, from `start_index` on.

    Examples:
        >>> from graphls import dataset as ds
        >>> [int(x) for (x,) in ds.NumpySlicesDataset([10, 11, 12], "x", sampler=ds.SequentialSampler(1))]
        [11, 12]
    """

    def __init__(self, start_index: int | None = None, num_samples: int | None = None) -> None:
        super().__init__(num_samples)
        self.start_index = checks.optional_integer("start_index", start_index, 0) or 0

    def available(self, size: int) -> int:
        return max(size - self.start_index, 0)

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        return range(self.start_index, size)


class RandomSampler(BuiltinSampler):
    """The rows in a random order; with `replacement` each is drawn from all rows.

    Examples:
        >>> from graphls import dataset as ds
        >>> rows = ds.NumpySlicesDataset([10, 11, 12], "x", sampler=ds.RandomSampler())
        >>> sorted(int(x) for (x,) in rows)
        [10, 11, 12]
    """

    def __init__(self, replacement: bool = False, num_samples: int | None = None) -> None:
        super().__init__(num_samples)
        self.replacement = checks.boolean("replacement", replacement)

    def _bounded(self, count: int) -> int:
        return self.num_samples if self.replacement and self.num_samples and count else super()._bounded(count)

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        if self.replacement and size:
            return draws.integers(size, size=self._bounded(size)).tolist()  # type: ignore[no-any-return]
        return draws.permutation(size).tolist()  # type: ignore[no-any-return]


class SubsetSampler(BuiltinSampler):
    """The rows of these indices, in this order.

    Examples:
        >>> from graphls import dataset as ds
        >>> [int(x) for (x,) in ds.NumpySlicesDataset([10, 11, 12], "x", sampler=ds.SubsetSampler([2, 0]))]
        [12, 10]
    """

    def __init__(self, indices: int | Iterable[int], num_samples: int | None = None) -> None:
        super().__init__(num_samples)
        is_list = isinstance(indices, Iterable) and not isinstance(indices, (str, bytes))
        items = [indices] if isinstance(indices, int) else list(indices) if is_list else None
        if items is None or not all(isinstance(item, (int, np.integer)) and item is not True for item in items):
            raise checks.type_error("indices", indices, "a list of integers")
        self.indices = [int(item) for item in items]

    def available(self, size: int) -> int:
        return len(self.indices)

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        return self.indices


class SubsetRandomSampler(SubsetSampler):
    """The rows of these indices in a random order.

    Examples:
        >>> from graphls import dataset as ds
        >>> rows = ds.NumpySlicesDataset([10, 11, 12], "x", sampler=ds.SubsetRandomSampler([0, 2]))
        >>> sorted(int(x) for (x,) in rows)
        [10, 12]
    """

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        return draws.permutation(self.indices).tolist()  # type: ignore[no-any-return]


class IterSampler(Sampler):
    """The rows that an iterable yields, such as a list; it is iterated once for every pass.

    Examples:
        >>> from graphls import dataset as ds
        >>> [int(x) for (x,) in ds.NumpySlicesDataset([10, 11, 12], "x", sampler=ds.IterSampler([2, 0]))]
        [12, 10]
    """

    def __init__(self, sampler: Iterable[int], num_samples: int | None = None) -> None:
        super().__init__(num_samples)
        if not isinstance(sampler, Iterable) or isinstance(sampler, (str, bytes)):
            raise checks.type_error("sampler", sampler, "an iterable of row indices")
        self.sampler = sampler

    def __iter__(self) -> Iterator[int]:
        return iter(self.sampler)


def as_sampler(sampler: SamplerLike) -> Sampler:
    """A sampler, or an iterable of row indices as one; raises GraphTypeError for anything else."""
    if isinstance(sampler, Sampler):
        return sampler
    if isinstance(sampler, (list, tuple, range)):
        return SubsetSampler(sampler)
    return IterSampler(sampler)


class DistributedSampler(BuiltinSampler):
    """The rows of one shard of `num_shards`: every `num_shards`-th, of the shuffled rows with `shuffle`.

    Shards have equally many rows: the last shards continue with the first rows. With an `offset` below `num_shards`
    the first row belongs to shard `offset`, and shards may differ by one row.

    Raises GraphValueError for a `shard_id` that is not below `num_shards` and for an `offset` above that.

    Examples:
        >>> from graphls import dataset as ds
        >>> sampler = ds.DistributedSampler(num_shards=2, shard_id=1, shuffle=False)
        >>> [int(x) for (x,) in ds.NumpySlicesDataset([10, 11, 12, 13], "x", sampler=sampler)]
        [11, 13]
    """

    def __init__(
        self, num_shards: int, shard_id: int, shuffle: bool = True, num_samples: int | None = None, offset: int = -1
    ) -> None:
        super().__init__(num_samples)
        self.num_shards, self.shard_id = checks.shard(num_shards, shard_id)
        self.joined = checks.joined_shards(self.num_shards, self.shard_id)
        self.num_samples = self.num_samples and self.num_samples * self.joined
        self.shuffle = checks.boolean("shuffle", shuffle)
        self.offset = checks.integer("offset", offset, -1)
        if offset > num_shards:
            raise GraphValueError(f"offset is num_shards ({num_shards}) at most, not {offset}.")

    def _positions(self, size: int) -> range:
        """The positions of this shard in the shuffled rows, before they wrap around."""
        step = self.num_shards // self.joined
        if self.offset == -1:
            rounds = -(-size // self.num_shards)
            return range(self.shard_id, rounds * self.num_shards, step)
        first = (self.shard_id - self.offset) % step
        return range(first, size, step)

    def available(self, size: int) -> int:
        return len(self._positions(size))

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        rows = draws.permutation(size).tolist() if self.shuffle else range(size)
        return [rows[i % size] for i in self._positions(size)]


class WeightedRandomSampler(BuiltinSampler):
    """Rows drawn with probabilities in proportion to `weights`; row `i` has weight `i`, rows beyond them none.

    Raises GraphValueError for weights that are negative or all 0, and GraphlsError in a pass over fewer rows than
    there are weights.

    Examples:
        >>> from graphls import dataset as ds
        >>> rows = ds.NumpySlicesDataset([10, 11, 12], "x", sampler=ds.WeightedRandomSampler([0.0, 1.0, 0.0], 3))
        >>> [int(x) for (x,) in rows]
        [11, 11, 11]
    """

    def __init__(self, weights: Sequence[float], num_samples: int | None = None, replacement: bool = True) -> None:
        super().__init__(num_samples)
        self.replacement = checks.boolean("replacement", replacement)
        try:
            self.weights = np.array(weights, np.float64)
        except (TypeError, ValueError):
            raise checks.type_error("weights", weights, "a list of numbers") from None
        total = self.weights.sum()
        if self.weights.ndim != 1 or (self.weights < 0).any() or not (isfinite(total) and total > 0):
            raise GraphValueError("weights is a list of numbers of 0 or more, of which one at least is positive.")

    def available(self, size: int) -> int:
        return size if self.replacement else int(np.count_nonzero(self.weights))

    def _bounded(self, count: int) -> int:
        return self.num_samples if self.replacement and self.num_samples else super()._bounded(count)

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        if len(self.weights) > size:
            raise GraphlsError(f"it has {len(self.weights)} weights for {size} rows")
        count = self._bounded(self.available(size))
        shares = self.weights / self.weights.sum()
        return draws.choice(len(shares), count, self.replacement, shares).tolist()  # type: ignore[no-any-return]


class PKSampler(BuiltinSampler):
    """`num_val` rows of each class, class after class; of `num_class` classes at most.

    The class of a row is its value in `class_column`, which is read once for all rows. With `shuffle` the classes come
    in a random order. Classes with too few rows repeat some of them. A pass raises GraphlsError where the classes of
    the source are unknown.

    Examples:
        >>> from graphls import dataset as ds
        >>> rows = {"label": [0, 1, 0, 1, 1]}
        >>> [int(label) for (label,) in ds.NumpySlicesDataset(rows, sampler=ds.PKSampler(2))]
        [0, 0, 1, 1]
    """

    def __init__(
        self, num_val: int, num_class: int | None = None, shuffle: bool = False, class_column: str = "label",
        num_samples: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__(num_samples)
        self.num_val = checks.integer("num_val", num_val, 1)
        self.num_class = checks.optional_integer("num_class", num_class, 1)
        self.shuffle = checks.boolean("shuffle", shuffle)
        self.class_column = checks.string("class_column", class_column)

    def length(self, size: int) -> int | None:
        return None

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        if labels is None or self.child_sampler is not None:
            raise GraphlsError("PKSampler needs to know the class of every row of the source")
        values = labels(self.class_column)
        classes = np.unique(values)[: self.num_class]
        order = draws.permutation(len(classes)) if self.shuffle else range(len(classes))
        return [index for i in order for index in self._draw_members(np.flatnonzero(values == classes[i]), draws)]

    def _draw_members(self, members: Array, draws: np.random.Generator) -> list[int]:
        return draws.choice(members, self.num_val, len(members) < self.num_val).tolist()  # type: ignore[no-any-return]
