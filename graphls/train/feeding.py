"""Conversion of datasets, lists and loaders to the arrays that a training step takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property, lru_cache
from inspect import signature
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.foreign import offers_array
from graphls.frontend.tensors.tensor import Tensor, array_of
from graphls.ir.types import Type, as_dtype
from graphls.nn.cell import Cell, input_names
from graphls.train.flow import CountedRows, Flow, Row

REQUIRED = "get_dataset_size", "create_tuple_iterator"
"""The methods of a dataset."""


class Batches:
    """The batches of a list, of a loader, or of a generator function, which is called for each epoch.

    A function, and a loader without a length, is iterated once more to count its batches. A batch is a tuple or
    list of columns, a dict of them, in its order, or a single array.
    """

    def __init__(self, source: Any) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Sequence[Any]]:
        return map(_columns, self._epoch())

    def _epoch(self) -> Iterable[Any]:
        batches: Iterable[Any] = self.source() if _is_function(self.source) else self.source
        return batches

    @cached_property
    def _size(self) -> int:
        try:
            return len(self.source)
        except TypeError:  # which loaders of torch raise, too, whose dataset has no length
            return sum(1 for _ in self._epoch())

    def get_dataset_size(self) -> int:
        """The number of batches in an epoch."""
        return self._size

    def create_tuple_iterator(self) -> Batches:
        """Itself, as each iteration is an epoch."""
        return self


def as_dataset(owner: str, source: Any) -> Any:
    """A dataset as it is, and other sources of batches as one; raises GraphTypeError for anything else."""
    missing = [name for name in REQUIRED if not callable(getattr(source, name, None))]
    if not missing:
        return source
    if isinstance(source, Iterator):
        raise GraphTypeError(
            f"{owner} goes through its batches more than once, and this {type(source).__name__} gives them once; give "
            "the function that makes it, or a list.",
        )
    if _package(source) in ("datasets", "pyarrow"):
        return _of_tables(owner, source)
    if _is_function(source) or _is_loader(source):
        return Batches(source)
    raise GraphTypeError(
        f"{owner} takes a dataset, and {type(source).__name__} has no {missing[0]}(); it may also be a list of "
        "batches, a loader, or a generator function.",
    )


def _package(source: object) -> str:
    """The package that defines the class of an object."""
    return type(source).__module__.partition(".")[0]


def _of_tables(owner: str, source: Any) -> Any:
    """A table or a dataset of Hugging Face, whose rows are batches, as a dataset; raises GraphValueError for others."""
    from graphls.dataset.readers.arrow import ArrowDataset

    dataset = ArrowDataset(source, shuffle=False)
    if [] in dataset.output_shapes():
        name = dataset.columns[dataset.output_shapes().index([])]
        raise GraphValueError(
            f"{owner} takes a batch from each row, and a row of this {type(source).__name__} is one example (its "
            f"{name!r} has no axis); give graphls.dataset.ArrowDataset(...).batch(32).",
        )
    return dataset


def column_advice(dataset: object) -> str:
    """The advice for a list of arrays meant as columns, which is as many batches of one column each."""
    source = dataset.source if isinstance(dataset, Batches) else None
    if not isinstance(source, (list, tuple)) or not all(map(offers_array, source)):
        return ""
    return "; each array of (x, y) is a batch, and [(x, y)] is one batch of two columns"


def _is_loader(source: object) -> bool:
    is_other = isinstance(source, (str, bytes, Mapping, Set)) or offers_array(source)
    return isinstance(source, Iterable) and not is_other


def _is_function(source: object) -> bool:
    return callable(source) and not isinstance(source, (type, Iterable))


def _columns(batch: Any) -> Sequence[Any]:
    """The columns of a batch; raises GraphTypeError for anything else."""
    if isinstance(batch, Mapping):
        return tuple(batch.values())
    if isinstance(batch, (tuple, list)):
        return batch
    if _package(batch) == "pyarrow":
        from graphls.dataset.readers.arrow import arrays_of

        return tuple(arrays_of(batch).values())
    if not offers_array(batch):
        raise GraphTypeError(f"A batch is an array, or a tuple, list or dict of arrays, not {type(batch).__name__}.")
    return (batch,)


SEVERAL_INPUTS = (
    "; for a network of several inputs, pass a cell or function that takes all columns and returns the loss, without "
    "loss_fn: Model(cell, optimizer=optimizer)"
)
NO_DATA = "There is no valid data in dataset, please check dataset file firstly."


def steps_of_epoch(owner: str, dataset: object) -> int:
    """The number of steps in an epoch of a dataset or another source of batches.

    Raises GraphTypeError for anything else, GraphValueError for one without data.
    """
    size = int(as_dataset(owner, dataset).get_dataset_size())
    if size <= 0:
        raise GraphValueError(NO_DATA)
    return size


def first_step(dataset: object) -> int:
    """The number of steps before the dataset's next one, as set by `set_init_step`."""
    get_step = getattr(dataset, "get_init_step", None)
    return int(get_step()) if callable(get_step) else 0


def tensors_of(row: Row) -> tuple[Tensor, ...]:
    """The arrays of a row as tensors, without copies."""
    return tuple([Tensor.on_host(array, _type(array.dtype, array.shape)) for array in row])


@lru_cache(maxsize=4096)
def _type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> Type:
    return Type(as_dtype(dtype), shape)


class Feed:
    """The rows of a dataset, epoch by epoch, as arrays.

    `columns` is the number of columns of a row; without, it is at most what `network` takes, or any number where that
    is None as well. As a context manager it stops the dataset's background work. A dataset of a user's own is asked for
    its iterator with those of MindSpore's arguments that it takes (`num_epochs`, `do_copy`, `output_numpy`), and is
    reset after each epoch where it has `reset`, as MindSpore does.
    """

    def __init__(
        self, dataset: Any, name: str, columns: int | None = None, num_epochs: int = -1, network: Cell | None = None
    ) -> None:
        self.name = name
        dataset = as_dataset(name, dataset)
        self.columns, self.network, self.advice = columns, network, column_advice(dataset)
        self._fits = columns
        self.iterator = _iterator(dataset, {"num_epochs": num_epochs, "do_copy": False, "output_numpy": True})
        self.flow = Flow(self.iterator)
        self.reset: Callable[[], Any] | None = None if _is_graphls_dataset(dataset) else getattr(dataset, "reset", None)

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *error: object) -> None:
        stop = getattr(self.iterator, "stop", None)
        if callable(stop):
            stop()

    def epoch(self) -> CountedRows:
        """The rows of the next epoch; raises GraphValueError for a row of another number of columns."""
        rows = map(self._row, self.iterator)
        return self.flow.counted(rows if self.reset is None else _with_reset(rows, self.reset))

    def endless(self) -> Iterator[Row]:
        """The rows of all epochs in sequence; raises GraphValueError where an epoch has none."""
        while True:
            is_empty = True
            for row in self.epoch():
                is_empty = False
                yield row
            if is_empty:
                raise GraphValueError(NO_DATA)

    def _row(self, row: Any) -> Row:
        if len(row) != self._fits:
            self._check_width(len(row))
        return tuple(item if type(item) is np.ndarray else array_of(item) for item in row)

    def _check_width(self, count: int) -> None:
        """Raise for an unexpected number of columns; remember an accepted number."""
        if self.columns is not None:
            several = "" if count < 3 else SEVERAL_INPUTS
            raise GraphValueError(
                f"When 'loss_fn' is not None, '{self.name}' should return two elements, but got {count}, please "
                f"check the number of elements returned by '{self.name}'{self.advice}{several}.",
            )
        accepted = count if self.network is None else len(input_names(self.network, count))
        if accepted < count:
            raise GraphTypeError(
                f"A row of '{self.name}' has {count} columns, of which {type(self.network).__name__}.construct takes "
                f"{accepted}, and no loss_fn was given that takes labels: Model(network, loss_fn, optimizer).",
            )
        self._fits = count


def _with_reset(rows: Iterator[Row], reset: Callable[[], object]) -> Iterator[Row]:
    """The rows, with a call of `reset` when they end or the consumer stops."""
    try:
        yield from rows
    finally:
        reset()


def _is_graphls_dataset(dataset: object) -> bool:
    return type(dataset).__module__.startswith("graphls.")


def _iterator(dataset: Any, options: Mapping[str, object]) -> Any:
    """The iterator of a dataset, created with those options that it takes."""
    create = dataset.create_tuple_iterator
    try:
        parameters = signature(create).parameters.values()
    except (TypeError, ValueError):  # not a Python function
        return create(**options)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return create(**options)
    return create(**{name: options[name] for name in options if any(p.name == name for p in parameters)})


def first_row(owner: str, dataset: Any, name: str, columns: int | None, network: Cell | None = None) -> Row:
    """The first row of a dataset, whose position does not change; raises as steps_of_epoch and Feed do."""
    steps_of_epoch(owner, dataset)
    step = first_step(dataset)
    with Feed(dataset, name, columns, 1, network) as feed:
        rows = feed.epoch()
        row = next(rows, None)
        rows.close()  # resets a dataset of a user's own
    if step:
        dataset.set_init_step(step)
    if row is None:
        raise GraphValueError(NO_DATA)
    return row
