"""Binds the arrays of files and functions by name to the inputs of a model and to the label, as a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.cli.arguments import function_of, is_function
from graphls.cli.training.columns import Array, Columns, is_number, is_table, joined, read_columns, vectors
from graphls.cli.training.model import Input
from graphls.dataset import Dataset, GeneratorDataset, NumpySlicesDataset
from graphls.dataset.pipeline.workers import described
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.registry import nearest

LABEL = "the label"


@dataclass(frozen=True)
class Binding:
    """The contents of a row of data: the inputs of the model, in order, and possibly a label.

    `label` is its name in the data, None for the one array that is not an input; `takes_label` tells whether there is
    one at all. `joins` are the columns, or patterns of their names, that form an array of another name. `check_label`
    takes the label and its source, and returns it as the loss expects it.
    """

    inputs: tuple[Input, ...]
    takes_label: bool
    label: str | None
    check_label: Callable[[Array, str], Array]
    joins: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The names of the columns of the dataset."""
        return [f"column_{i}" for i in range(len(self.inputs) + self.takes_label)]

    def row(self, arrays: Sequence[Array], source: str) -> tuple[Array, ...]:
        """The inputs and label of a batch, checked and cast to the dtypes of the model."""
        row = [fitting(array, expected, source) for array, expected in zip(arrays, self.inputs, strict=False)]
        if self.takes_label:
            row.append(self.check_label(of_numbers(arrays[-1], LABEL, source), source))
        return tuple(row)


def dataset_of(source: str, binding: Binding, batch_size: int, shuffle: bool, keeps_rest: bool) -> Dataset:
    """Batches of a file of arrays or columns, or of the data that a function (`module:function`) returns.

    Raises GraphFileError for a file that cannot be read, and GraphlsError for data that does not fit the model.
    """
    if is_function(source):
        function = function_of(source, "--data")
        result = function()
        if not isinstance(result, Mapping):
            return _stream(source, function, result, binding, batch_size, keeps_rest)
        columns: Columns = {str(name): np.asarray(value) for name, value in result.items()}
    else:
        columns = read_columns(Path(source))
    arrays = binding.row(_bound(columns, source, binding), source)
    _check_rows(arrays, source, binding, batch_size, keeps_rest)
    if not keeps_rest and len(arrays[0]) % batch_size:
        rest = len(arrays[0]) % batch_size
        print(f"The model takes batches of one size, so {rest} of the {len(arrays[0])} rows of {source} are left out.")
    return NumpySlicesDataset(arrays, binding.columns, shuffle=shuffle).batch(batch_size, not keeps_rest)


def _bound(columns: Columns, source: str, binding: Binding) -> list[Array]:
    """The arrays of the inputs, by name, and of the label."""
    columns = joined(columns, binding.joins)
    if is_table(source):
        columns = vectors(columns, {*(i.name for i in binding.inputs), *([binding.label] if binding.label else [])})
    arrays = []
    for expected in binding.inputs:
        array = _named(columns, expected.name, source)
        arrays.append(_reshaped(array, expected) if is_table(source) or expected.name in binding.joins else array)
    if binding.takes_label:
        arrays.append(columns[_label(columns, source, binding)])
    return arrays


def _named(columns: Columns, name: str, source: str) -> Array:
    if name in columns:
        return columns[name]
    listed = ", ".join(map(repr, columns)) or "nothing"
    parts = f", or columns {name}0, {name}1 and so on" if is_table(source) else ""
    text = f"The model takes the input {name!r}, and {source} has only {listed}{nearest(name, columns)}"
    raise GraphValueError(f"{text}; give the data that name{parts}, or bind it with --bind {name}=...")


def _label(columns: Columns, source: str, binding: Binding) -> str:
    """The name of the label: that of `--label`, or the only one that no input has."""
    if binding.label is not None:
        if binding.label not in columns:
            near = nearest(binding.label, columns)
            raise GraphValueError(f"{source} has no array {binding.label!r}, which --label names{near}.")
        return binding.label
    rest = [name for name in columns if name not in {i.name for i in binding.inputs}]
    if len(rest) != 1:
        listed = f" ({', '.join(map(repr, rest))})" if rest else ""
        text = f"{source} has {len(rest)} arrays beside the inputs of the model{listed}, and one is the label"
        raise GraphValueError(f"{text}; {'name it with --label' if rest else 'add it, or give --loss none'}.")
    return rest[0]


def _reshaped(array: Array, expected: Input) -> Array:
    """Columns of a table, numbers or vectors, in the shape that the model declares for a row."""
    row = [size for size in expected.row or () if size is not None]
    is_known = expected.row is not None and len(row) == len(expected.row)
    return array.reshape(len(array), *row) if is_known and prod(array.shape[1:]) == prod(row) else array


def _check_rows(arrays: Sequence[Array], source: str, binding: Binding, batch_size: int, keeps_rest: bool) -> None:
    """Raise GraphValueError for arrays without rows, with too few of them, or with different numbers of them."""
    names = [*(repr(i.name) for i in binding.inputs), *([LABEL] if binding.takes_label else [])]
    counts = [len(array) for array in arrays]
    other = next((i for i, count in enumerate(counts) if count != counts[0]), None)
    if other is not None:
        text = f"In {source}, {names[0]} has {counts[0]} rows and {names[other]} has {counts[other]}"
        raise GraphValueError(f"{text}; give the same number of each.")
    if not counts[0]:
        raise GraphValueError(f"{source} has no rows; give it some.")
    if counts[0] < batch_size and not keeps_rest:
        raise GraphValueError(f"{source} has {counts[0]} rows, fewer than a batch of {batch_size}; give more of them.")


def _stream(
    source: str, function: Callable[[], Any], result: Any, binding: Binding, batch_size: int, keeps_rest: bool
) -> Dataset:
    """The batches of a generator function: as it yields them, or batched from samples."""
    try:
        first = next(islice(iter(result), 1), None)
    except TypeError:
        text = f"{source} gives {type(result).__name__}"
        advice = "let it give arrays by name, or batches or samples one after the other"
        raise GraphTypeError(f"{text}; {advice}.") from None
    if first is None:
        raise GraphValueError(f"{source} yields no data; let it yield batches or samples.")
    parts = _parts(first, source, binding)
    is_batch = _is_batch(parts, binding)

    def rows() -> Iterator[tuple[Array, ...]]:
        for item in _items(function, source):
            arrays = [np.asarray(part) for part in _parts(item, source, binding)]
            if is_batch:
                yield binding.row(arrays, source)
            else:
                yield tuple(column[0] for column in binding.row([part[None] for part in arrays], source))

    dataset = GeneratorDataset(rows, binding.columns, shuffle=False)
    return dataset if is_batch else dataset.batch(batch_size, not keeps_rest)


def _items(function: Callable[[], Any], source: str) -> Iterator[Any]:
    """The items of a user's function; raises GraphRuntimeError with the name of the function for any error of it."""
    try:
        yield from function()
    except Exception as error:
        raise GraphRuntimeError(f"{source} failed: {described(error)}.") from error


def _parts(item: Any, source: str, binding: Binding) -> list[Any]:
    """The inputs and the label in an item: by name, or in order."""
    if isinstance(item, Mapping):
        return _bound({str(name): np.asarray(value) for name, value in item.items()}, source, binding)
    parts = list(item) if isinstance(item, (tuple, list)) else [item]
    if len(parts) != len(binding.columns):
        names = [*(i.name for i in binding.inputs), *([LABEL] if binding.takes_label else [])]
        text = f"{source} gives items of {len(parts)} arrays, and training takes {len(names)}: {', '.join(names)}"
        raise GraphValueError(f"{text}; give as many, or dicts by name.")
    return parts


def _is_batch(parts: Sequence[Any], binding: Binding) -> bool:
    """Tells whether the arrays of an item have all axes that the model declares, rather than those of one row."""
    for part, expected in zip(parts, binding.inputs, strict=False):
        if expected.shape is not None:
            return np.ndim(part) >= len(expected.shape)
    return True


def fitting(array: Array, expected: Input, source: str) -> Array:
    """A batch of an input in the dtype of the model; raises for another kind of dtype, another shape, and for nan."""
    what = f"{expected.name!r}"
    array = of_numbers(array, what, source)
    row = expected.row
    if row is not None and (array.ndim != len(row) + 1 or not _agree(array.shape[1:], row)):
        sizes = str(tuple("any" if size is None else size for size in row)).replace("'", "")
        text = f"The rows of {what} in {source} have the shape {array.shape[1:]}, and the model takes {sizes}"
        raise GraphValueError(f"{text}; reshape the data.")
    if array.dtype.kind in "fV" and np.isnan(array).any():
        at = int(np.flatnonzero(np.isnan(array).reshape(len(array), -1).any(axis=1))[0])
        raise GraphValueError(f"{what} in {source} is nan in row {at}; take such rows out or fill them.")
    return _cast(array, expected, source)


def _agree(shape: Sequence[int], declared: Sequence[int | None]) -> bool:
    return all(known is None or size == known for size, known in zip(shape, declared, strict=True))


def _cast(array: Array, expected: Input, source: str) -> Array:
    kind = np.dtype(expected.dtype.numpy)
    if array.dtype == kind:
        return array
    if expected.dtype.is_float:
        return array.astype(kind)
    is_bool = expected.dtype.kind == "bool"
    if is_bool and array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():
        return array.astype(kind)
    if is_bool or array.dtype.kind not in "iub":
        text = f"{expected.name!r} in {source} is {array.dtype}, and the model takes {expected.dtype.long_name}"
        raise GraphTypeError(f"{text}; convert the data.")
    limits = np.iinfo(kind)
    if array.size and not limits.min <= int(array.min()) <= int(array.max()) <= limits.max:
        text = f"{expected.name!r} in {source} has values from {array.min()} to {array.max()}"
        raise GraphValueError(f"{text}, which {expected.dtype.long_name} does not hold; give smaller numbers.")
    return array.astype(kind)


def of_numbers(value: object, what: str, source: str) -> Array:
    """An array of numbers with rows; raises GraphTypeError for text and other objects, GraphValueError without rows."""
    array = value.asnumpy() if isinstance(value, Tensor) else np.asarray(value)
    if array.dtype.kind in "Mmc":
        raise GraphTypeError(f"{what} in {source} is of the type {array.dtype}; give real numbers.")
    if array.dtype.kind in "USO":
        bad = next((text for text in array.reshape(-1) if not is_number(text)), "objects")
        raise GraphTypeError(f"{what} in {source} holds {str(bad)!r}, which is not a number; give numbers only.")
    if array.ndim == 0:
        raise GraphValueError(f"{what} in {source} is a single number; give one for each row.")
    return array
