"""Datasets of tables and labelled sentences in text files: CSV, SST-2, the tasks of CLUE, headerless tables."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.base.files.files import open_file
from graphls.dataset.checks import string, type_error
from graphls.dataset.columns import Array, StrPath
from graphls.dataset.readers import files
from graphls.dataset.readers.files import Paths, Sequential, Shuffle, Source, TextParts
from graphls.dataset.readers.records import TextFileSource

DTYPES: dict[type, Callable[[Any], Any]] = {int: np.int32, float: np.float32, str: np.str_}
"""The conversion of the fields of a column, by the type of its default."""


class CSVSource(Source):
    """The rows of CSVDataset, which are read in the constructor; fields become numbers on access."""

    def __init__(self, dataset_files: Paths, delimiter: str, defaults: object, names: object) -> None:
        self._rows: list[tuple[str, int, list[str]]] = []
        self.lengths = []
        for path in sorted(files.matching_files(dataset_files)):
            rows = _rows(path, delimiter)
            if names is None and rows:
                header = rows.pop(0)[2]
                if self._rows and header != self.columns:
                    fault = f"its first line has the columns {header}, and other files have {self.columns}"
                    raise files.corrupt(path, fault)
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
            raise files.corrupt(path, counts)
        columns = zip(self.columns, fields, self._defaults, strict=True)
        return tuple(_field(path, line, *column) for column in columns)


class CSVDataset(Sequential):
    r"""The rows of CSV files, each field a column of ().

    Columns have the names in the first line, or `column_names`, with which the first line is a row. Fields are
    strings, or, with a list of `column_defaults`, of the type of the default of their column: int32, float32 or a
    string; an empty field is the default. Fields in double quotes may have `field_delim`, the character between fields,
    and ends of lines in them. Rows and shards come in the order that TextFileDataset describes. Raises GraphTypeError
    and GraphValueError for arguments that do not fit, GraphValueError for missing files, GraphRuntimeError
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
        self, dataset_files: Paths, field_delim: str | None = ",", column_defaults: list[Any] | None = None,
        column_names: list[str] | None = None, num_samples: int | None = None, num_parallel_workers: int | None = None,
        shuffle: bool | Shuffle | None = Shuffle.GLOBAL, num_shards: int | None = None, shard_id: int | None = None,
        cache: object = None,
    ) -> None:  # fmt: skip
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
        raise files.corrupt(path, f"it is not UTF-8 text ({error})") from None
    except (OSError, csv.Error) as error:
        raise files.corrupt(path, str(error)) from None


def _field(path: str, line: int, column: str, text: str, default: object) -> Array:
    try:
        value = type(default)(text) if text else default  # type: ignore[call-arg]
        return np.array(DTYPES[type(default)](value))
    except (ValueError, OverflowError):
        kind = f"of {type(default).__name__}, as its default {default!r} is"
        advice = "; without column_names, the first line names them" if line == 1 else ""
        raise files.corrupt(path, f"line {line} has {text[:40]!r} in the column {column!r} {kind}{advice}") from None


def _list(name: str, values: object, *types: type) -> list[Any]:
    if not isinstance(values, Sequence) or isinstance(values, str) or not all(type(each) in types for each in values):
        raise type_error(name, values, f"a list of {' or '.join(kind.__name__ for kind in types)}")
    return list(values)


class SST2Source(TextFileSource):
    """The rows of SST2Dataset: lines after a header, with a tab between their two fields."""

    def __init__(self, dataset_dir: StrPath, part: str | None) -> None:
        directory = files.folder(dataset_dir)
        part = "train" if part is None else files.usage(part, "train", "test", "dev")
        self.columns = ["sentence"] if part == "test" else ["sentence", "label"]
        super().__init__(os.path.join(directory, f"{part}.tsv"), header=1)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        fields = self.text(index).split("\t")
        if len(fields) != 2:
            raise files.corrupt(self._paths[0], f"its row {index} has {len(fields)} fields between tabs, not 2")
        return tuple(map(np.array, fields[-len(self.columns) :]))


class SST2Dataset(TextParts):
    r"""The sentences of SST-2: columns `sentence` and `label`, strings of (); "test" has no labels.

    `usage` is "train", the default, "dev" or "test", for the file `train.tsv` and so on, which has a header. Raises
    what TextFileDataset does.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("sst2").mkdir()
        >>> _ = Path("sst2/dev.tsv").write_text("sentence\tlabel\na fine film\t1\n")
        >>> [(str(sentence), str(label)) for sentence, label in ds.SST2Dataset("sst2", "dev")]
        [('a fine film', '1')]
    """

    _read = SST2Source


class _TableParts(TextParts):
    """A table in `train.csv` and `test.csv` whose columns, strings of (), have no names in the files."""

    names: ClassVar[Sequence[str]]

    def _read(self, dataset_dir: StrPath, part: str | None) -> Source:
        directory, part = files.folder(dataset_dir), files.usage(part, "train", "test", "all")
        parts = ["test", "train"] if part == "all" else [part]
        return CSVSource([os.path.join(directory, f"{name}.csv") for name in parts], ",", None, list(self.names))


class AGNewsDataset(_TableParts):
    r"""The news of AG: columns `index`, `title` and `description`, strings of ().

    `usage` is "train" or "test", for `train.csv` and so on, or "all", the default. Raises what CSVDataset does.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("news").mkdir()
        >>> _ = Path("news/test.csv").write_text('"3","Oil rises","Prices, again"\n')
        >>> [tuple(map(str, row)) for row in ds.AGNewsDataset("news", "test")]
        [('3', 'Oil rises', 'Prices, again')]
    """

    names = ("index", "title", "description")


class AmazonReviewDataset(_TableParts):
    r"""Reviews of products: columns `label`, `title` and `content`; see AGNewsDataset.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("reviews").mkdir()
        >>> _ = Path("reviews/test.csv").write_text('"2","Fine","As described"\n')
        >>> [tuple(map(str, row)) for row in ds.AmazonReviewDataset("reviews", "test")]
        [('2', 'Fine', 'As described')]
    """

    names = ("label", "title", "content")


class DBpediaDataset(_TableParts):
    r"""Descriptions of things: columns `class`, `title` and `content`; see AGNewsDataset.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("things").mkdir()
        >>> _ = Path("things/test.csv").write_text('"7","A bridge","It spans."\n')
        >>> [tuple(map(str, row)) for row in ds.DBpediaDataset("things", "test")]
        [('7', 'A bridge', 'It spans.')]
    """

    names = ("class", "title", "content")


class YahooAnswersDataset(_TableParts):
    r"""Questions with answers: columns `class`, `title`, `content` and `answer`; see AGNewsDataset.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("answers").mkdir()
        >>> _ = Path("answers/test.csv").write_text('"4","Why?","Tell me","So"\n')
        >>> [tuple(map(str, row)) for row in ds.YahooAnswersDataset("answers", "test")]
        [('4', 'Why?', 'Tell me', 'So')]
    """

    names = ("class", "title", "content", "answer")


_PAIRS = ("label sentence1 sentence2", "id sentence1 sentence2")
_TASKS = {
    "AFQMC": _PAIRS,
    "TNEWS": ("keywords label label_desc sentence", "id keywords sentence"),
    "IFLYTEK": ("label label_des sentence", "id sentence"),
    "CMNLI": _PAIRS,
    "WSC": (
        "idx label span1_index span1_text span2_index span2_text text",
        "idx span1_index span1_text span2_index span2_text text",
    ),
    "CSL": ("abst id keyword label", "abst id keyword"),
}
"""The columns of the tasks of CLUE: of training and evaluation, and of the test."""


class CLUESource(TextFileSource):
    """The rows of CLUEDataset: a JSON object in each line."""

    def __init__(self, dataset_files: Paths, task: str, part: str) -> None:
        if task not in _TASKS:
            raise GraphValueError(f"task should be {', '.join(_TASKS)}, not {task!r}.")
        if part not in ("train", "test", "eval"):
            raise GraphValueError(f"usage should be 'train', 'test' or 'eval', not {part!r}.")
        self.columns = _TASKS[task][part == "test"].split()
        super().__init__(dataset_files)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        try:
            entry = json.loads(self.text(index))
            values = {**entry, **entry.get("target", {})}
            return tuple(_column(values[name]) for name in self.columns)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError) as error:
            path, columns = self._paths[self._rows[index][0]], ", ".join(self.columns)
            raise files.corrupt(path, f"its row {index} is not a JSON object with {columns} ({error!r})") from None


def _column(value: object) -> Any:
    """A number as uint32 of (), a text as a string of (), a list of texts as strings of (n,)."""
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        raise TypeError(value)
    return np.array(value, np.uint32 if isinstance(value, int) else np.str_)


class CLUEDataset(Sequential):
    r"""The rows of a task of CLUE: texts as strings of (), indices and ids as uint32 of (), and `keyword` of (n,).

    `task` is "AFQMC", "TNEWS", "IFLYTEK", "CMNLI", "WSC" or "CSL"; `usage` is "train", "test" or "eval". Columns are in
    the order of their names. Raises GraphValueError for others, GraphRuntimeError for lines that are not of the task,
    and what TextFileDataset does.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> _ = Path("train.json").write_text('{"sentence1": "a", "sentence2": "b", "label": "1"}\n')
        >>> rows = ds.CLUEDataset("train.json", task="AFQMC")
        >>> rows.get_col_names(), [tuple(map(str, row)) for row in rows]
        (['label', 'sentence1', 'sentence2'], [('1', 'a', 'b')])
    """

    def __init__(
        self, dataset_files: Paths, task: str = "AFQMC", usage: str = "train", num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: bool | Shuffle | None = Shuffle.GLOBAL,
        num_shards: int | None = None, shard_id: int | None = None, cache: object = None,
    ) -> None:  # fmt: skip
        source = CLUESource(dataset_files, task, usage)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, num_shards, shard_id)
