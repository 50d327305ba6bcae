"""In which order rows of several files come, and which of them a shard has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from graphls.dataset.checks import type_error
from graphls.dataset.samplers import BuiltinSampler, Labels

Array = np.ndarray[Any, Any]


class Shuffle(str, Enum):
    """What readers of several files shuffle: everything, the order of the files, or the rows of each file.

    PARTIAL and ADAPTIVE, which shuffle in ranges where rows are many, shuffle everything.

    Examples:
        >>> from graphls import dataset as ds
        >>> ds.Shuffle.FILES
        <Shuffle.FILES: 'files'>
    """

    FALSE = "false"
    GLOBAL = "global"
    FILES = "files"
    INFILE = "infile"
    PARTIAL = "partial"
    ADAPTIVE = "adaptive"

    __str__ = str.__str__


def shuffle_of(value: object) -> Shuffle:
    """What is shuffled, for True and None everything; raises GraphTypeError for anything but a bool or a Shuffle."""
    if isinstance(value, Shuffle):
        return value
    if value is not None and not isinstance(value, bool):
        raise type_error("shuffle", value, [bool, Shuffle])
    return Shuffle.FALSE if value is False else Shuffle.GLOBAL


class FileSampler(BuiltinSampler):
    """Rows of files of these `lengths`, as far as they are in a shard.

    `num_shards` shards have equally many rows, one after the other or, with `is_dealt`, every `num_shards`-th row each;
    the last begin again at the first row. With `by_file` they have every `num_shards`-th file instead. `workers` read
    files in rotation: each gives a row in its turn, and goes on with its next file when one ends.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        shuffle: Shuffle,
        shard: tuple[int, int] | None = None,
        num_samples: int | None = None,
        workers: int = 1,
        by_file: bool = False,
        is_dealt: bool = False,
    ) -> None:
        super().__init__(num_samples)
        self.shuffle, self.workers, self.is_dealt = shuffle, workers, is_dealt
        ends = np.cumsum(lengths)
        files = [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]
        self.files = files[shard[1] :: shard[0]] if shard and by_file else files
        self.shard = None if by_file else shard

    def available(self, size: int) -> int:
        count = sum(map(len, self.files))
        return count if self.shard is None else -(-count // self.shard[0])

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        files = self._shuffled(draws)
        rows: list[int] = interleaved(files if self.shard is None else self._shared(files), self.workers).tolist()
        return rows

    def _shuffled(self, draws: np.random.Generator) -> list[Array]:
        if self.shuffle is Shuffle.FALSE:
            return self.files
        if self.shuffle is Shuffle.FILES:
            return [self.files[i] for i in draws.permutation(len(self.files))]
        if self.shuffle is Shuffle.INFILE:
            return [draws.permutation(rows) for rows in self.files]
        rows = np.concatenate(self.files)
        return [rows[draws.permutation(len(rows))]]

    def _shared(self, files: list[Array]) -> list[Array]:
        """The parts of files that belong to the shard."""
        assert self.shard is not None
        (count, index), rows = self.shard, np.concatenate(files)
        size = -(-len(rows) // count)
        first, step = (index, count) if self.is_dealt else (index * size, 1)
        positions = (first + step * np.arange(size)) % len(rows)
        file_of_row = np.repeat(np.arange(len(files)), [len(file) for file in files])[positions]
        is_new = (np.diff(file_of_row) != 0) | (np.diff(positions) < 0)
        return np.split(rows[positions], np.flatnonzero(is_new) + 1)


def interleaved(files: Sequence[Array], workers: int) -> Array:
    """The rows of files, one of each worker in turn as long as it has some; worker `i` reads each `workers`-th file."""
    queues = [np.concatenate(files[worker::workers]) for worker in range(min(workers, len(files)))]
    turns = np.concatenate([np.arange(len(queue)) for queue in queues])
    rows: Array = np.concatenate(queues)[np.argsort(turns, kind="stable")]
    return rows
