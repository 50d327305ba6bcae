"""The base of all nodes of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import copy_context
from itertools import chain, count, islice, tee
from math import inf
from typing import Any

import numpy as np

from graphls.dataset.checks import boolean, integer, names_among
from graphls.dataset.columns import Row
from graphls.dataset.pipeline.iterators import DatasetIterator, dict_finisher, list_finisher
from graphls.dataset.pipeline.operations import Operations
from graphls.dataset.pipeline.run import Run
from graphls.dataset.pipeline.workers import Job
from graphls.ir.errors import GraphAttributeError, GraphIndexError, GraphTypeError, GraphValueError
from graphls.ir.location import user_location
from graphls.ir.registry import nearest


class Dataset(Operations):
    """A node of a pipeline: rows of named columns, made of the rows of other nodes or read from somewhere.

    Nodes do not change while they are iterated, so that a node may have any number of consumers. A pass over a node has
    a number, its epoch; what it gives is a function of the seed, the node and the epoch. A kind of node says:

    - `columns`: the names of its columns.
    - `stream(run, epoch, start)`: the rows of a pass from number `start` on, making as few of those before as it can.
    - if `is_indexed`: `length()` rows, any of which `rows(run, epoch, indices)` makes without the others.
    """

    def __init__(self, *children: Dataset) -> None:
        self.children = children
        self.columns: tuple[str, ...] = children[0].columns if children else ()
        self.location = user_location()
        self._init_step = 0
        self._counted: int | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether any row can be made without those before, and the number of rows is known."""
        return False

    def length(self) -> float:
        """The number of rows of a pass of an indexed node; infinite for one that repeats for ever."""
        raise NotImplementedError

    def rows(self, run: Run, epoch: int, indices: Iterable[int]) -> Iterator[Row]:
        """The rows of these numbers, of an indexed node."""
        raise NotImplementedError

    def sides(self, run: Run, epoch: int, groups: Iterable[range]) -> Iterator[tuple[Any, ...]]:
        """For each group of rows of an indexed node its columns: the items of one side by side, or in one array."""
        sizes, numbers = tee(groups)
        rows = self.rows(run, epoch, chain.from_iterable(numbers))
        for group in sizes:
            yield tuple(zip(*islice(rows, len(group)), strict=True))
        next(rows, None)  # their end, where the pools of workers are given back for the next pass

    def stream(self, run: Run, epoch: int, start: int = 0) -> Iterator[Row]:
        """The rows of a pass from number `start` on."""
        length = self.length()
        return self.rows(run, epoch, count(start) if length == inf else range(start, int(length)))

    def order(self, draws: np.random.Generator) -> Any:
        """The order of a pass, for nodes that have one; `Run.order` asks once for each pass."""
        raise NotImplementedError

    def job(self) -> Job | None:
        """What user code does to every row, for nodes that have some."""
        return None

    def size(self) -> float:
        """The number of rows of a pass, which a node that is not indexed finds by making them all once."""
        if self.is_indexed:
            return self.length()
        if self._counted is None:
            self._counted = self._rows_of(0)
        return self._counted

    def _rows_of(self, epoch: int, most: int | None = None) -> int:
        """How many rows a pass has, found by making them, as far as there are not more than `most`."""
        return copy_context().run(self._count, epoch, most)

    def _count(self, epoch: int, most: int | None) -> int:
        run = Run(self)
        try:
            return sum(1 for _ in islice(self.stream(run, epoch), most))
        finally:
            run.close()

    def get_dataset_size(self) -> int:
        """The number of rows of a pass; of a dataset that repeats for ever, of one round.

        Where the number depends on the data, as after `filter`, the pipeline runs once to count.
        """
        size = self.size()
        return int(size) if size != inf else self.children[0].get_dataset_size()

    def get_batch_size(self) -> int:
        """The number of rows in a batch; 1 where the pipeline makes none."""
        return self.children[0].get_batch_size() if self.children else 1

    def get_repeat_count(self) -> int:
        """How often `repeat` gives the rows below it; 1 where the pipeline has none."""
        return self.children[0].get_repeat_count() if self.children else 1

    def get_col_names(self) -> list[str]:
        """The names of the columns."""
        return list(self.columns)

    def num_classes(self) -> int | None:
        """The number of classes, where the kind of dataset knows it."""
        return self.children[0].num_classes() if self.children else None

    def get_class_indexing(self) -> dict[str, Any]:
        """The number of each class, where the kind of dataset knows it."""
        return self.children[0].get_class_indexing() if self.children else {}

    @property
    def dataset_size(self) -> int:
        """What `get_dataset_size()` gives."""
        return self.get_dataset_size()

    def output_shapes(self, estimate: bool = False) -> list[list[int]]:
        """The shapes of the columns of the first row."""
        return [list(array.shape) for array in self._row(0, list)]

    def output_types(self) -> list[np.dtype[Any]]:
        """The NumPy dtypes of the columns of the first row."""
        return [array.dtype for array in self._row(0, list)]

    def _row(self, index: int, finish: Callable[[Row], list[Any]]) -> list[Any]:
        """A row of the first pass; an empty list where there is none."""
        iterator = DatasetIterator(self, 1, (0, index), finish, limit=1)
        try:
            return next(iterator, [])
        finally:
            iterator.stop()

    def create_tuple_iterator(
        self, columns: Sequence[str] | str | None = None, num_epochs: int = -1, output_numpy: bool = False,
        do_copy: bool = False,
    ) -> DatasetIterator:  # fmt: skip
        """An iterator whose rows are lists of tensors, or of arrays with `output_numpy`; `columns` picks some.

        Each `iter()` of it is one pass, `num_epochs` at most (-1: any number). Text and bytes are always arrays.
        `do_copy` copies rows that may share memory with their source. Raises GraphValueError for a column that is
        missing and for a wrong number of passes.
        """
        node = self if columns is None else self.project(columns)
        finish = list_finisher(boolean("output_numpy", output_numpy), boolean("do_copy", do_copy))
        return DatasetIterator(node, _passes(num_epochs), self._take_position(), finish)

    def create_dict_iterator(
        self, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = False
    ) -> DatasetIterator:
        """An iterator whose rows are dicts of tensors by column name; see `create_tuple_iterator`."""
        finish = dict_finisher(self.columns, boolean("output_numpy", output_numpy), boolean("do_copy", do_copy))
        return DatasetIterator(self, _passes(num_epochs), self._take_position(), finish)

    def set_init_step(self, init_step: int) -> None:
        """Let the next iterator start as if `init_step` of its rows had been taken: in a later pass, at a later row.

        Where the number of rows depends on the data, as after `filter`, the passes before run once to be counted.
        Raises GraphTypeError or GraphValueError for anything but an integer of 0 or more.
        """
        self._init_step = integer("init_step", init_step, 0, inf)

    def get_init_step(self) -> int:
        """The number of rows that the next iterator skips."""
        return self._init_step

    def _take_position(self) -> tuple[int, int]:
        """The pass and the row that the next iterator starts at."""
        step, self._init_step = self._init_step, 0
        if step == 0:
            return 0, 0
        size = self.size()
        if size == 0:
            raise GraphValueError("A dataset without rows has no step to start at.")
        if size == inf:
            return 0, step
        return divmod(step, int(size)) if self.is_indexed else self._walked(step)

    def _walked(self, step: int) -> tuple[int, int]:
        """The pass and the row of a step of a node whose passes may differ in length: each is made to be counted."""
        epoch = 0
        while (rows := self._rows_of(epoch, step + 1)) <= step:
            epoch, step = epoch + 1, step - rows
        return epoch, step

    def reset(self) -> None:
        """Let the next iterator start at the first row."""
        self._init_step = 0

    def __iter__(self) -> DatasetIterator:
        return self.create_tuple_iterator(num_epochs=1)

    def __len__(self) -> int:
        return self.get_dataset_size()

    def __getitem__(self, index: int) -> list[Any]:
        """A row of the first pass, as `create_tuple_iterator` gives it; rows before it are made only where they must.

        Raises GraphIndexError outside of the rows.
        """
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise GraphTypeError(f"The rows of a dataset have integers as numbers, not {index!r}.")
        size = self.get_dataset_size()
        if not -size <= index < size:
            raise GraphIndexError(f"Row {index} is outside of the {size} rows of this dataset.")
        return self._row(int(index) % size, list_finisher(False, False))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise GraphAttributeError(f"A dataset has no {name!r}{nearest(name, dir(type(self)))}.")

    def __add__(self, other: Dataset) -> Dataset:
        return self.concat(other)

    def need(self, names: Iterable[str], what: str) -> tuple[int, ...]:
        """The positions of columns; raises GraphValueError for one that is missing."""
        return names_among(tuple(names), self.columns, what)


def _passes(num_epochs: Any) -> int:
    count = integer("num_epochs", num_epochs, -inf, inf)
    if count < 1 and count != -1:
        raise GraphValueError(f"num_epochs is 1 or more, or -1 for any number, not {num_epochs}.")
    return count
