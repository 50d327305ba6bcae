"""Reads arrays by name from files of arrays, texts and tables, and joins several columns to one array."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphFileError, GraphlsError, GraphValueError
from graphls.base.files.files import open_file, read_bytes
from graphls.dataset.readers.arrow import SUFFIXES, arrays_of
from graphls.interop.formats.safetensors import decode
from graphls.ir.registry import nearest

Array = np.ndarray[Any, Any]
Columns = Mapping[str, Array]
_NUMBERED = re.compile(r"(?P<name>.+?)(?:\[\s*(?P<inside>\d+)\s*\]|_?(?P<behind>\d+))")
MOST_INTEGER = 2.0**53
"""The largest magnitude up to which float64 represents every integer."""


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of a file written by `numpy.savez`.

    Raises GraphFileError for a file that cannot be read, GraphValueError for one of another kind and for Python
    objects, which could be read only by executing them.
    """
    data = io.BytesIO(read_bytes(path))
    try:
        archive = np.load(data, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise GraphValueError(f"{path} holds one array without a name; write it with numpy.savez(path, x=...).")
        return {name: archive[name] for name in archive.files}
    except (GraphlsError, MemoryError):
        raise
    except Exception as error:  # whatever a damaged archive, or the text in front of an array, makes of its readers
        raise GraphValueError(f"{path} is not a file of numpy.savez with arrays of numbers: {error}.") from None


def read_csv(path: Path) -> dict[str, Array]:
    """The columns of a text file with their names in the first line: int64 if all are integers, else float64.

    Columns of other text are arrays of strings. Raises GraphFileError for a file that cannot be read, GraphValueError
    for missing or duplicate names and for a line of another length.
    """
    try:
        with open_file(path, "r", newline="", encoding="utf-8-sig") as file:
            names = [name.strip() for name in next(csv.reader(file, skipinitialspace=True), [])]
            _check_names(path, names)
            try:
                numbers = _numbers(file)
            except ValueError:
                return _by_column(path, names)
    except OSError as error:
        raise GraphFileError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise GraphValueError(f"{path} is not a text of columns with commas between them: {error}.") from None
    if numbers.size and numbers.shape[1] != len(names):
        raise GraphValueError(f"{path} has {len(names)} names and {numbers.shape[1]} columns below them.")
    columns = numbers.T if numbers.size else np.zeros((len(names), 0))
    return {name: _integers(column) for name, column in zip(names, columns, strict=True)}


def _check_names(path: Path, names: Sequence[str]) -> None:
    """Raise GraphValueError for missing, empty or duplicate names, and for numbers in their place."""
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise GraphValueError(f"{path} has two columns called {twice!r}; give each a name of its own.")
    if not names or not all(names) or all(map(is_number, names)):
        raise GraphValueError(f"The first line of {path} must have the names of its columns, with commas between them.")


def _numbers(file: Iterable[str]) -> Array:
    """The array of numbers in some lines; raises ValueError for other text and for lines of different lengths."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # loadtxt warns of files without lines
        return np.loadtxt(file, np.float64, comments=None, delimiter=",", ndmin=2, quotechar='"')


def _by_column(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """The columns of a file in which some hold text."""
    with open_file(path, "r", newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, skipinitialspace=True)
        rows = []
        for row in islice(reader, 1, None):
            if row and len(row) != len(names):
                text = f"Line {reader.line_num} of {path} has {len(row)} fields for the {len(names)} names of the first"
                raise GraphValueError(f"{text}; names and fields have commas between them.")
            rows += [row] if row else []
    return {name: _column(texts) for name, texts in zip(names, zip(*rows, strict=True), strict=True)}


def _column(texts: Sequence[str]) -> Array:
    try:
        return _integers(np.array([float(text) for text in texts]))
    except ValueError:
        return np.array(texts)


def _integers(column: Array) -> Array:
    """A column as int64 if it holds only integers, else as it is."""
    is_integral = np.all(np.abs(column) <= MOST_INTEGER) and np.all(column == np.floor(column))
    return column.astype(np.int64) if is_integral else np.ascontiguousarray(column)


def is_number(text: object) -> bool:
    """Tells whether a text parses as a float."""
    try:
        float(str(text))
    except ValueError:
        return False
    return True


def numbered(names: Iterable[str]) -> dict[str, list[str]]:
    """Groups of names that end in numbers, `x0`, `x_0` or `x[0]`, by their common prefix, in the order of the numbers.

    Only groups whose numbers run from 0 or 1 on without a gap.
    """
    groups: dict[str, dict[int, str]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is not None:
            groups.setdefault(match["name"], {})[int(match["inside"] or match["behind"])] = name
    return {name: [group[i] for i in sorted(group)] for name, group in groups.items() if _is_run(sorted(group))}


def _is_run(numbers: Sequence[int]) -> bool:
    return numbers[0] in (0, 1) and numbers[-1] - numbers[0] == len(numbers) - 1


def read_columns(path: Path) -> Columns:
    """The arrays of a file by name; raises GraphValueError for an unknown suffix."""
    readers: dict[str, Callable[[Path], Columns]] = {
        ".npz": read_npz, ".csv": read_csv, ".safetensors": _safetensors, **dict.fromkeys(SUFFIXES, _table)
    }  # fmt: skip
    if path.suffix.lower() not in readers:
        kinds = f"a file that ends in .npz, .safetensors, .csv, {', '.join(SUFFIXES)}, or module:function"
        raise GraphValueError(f"Data is {kinds}, not {str(path)!r}.")
    return readers[path.suffix.lower()](path)


def _safetensors(path: Path) -> Columns:
    try:
        entries = decode(read_bytes(path))
    except GraphValueError as error:
        raise GraphValueError(f"{path} cannot be read: {error.message}.") from None
    return {name: entry for name, entry in entries.items() if not isinstance(entry, str)}


def _table(path: Path) -> Columns:
    if not path.is_file():
        raise GraphFileError(f"{path} cannot be read: there is no such file.")
    return arrays_of(path)


def is_table(source: str) -> bool:
    """Tells whether a source is a table, whose columns are numbers."""
    return source.lower().endswith((".csv", *SUFFIXES))


def join_of(text: str) -> tuple[str, list[str]]:
    """The name and the columns of `--bind name=column,column`; raises GraphValueError for other text."""
    name, _, members = text.partition("=")
    patterns = [member.strip() for member in members.split(",")]
    if not name or not all(patterns):
        example = "such as x=length,width or x=pixel_*"
        raise GraphValueError(f"--bind takes a name and columns or patterns of them, {example}, not {text!r}.")
    return name, patterns


def joined(columns: Columns, joins: Mapping[str, Sequence[str]]) -> Columns:
    """The columns with those of each join under its name: one column as it is, several stacked to a vector."""
    result = dict(columns)
    for name, patterns in joins.items():
        members = [c for pattern in patterns for c in columns if c == pattern or fnmatchcase(c, pattern)]
        if not members:
            near = nearest(patterns[0], columns)
            raise GraphValueError(f"The data has no {', '.join(patterns)}, which --bind calls {name!r}{near}.")
        for member in members:
            result.pop(member, None)
        result[name] = columns[members[0]] if len(members) == 1 else _stacked([columns[c] for c in members], name)
    return result


def vectors(columns: Columns, requested: Container[str]) -> Columns:
    """The columns of a table, with numbered ones stacked to a vector unless one of them is requested by itself.

    A single numbered column is stacked only if its name without the number is requested.
    """
    result = dict(columns)
    for name, members in numbered(columns).items():
        if name not in columns and (name in requested or len(members) > 1) and not any(m in requested for m in members):
            result[name] = _stacked([result.pop(member) for member in members], name)
    return result


def _stacked(columns: Sequence[Array], name: str) -> Array:
    if len({column.shape for column in columns}) > 1:
        raise GraphValueError(f"The columns of {name!r} have different shapes; give columns of numbers.")
    return np.stack(columns, 1)
