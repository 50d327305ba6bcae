"""Tables in text files: CSV, with columns of numbers and of strings."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.base.files.files import open_file
from graphls.dataset.checks import string, type_error
from graphls.dataset.columns import Array
from graphls.dataset.readers.files import Paths, Sequential, Source, corrupt, found_files
from graphls.dataset.readers.order import Shuffle

DTYPES: dict[type, Callable[[Any], Any]] = {int: np.int32, float: np.float32, str: np.str_}
"""What a default of each type makes of the fields of its column."""


class CSVSource(Source):
    """The rows of CSVDataset, which are read when it is made; fields become numbers when they are asked for."""

    def __init__(self, dataset_files: Paths, delimiter: str, defaults: object, names: object) -> None:
        self._rows: list[tuple[str, int, list[str]]] = []
        self.lengths = []
        for path in sorted(found_files(dataset_files)):
            rows = _rows(path, delimiter)
            if names is None and rows:
                header = rows.pop(0)[2]
                if self._rows and header != self.columns:
                    raise corrupt(path, f"its first line has the columns {header}, and other files have {self.columns}")
                self.columns = header
            self.lengths.append(len(rows))
            self._rows += rows
        if names is not None:
            self.columns = _list("column_names", names, str)
        if not self._rows:
            raise GraphRuntimeError(f"There is no row in {dataset_files!r}.")
        self._defaults = [""] * len(self.columns) if defaults is None else _list("column_defaults", defaults, *DTYPES)
        if len(self._defaults) != len(self.columns):
            text = f"There are {len(self._defaults)} column_defaults for the {len(self.columns)} columns {self.columns}"
            raise GraphValueError(f"{text}; give one for each.")

    def __getitem__(self, index: int) -> tuple[Array, ...]:
        path, line, fields = self._rows[index]
        if len(fields) != len(self.columns):
            counts = f"the fields of line {line} are {len(fields)}, and there are {len(self.columns)} columns"
            raise corrupt(path, counts)
        columns = zip(self.columns, fields, self._defaults, strict=True)
        return tuple(_field(path, line, *column) for column in columns)


class CSVDataset(Sequential):
    r"""The rows of CSV files, each field a column of ().

    Columns are called as the first line says, or by `column_names`, with which the first line is a row. Fields are
    strings, or, with a list of `column_defaults`, of the type of the default of their column: int32, float32 or a
    string; an empty field is the default. Fields in double quotes may have `field_delim`, the character between fields,
    and ends of lines in them. Rows and shards come in the order that TextFileDataset describes. Raises GraphTypeError
    and GraphValueError for arguments that do not fit, GraphValueError for files that are not there, GraphRuntimeError
    for files without rows, or that are not UTF-8, and for rows and fields that do not fit their columns.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> _ = Path("houses.csv").write_text("size,rooms,town\n80.5,3,Oslo\n120,,Bern\n")
        >>> rows = ds.CSVDataset("houses.csv", column_defaults=[0.0, 1, ""], shuffle=False)
        >>> rows.get_col_names(), [(float(size), int(rooms), str(town)) for size, rooms, town in rows]
        (['size', 'rooms', 'town'], [(80.5, 3, 'Oslo'), (120.0, 1, 'Bern')])
    """

    def __init__(
        self,
        dataset_files: Paths,
        field_delim: str | None = ",",
        column_defaults: list[Any] | None = None,
        column_names: list[str] | None = None,
        num_samples: int | None = None,
        num_parallel_workers: int | None = None,
        shuffle: bool | Shuffle | None = Shuffle.GLOBAL,
        num_shards: int | None = None,
        shard_id: int | None = None,
        cache: object = None,
    ) -> None:
        delimiter = string("field_delim", "," if field_delim is None else field_delim)
        if len(delimiter) != 1 or delimiter in '"\r\n':
            raise GraphValueError(f"field_delim is one character, and no quote or end of a line, not {delimiter!r}.")
        source = CSVSource(dataset_files, delimiter, column_defaults, column_names)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, num_shards, shard_id)


def _rows(path: str, delimiter: str) -> list[tuple[str, int, list[str]]]:
    """The rows of a file that are not empty, each with its path and its last line."""
    try:
        with open_file(path, "r", encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            return [(path, reader.line_num, fields) for fields in reader if fields]
    except UnicodeDecodeError as error:
        raise corrupt(path, f"it is not UTF-8 text ({error})") from None
    except (OSError, csv.Error) as error:
        raise corrupt(path, str(error)) from None


def _field(path: str, line: int, column: str, text: str, default: object) -> Array:
    try:
        value = type(default)(text) if text else default  # type: ignore[call-arg]
        return np.array(DTYPES[type(default)](value))
    except (ValueError, OverflowError):
        kind = f"of {type(default).__name__}, as its default {default!r} is"
        advice = "; without column_names, the first line names them" if line == 1 else ""
        raise corrupt(path, f"line {line} has {text[:40]!r} in the column {column!r} {kind}{advice}") from None


def _list(name: str, given: object, *types: type) -> list[Any]:
    if not isinstance(given, Sequence) or isinstance(given, str) or not all(type(each) in types for each in given):
        raise type_error(name, given, f"a list of {' or '.join(kind.__name__ for kind in types)}")
    return list(given)
