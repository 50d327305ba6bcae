"""Dataset, the base of all datasets: iteration over rows, and methods that build further nodes.

The nodes are classes of modules that import this one; each registers the method that creates it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, TypeVar

import numpy as np

from graphls.base.errors import GraphAttributeError, GraphIndexError, GraphTypeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.base.text.html import Page
from graphls.base.text.plain import shown
from graphls.base.text.tables import Table
from graphls.dataset import checks
from graphls.dataset.checks import Function, boolean, integer
from graphls.dataset.pipeline.iterators import DatasetIterator, Finish, dict_finisher, list_finisher
from graphls.dataset.pipeline.node import Node
from graphls.ir.registry import nearest

Names = Sequence[str] | str | None
PadInfo = dict[str, Any]
"""(shape, value) by the name of a column, None for the size of the batch or the zero of the dtype."""
Maker = TypeVar("Maker", bound=Function)

_makers: dict[str, Function] = {}


def node_of(method: str) -> Callable[[Maker], Maker]:
    """Register a class or function of nodes, which a method of datasets calls with itself and its arguments."""

    def registered(node_class: Maker) -> Maker:
        _makers[method] = node_class
        return node_class

    return registered


def _node(method: str, *arguments: object) -> Dataset:
    node: Dataset = _makers[method](*arguments)
    return node


class Dataset(Node):
    """A node of a pipeline, which users iterate over, index, and build further nodes on.

    Examples:
        >>> from graphls import dataset as ds
        >>> rows = ds.NumpySlicesDataset({"x": [1, 2, 3, 4], "y": [5, 6, 7, 8]}, shuffle=False)
        >>> rows = rows.map(lambda x: x * 10, "x").batch(2)
        >>> for row in rows.create_dict_iterator(output_numpy=True):
        ...     print(row["x"], row["y"])
        [10 20] [5 6]
        [30 40] [7 8]
        >>> rows.get_dataset_size(), rows.output_shapes()
        (2, [[2], [2]])
    """

    children: tuple[Dataset, ...]

    def __repr__(self) -> str:
        return f"<{headline(self)}>"

    def __str__(self) -> str:
        return text_of(self)

    def _repr_html_(self) -> str:
        return page_of(self)

    def batch(
        self, batch_size: int | Callable[..., int], drop_remainder: bool = False,
        num_parallel_workers: int | None = None, *, input_columns: Names = None, output_columns: Names = None,
        per_batch_map: Function | None = None, column_order: Names = None, pad_info: PadInfo | None = None,
        python_multiprocessing: bool = False, max_rowsize: object = None,
    ) -> Dataset:  # fmt: skip
        """Stack `batch_size` rows into one, column by column.

        `batch_size` may be a function of a BatchInfo. The last batch is smaller, or left out with `drop_remainder`.
        `per_batch_map(*columns, batch_info)` gets each of `input_columns` (all by default) as a list of arrays and
        returns a list of arrays, or one stacked array, for each of `output_columns`. Raises GraphTypeError and
        GraphValueError for wrong arguments, and DatasetError in the iteration where rows differ in shape or dtype.
        """
        node = _node(
            "batch", self, batch_size, drop_remainder, num_parallel_workers, per_batch_map, input_columns,
            output_columns, pad_info, python_multiprocessing,
        )  # fmt: skip
        return node if column_order is None else node.project(column_order)

    def padded_batch(
        self, batch_size: int | Callable[..., int], drop_remainder: bool = False,
        num_parallel_workers: int | None = None, pad_info: PadInfo | None = None,
    ) -> Dataset:  # fmt: skip
        """Stack rows whose shapes differ, each padded at its end.

        `pad_info` gives (shape, value) by column name; None in a shape, or for it, is the largest size of the batch.
        Without `pad_info` all columns are padded so, with zeros.
        """
        info = {} if pad_info is None else pad_info
        return self.batch(batch_size, drop_remainder, num_parallel_workers, pad_info=info)

    def map(
        self, operations: Function | Sequence[Function], input_columns: Names = None, output_columns: Names = None,
        column_order: Names = None, num_parallel_workers: int | None = None, python_multiprocessing: bool = False,
        cache: object = None, callbacks: object = None, max_rowsize: object = None, offload: bool | None = None,
    ) -> Dataset:  # fmt: skip
        """Replace columns by the results of a function, or of several functions in sequence.

        The first function gets `input_columns` (by default the first column) as arrays, each other one the results of
        the one before it. As many result columns as input columns replace these, else they come first, with the names
        `output_columns`. Workers are threads, or processes with
        `python_multiprocessing`; they change nothing but the time. `max_rowsize` and `offload` have no effect.
        Raises GraphTypeError and GraphValueError for wrong arguments, and for `cache` and `callbacks`, which are not
        offered.
        """
        for key, value in (("dataset caches", cache), ("map callbacks", callbacks)):
            if value is not None:
                raise GraphTypeError(refusal(key))
        node = _node(
            "map", self, operations, input_columns, output_columns, num_parallel_workers, python_multiprocessing
        )
        return node if column_order is None else node.project(column_order)

    def filter(
        self, predicate: Function, input_columns: Names = None, num_parallel_workers: int | None = None
    ) -> Dataset:
        """Keep the rows for which `predicate(*columns)` is true; it gets `input_columns`, by default all."""
        return _node("filter", self, predicate, input_columns, num_parallel_workers)

    def shuffle(self, buffer_size: int) -> Dataset:
        """Draw each row at random from the next `buffer_size` ones; every pass in another order."""
        return _node("shuffle", self, buffer_size)

    def repeat(self, count: int | None = None) -> Dataset:
        """The rows `count` times, each time in a new order where they are shuffled; for ever with None or -1."""
        return _node("repeat", self, count)

    def skip(self, count: int) -> Dataset:
        """All rows but the first `count`."""
        return _node("skip", self, count)

    def take(self, count: int = -1) -> Dataset:
        """The first `count` rows; all with -1."""
        return _node("take", self, count)

    def zip(self, datasets: Dataset | tuple[Dataset, ...]) -> Dataset:
        """Join the columns of this dataset and of others side by side, up to the length of the shortest."""
        others = datasets if isinstance(datasets, (tuple, list)) else (datasets,)
        return _node("zip", (self, *others))

    def concat(self, datasets: Dataset | Sequence[Dataset]) -> Dataset:
        """Append the rows of other datasets with the same columns."""
        others = datasets if isinstance(datasets, (tuple, list)) else (datasets,)
        return _node("concat", (self, *others))

    def rename(self, input_columns: Sequence[str] | str, output_columns: Sequence[str] | str) -> Dataset:
        """The same rows with other names for some columns."""
        return _node("rename", self, input_columns, output_columns)

    def project(self, columns: Sequence[str] | str) -> Dataset:
        """Some of the columns, in this order."""
        return _node("project", self, columns)

    def split(self, sizes: Sequence[int] | Sequence[float], randomize: bool = True) -> list[Dataset]:
        """Split the rows into parts by their sizes, which add up to all, or by fractions, which add up to 1.

        With `randomize` rows are distributed at random, by the seed and the same in every pass. Raises GraphTypeError
        and GraphValueError for sizes that do not fit.
        """
        parts: list[Dataset] = _makers["split"](self, sizes, randomize)
        return parts

    def bucket_batch_by_length(
        self, column_names: Sequence[str] | str, bucket_boundaries: Sequence[int], bucket_batch_sizes: Sequence[int],
        element_length_function: Callable[..., int] | None = None, pad_info: PadInfo | None = None,
        pad_to_bucket_boundary: bool = False, drop_remainder: bool = False,
    ) -> Dataset:  # fmt: skip
        """Batch rows of similar length: bucket `i` has those below boundary `i`, and a batch size of its own.

        The length is the first axis of the one named column, or the result of `element_length_function(*columns)`. A
        bucket becomes a batch when it is full, remaining rows at the end. With `pad_to_bucket_boundary` open sizes of
        `pad_info` become the boundary less 1. Raises GraphTypeError and GraphValueError for wrong arguments.
        """
        return _node("bucket_batch_by_length",
            self, column_names, bucket_boundaries, bucket_batch_sizes, element_length_function, pad_info,
            pad_to_bucket_boundary, drop_remainder,
        )  # fmt: skip

    def apply(self, apply_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Call a function on this dataset and return its result; raises GraphTypeError unless that is a dataset."""
        result: object = checks.function("apply_func", apply_func)(self)
        if not isinstance(result, Dataset):
            raise GraphTypeError(f"apply_func gives a dataset, not {result!r}.")
        return result

    @property
    def dataset_size(self) -> int:
        """The result of `get_dataset_size()`."""
        return self.get_dataset_size()

    def output_shapes(self, estimate: bool = False) -> list[list[int]]:
        """The shapes of the columns of the first row; [0] of a dict."""
        return [[0] if type(item) is dict else list(item.shape) for item in self._row(0, list)]

    def output_types(self) -> list[np.dtype[Any]]:
        """The NumPy dtypes of the columns of the first row; object of a dict."""
        return [np.dtype(object) if type(item) is dict else item.dtype for item in self._row(0, list)]

    def _row(self, index: int, finish: Finish) -> list[Any]:
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
        return DatasetIterator(node, _passes(num_epochs), self._next_position(), finish)

    def create_dict_iterator(
        self, num_epochs: int = -1, output_numpy: bool = False, do_copy: bool = False
    ) -> DatasetIterator:
        """An iterator whose rows are dicts of tensors by column name; see `create_tuple_iterator`.

        Raises GraphValueError for a `num_epochs` that is neither 1 or more nor -1.
        """
        finish = dict_finisher(self.columns, boolean("output_numpy", output_numpy), boolean("do_copy", do_copy))
        return DatasetIterator(self, _passes(num_epochs), self._next_position(), finish)

    def set_init_step(self, init_step: int) -> None:
        """Start the next iterator as if `init_step` of its rows had been read: in a later pass, at a later row.

        Where the number of rows depends on the data, as after `filter`, earlier passes run once to be counted.
        Raises GraphTypeError or GraphValueError for anything but an integer of 0 or more.
        """
        self._init_step = integer("init_step", init_step, 0, inf)

    def get_init_step(self) -> int:
        """The number of rows that the next iterator skips."""
        return self._init_step

    def _next_position(self) -> tuple[int, int]:
        """The pass and the row at which the next iterator starts."""
        step, self._init_step = self._init_step, 0
        if step == 0:
            return 0, 0
        size = self.size()
        if size == 0:
            raise GraphValueError("A dataset without rows has no step to start at.")
        if size == inf:
            return 0, step
        return divmod(step, int(size)) if self.is_indexed else self._position_by_counting(step)

    def _position_by_counting(self, step: int) -> tuple[int, int]:
        """The pass and the row of a step of a node whose passes may differ in length; earlier passes are counted."""
        epoch = 0
        while (rows := self._rows_of(epoch, step + 1)) <= step:
            epoch, step = epoch + 1, step - rows
        return epoch, step

    def reset(self) -> None:
        """Start the next iterator at the first row."""
        self._init_step = 0

    def __iter__(self) -> DatasetIterator:
        return self.create_tuple_iterator(num_epochs=1)

    def __len__(self) -> int:
        return self.get_dataset_size()

    def __getitem__(self, index: int) -> list[Any]:
        """A row of the first pass, as of `create_tuple_iterator`; rows before it are computed only if necessary.

        Raises GraphIndexError outside of the rows.
        """
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise GraphTypeError(f"The rows of a dataset have integers as indices, not {index!r}.")
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


def _passes(num_epochs: int) -> int:
    count = integer("num_epochs", num_epochs, -inf, inf)
    if count < 1 and count != -1:
        raise GraphValueError(f"num_epochs is 1 or more, or -1 for any number, not {num_epochs}.")
    return count


HEADER = ("node", "columns", "line", "rows")
MOST_NODES = 60
"""The largest number of listed nodes."""


def headline(node: Node) -> str:
    """A dataset in one line, without making a row."""
    columns = ", ".join(map(shown, node.columns)) or "no columns"
    return f"{type(node).__name__}: {columns}; {_rows(node)}"


def text_of(node: Node) -> str:
    """A dataset as a table of its nodes, the last of the pipeline first."""
    return "\n".join([headline(node), "", *_table(node).lines()])


def page_of(node: Node) -> str:
    """The same table as HTML."""
    page = Page("Dataset", headline(node))
    _table(node).add_to(page)
    return page.text()


def _table(node: Node) -> Table:
    nodes = list(_with_descendants(node, 0))
    rows = [_row(each, depth) for each, depth in nodes[:MOST_NODES]]
    rest = [(f"({len(nodes) - MOST_NODES} more)", "", "", "")] if len(nodes) > MOST_NODES else []
    return Table(HEADER, [*rows, *rest], texts=3)


def _with_descendants(node: Node, depth: int) -> Iterator[tuple[Node, int]]:
    """A node and all nodes below it with their depth; only several children are indented."""
    yield node, depth
    for child in node.children:
        yield from _with_descendants(child, depth + (len(node.children) > 1))


def _row(node: Node, depth: int) -> tuple[str, ...]:
    location = "" if node.location is None else f"{node.location.file}:{node.location.line}"
    columns = ", ".join(map(shown, node.columns))
    return "  " * depth + type(node).__name__, columns, shown(location), _rows(node).removesuffix(" rows")


def _rows(node: Node) -> str:
    """The number of rows of a pass, if it is known without one, as text."""
    if not node.is_indexed:
        return "rows are counted by a pass"
    length = node.length()
    return "rows without end" if length == inf else f"{int(length):,} row{'s' * (length != 1)}"
