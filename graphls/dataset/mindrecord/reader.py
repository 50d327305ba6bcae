"""Reading MindRecord files: row by row, or as a data set."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphls.dataset.checks import type_error
from graphls.dataset.mindrecord.file import MindRecordSource
from graphls.dataset.mindrecord.schema import fault
from graphls.dataset.readers.datasets import Files
from graphls.dataset.readers.files import Source
from graphls.ir.errors import GraphRuntimeError, GraphValueError

__all__ = ["FileReader", "MindDataset"]


def check_padding(columns_list: Any, padded_sample: Any, num_padded: Any) -> None:
    """Raise GraphRuntimeError for arguments without those that belong to them, GraphTypeError, GraphValueError."""
    if padded_sample is None:
        if num_padded is not None:
            raise GraphRuntimeError("num_padded is specified but padded_sample is not.")
        return
    if not isinstance(padded_sample, dict):
        raise type_error("padded_sample", padded_sample, "a dict")
    for name, value in (("columns_list", columns_list), ("num_padded", num_padded)):
        if not value and value != 0:
            raise GraphRuntimeError(f"padded_sample is specified and requires {name} as well.")
    if type(num_padded) is not int:
        raise type_error("num_padded", num_padded, "an integer")
    if num_padded < 0:
        raise GraphValueError(f"num_padded is invalid, num_padded={num_padded}.")
    if not set(columns_list) <= padded_sample.keys():
        raise GraphValueError("padded_sample cannot match columns_list.")


class PaddedRows(Source):
    """The rows of files, and one row `count` times behind them.

    Raises GraphValueError for a row that does not fit the schema, GraphRuntimeError where `num_shards` do not divide
    the number of rows.
    """

    def __init__(self, source: MindRecordSource, sample: dict[str, Any], count: int, num_shards: int | None) -> None:
        self.columns, self._source, self._rows = source.columns, source, range(len(source) + count)
        schema = {name: source.files[0].schema[name] for name in self.columns}
        found = fault(schema, sample)
        if found:
            raise GraphValueError(f"padded_sample does not fit the files: {found}")
        if num_shards and len(self) % num_shards:
            text = f"Invalid data, the size of dataset and padded samples: {len(self)} can not be divisible by the "
            raise GraphRuntimeError(f"{text}value of 'num_shards'. Please adjust the value of 'num_padded'.")
        self._row = tuple(_column(sample[name], schema[name]) for name in self.columns)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return self._source[index] if index < len(self._source) else self._row


def _column(value: Any, field: dict[str, Any]) -> np.ndarray[Any, Any]:
    if field["type"] == "bytes":
        return np.frombuffer(value, np.uint8)
    if field["type"] == "string":
        return np.asarray(value)
    return np.asarray(value, field["type"]).reshape(field.get("shape", ()))


class FileReader:
    """The rows of MindRecord files, in order; `num_consumer` has no effect. Raises what MindRecordSource does."""

    def __init__(self, file_name: Any, num_consumer: int = 4, columns: Any = None, operator: Any = None) -> None:
        if operator is not None:
            raise GraphValueError("FileReader has no operators; leave out the argument.")
        self._source = MindRecordSource(file_name, columns or None)

    def get_next(self) -> Iterator[dict[str, Any]]:
        """Each row as a dict of Python numbers, strings, bytes and arrays."""
        schema = self.schema()
        for index in range(len(self._source)):
            yield plain_row(self._source.row(index), schema)

    def schema(self) -> dict[str, dict[str, Any]]:
        """The type of each column, and the shapes of arrays."""
        return self._source.files[0].schema

    def len(self) -> int:
        """The number of rows."""
        return len(self._source)

    def close(self) -> None:
        """Nothing is to be done; files are closed when they are no longer used."""


def plain_row(row: dict[str, Any], schema: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """A row with Python's numbers, strings and bytes, and arrays."""
    return {name: _plain(value, schema[name]["type"]) for name, value in row.items()}


def _plain(value: Any, kind: str) -> Any:
    if kind == "bytes":
        return value.tobytes()
    return value.item() if isinstance(value, np.generic) else value


class MindDataset(Files):
    """The rows of MindRecord files, in the columns that they have, or in those of `columns_list`.

    One path stands for all files that were written with it. `shuffle` is True by default, and whatever `Shuffle` says,
    all rows are shuffled. `num_padded` rows of `padded_sample`, a dict of the columns of `columns_list`, follow those
    of the files, so that shards are equally long. Raises what MindRecordSource and PaddedRows do.
    """

    def __init__(
        self,
        dataset_files: Any,
        columns_list: list[str] | None = None,
        num_parallel_workers: int | None = None,
        shuffle: Any = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        sampler: Any = None,
        padded_sample: dict[str, Any] | None = None,
        num_padded: int | None = None,
        num_samples: int | None = None,
        cache: Any = None,
    ) -> None:
        check_padding(columns_list, padded_sample, num_padded)
        rows = MindRecordSource(dataset_files, columns_list)
        source = rows if padded_sample is None else PaddedRows(rows, padded_sample, num_padded or 0, num_shards)
        shuffled = None if shuffle is None else shuffle is not False
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffled, sampler, num_shards, shard_id)
