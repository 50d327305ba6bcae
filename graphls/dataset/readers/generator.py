"""Datasets of Python objects: objects with items, generator functions, arrays, rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, tee
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.dataset import checks
from graphls.dataset.checks import Function
from graphls.dataset.columns import Array, Row, Schema, StrPath
from graphls.dataset.pipeline.dataset import Dataset
from graphls.dataset.pipeline.node import Run, Sides
from graphls.dataset.pipeline.workers import DatasetError, Job, described, run_here, trace_of
from graphls.dataset.randomness import Key, RowDraws
from graphls.dataset.readers import sources
from graphls.dataset.readers.sources import ColumnTypes
from graphls.dataset.samplers import Sampler, SamplerLike, as_sampler
from graphls.frontend.tensors.tensor import Tensor


class GeneratorDataset(Dataset):
    """The rows of a Python object.

    `source` has `__getitem__` and `__len__` (read by index, in a new random order in every pass unless `shuffle=False`
    or another sampler), or is a function that returns an iterator, or an iterable. Python's own iterators, such as a
    `zip`, can be read only once, so their items are stored for later passes.

    - `column_names`, or `schema`: the names of the columns; an item is a tuple of as many, or the only column itself.
      `column_types`: the dtypes that the items must have; Python numbers and lists are converted to them.
    - `num_samples`: the most rows of a pass. `num_shards` and `shard_id`: read every `num_shards`-th row only; shards
      are equally long, so the last may continue with the first row.
    - `sampler`: the rows that a pass reads, a sampler of this package or any iterable of row indices. `batch_sampler`:
      lists of row indices; each becomes one row, stacked, or combined by `collate_fn(items)`.
    - `num_parallel_workers` read by index in parallel: processes with `python_multiprocessing`, else threads. The rows
      and their order do not depend on them. `max_rowsize` has no effect, because rows have no limit.

    Raises GraphTypeError and GraphValueError for wrong arguments, and DatasetError in the iteration where the source
    raises, a worker dies, or an item has the wrong number of columns.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> rows = ds.GeneratorDataset([(np.float32(i), i % 2) for i in range(4)], ["x", "label"], shuffle=False)
        >>> rows = rows.map(lambda x: x * 10, input_columns="x").batch(2)
        >>> [(x.tolist(), label.tolist()) for x, label in rows.create_tuple_iterator(output_numpy=True)]
        [([0.0, 10.0], [0, 1]), ([20.0, 30.0], [0, 1])]
    """

    def __init__(
        self, source: object, column_names: Sequence[str] | str | None = None, column_types: ColumnTypes = None,
        schema: Schema | StrPath | None = None, num_samples: int | None = None, num_parallel_workers: int = 1,
        shuffle: bool | None = None, sampler: SamplerLike | None = None, num_shards: int | None = None,
        shard_id: int | None = None, python_multiprocessing: bool = True, max_rowsize: object = None,
        batch_sampler: Iterable[Sequence[int]] | None = None, collate_fn: Function | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.columns, types = sources.announced_columns(column_names, column_types, schema)
        self.row_columns = sources.Columns(self.columns, types)
        self.kind = sources.kind_of(source)
        if self.kind != sources.FUNCTION and sources.is_read_once(source):
            source = sources.Replayable(source)
        self.source: Any = source
        self.workers = checks.workers(num_parallel_workers) or 1
        self.processes = checks.boolean("python_multiprocessing", python_multiprocessing)
        choice = sources.Choice(num_samples, shuffle, sampler, num_shards, shard_id, batch_sampler, collate_fn)
        choice.check(self.kind == sources.ITEMS)
        self.num_samples = num_samples or None
        self.batches: Any = batch_sampler
        self.collate = collate_fn
        self.sampler = choice.new_sampler()

    def joined_shards(self) -> int:
        return self.sampler.joined_shards()

    def use_sampler(self, new_sampler: SamplerLike) -> None:
        """Use another sampler for the rows; raises GraphValueError for a source without random access."""
        self._need_items()
        self.sampler = as_sampler(new_sampler)

    def add_sampler(self, new_sampler: Sampler) -> None:
        """Let a sampler choose among the rows of the present one."""
        self._need_items()
        new_sampler.add_child(self.sampler)
        self.sampler = new_sampler

    def _need_items(self) -> None:
        if self.kind != sources.ITEMS or self.batches is not None:
            raise GraphValueError("A sampler needs a source with __getitem__, and no batch_sampler.")

    @property
    def is_indexed(self) -> bool:
        return self._fixed_length() is not None

    def length(self) -> float:
        length = self._fixed_length()
        assert length is not None
        return length

    def _fixed_length(self) -> int | None:
        if self.kind != sources.ITEMS or self.batches is not None:
            return None
        return self.sampler.length(self._source_size())

    def _source_size(self) -> int:
        try:
            return len(self.source)
        except Exception as error:
            text = f"The source of {type(self).__name__} does not know its length: {described(error)}."
            raise DatasetError(text, self.location, trace_of(error)) from error

    def size(self) -> float:
        if self.kind == sources.ITEMS and self.batches is not None and hasattr(self.batches, "__len__"):
            return len(self.batches)
        return super().size()

    def _count(self, epoch: int, most: int | None) -> int:
        return len(Run(self).order(self, epoch)) if self.kind == sources.ITEMS else super()._count(epoch, most)

    def order(self, draws: np.random.Generator) -> Sequence[Any]:
        """The indices of the rows of a pass, or lists of them."""
        try:
            if self.batches is not None:
                return list(self.batches)
            return self.sampler.order(self._source_size(), draws, self._labels)
        except DatasetError:
            raise
        except Exception as error:
            name = "batch_sampler" if self.batches is not None else type(self.sampler).__name__
            raise DatasetError(f"{name} failed: {described(error)}.", self.location, trace_of(error)) from error

    def _labels(self, column: str) -> Array:
        """The values of a column in all rows of the source."""
        (position,) = self.need((column,), "class_column")
        reader = sources.Reader(self.source, self.row_columns)
        return np.array([reader(index)[position] for index in range(self._source_size())])

    def job(self) -> Job:
        what = f"The source of {type(self).__name__}"
        if self.kind != sources.ITEMS:
            return Job(self.row_columns, 1, False, what, self.location)
        reader: Callable[[Any], Row] = sources.Reader(self.source, self.row_columns)
        if self.batches is not None:
            reader = sources.BatchReader(self.source, self.row_columns, self.collate)
        return Job(reader, self.workers, self.processes, what, self.location)

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        own, positions = tee(indices)
        return run.each(self, epoch, zip(own, map(run.order(self, epoch).__getitem__, positions), strict=False))

    def sides(self, run: Run, epoch: int, groups: Iterable[range], in_one: bool) -> Iterator[Sides]:
        if self.workers > 1:
            return super().sides(run, epoch, groups, in_one)
        return self._sides(run.key(self, epoch), run.order(self, epoch), groups)

    def _sides(self, key: Key, order: Sequence[Any], groups: Iterable[range]) -> Iterator[Sides]:
        """The columns of groups, without making rows of them first, which would take twice as long."""
        enter, source, job = RowDraws(key).enter, self.source, self.job()
        converting = replace(job, function=self.row_columns)
        for group in groups:
            items: list[Any] = []
            try:
                for row in group:
                    enter(row)
                    items.append(source[order[row]])
            except Exception as error:
                list(run_here(converting, key, zip(group, items, strict=False)))  # an earlier row may fail, too
                raise job.failure(group[len(items)], described(error), trace_of(error)) from error
            sides = self.row_columns.side_by_side(items)
            yield sides or tuple(zip(*run_here(converting, key, zip(group, items, strict=True)), strict=True))

    def _scan(self, run: Run, epoch: int, start: int) -> Iterator[Row]:
        if self.kind == sources.ITEMS:
            return self.rows(run, epoch, range(start, len(run.order(self, epoch))))
        items = islice(enumerate(self._items(epoch)), start, self.num_samples)
        return run.each(self, epoch, items)

    def _items(self, epoch: int) -> Iterator[Any]:
        """The items of the function or the iterable; raises DatasetError for its errors."""
        try:
            yield from self._pass(epoch)
        except Exception as error:
            job = self.job()
            text = f"{job.what} failed: {described(error)}."
            raise DatasetError(text, job.location, trace_of(error)) from error

    def _pass(self, epoch: int) -> Iterator[Any]:
        return iter(self.source() if self.kind == sources.FUNCTION else self.source)


class Slices:
    """Arrays, indexed together along their first axes."""

    def __init__(self, arrays: tuple[Array, ...]) -> None:
        self.arrays = arrays

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple([array[index, ...] for array in self.arrays])

    def __len__(self) -> int:
        return len(self.arrays[0])


class NumpySlicesDataset(GeneratorDataset):
    """The elements of arrays along their first axes.

    `data` is one array or list, a tuple of several, or a dict of them by column name; columns without names are called
    `column_0` and so on. The other arguments are those of `GeneratorDataset`. Raises GraphTypeError and GraphValueError
    for data without a first axis, or of different sizes.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> rows = ds.NumpySlicesDataset({"x": np.arange(6), "y": np.arange(6) ** 2}, shuffle=False).skip(1).batch(2)
        >>> [batch["y"].tolist() for batch in rows.create_dict_iterator(output_numpy=True)]
        [[1, 4], [9, 16], [25]]
    """

    def __init__(
        self, data: object, column_names: Sequence[str] | str | None = None, num_samples: int | None = None,
        num_parallel_workers: int = 1, shuffle: bool | None = None, sampler: SamplerLike | None = None,
        num_shards: int | None = None, shard_id: int | None = None,
    ) -> None:  # fmt: skip
        columns = tuple(data.values()) if isinstance(data, dict) else data if isinstance(data, tuple) else (data,)
        arrays = tuple(map(_array, columns))
        if len({len(array) for array in arrays}) != 1:
            raise GraphValueError(f"Data length in each column is not equal: {[len(array) for array in arrays]}.")
        names = column_names
        if names is None:
            names = list(data) if isinstance(data, dict) else [f"column_{i}" for i in range(len(arrays))]
        if len(checks.names("column_names", names)) != len(arrays):
            raise GraphValueError(f"column_names has {len(names)} names for {len(arrays)} columns.")
        super().__init__(
            Slices(arrays), names, None, None, num_samples, num_parallel_workers, shuffle, sampler, num_shards,
            shard_id, python_multiprocessing=False,
        )  # fmt: skip


def _array(data: object) -> Array:
    try:
        array = data.asnumpy() if isinstance(data, Tensor) else np.asarray(data)
    except ValueError:
        raise GraphValueError("The rows of a column must have the same shape.") from None
    if array.ndim == 0 or array.dtype.kind == "O":
        raise checks.type_error("data", data, "an array or a list for each column")
    return array


class PaddedDataset(GeneratorDataset):
    """Rows as dicts by column name, such as those that fill a dataset up to a size that can be divided into shards.

    Raises GraphValueError for no rows and for rows of different columns.

    Examples:
        >>> from graphls import dataset as ds
        >>> rows = ds.NumpySlicesDataset({"x": [1, 2, 3]}, shuffle=False) + ds.PaddedDataset([{"x": 0}])
        >>> [int(x) for (x,) in rows]
        [1, 2, 3, 0]
    """

    def __init__(self, padded_samples: list[dict[str, object]]) -> None:
        if not isinstance(padded_samples, list) or not all(isinstance(row, dict) for row in padded_samples):
            raise checks.type_error("padded_samples", padded_samples, "a list of dicts")
        if not padded_samples:
            raise GraphValueError("padded_samples has no rows.")
        names = list(padded_samples[0])
        for row in padded_samples:
            if list(row) != names:
                raise GraphValueError(f"All of padded_samples have the same columns, not {names} and {list(row)}.")
        super().__init__([tuple(row.values()) for row in padded_samples], names, shuffle=False)
