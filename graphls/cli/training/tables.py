"""Arrays by name, as files of NumPy (.npz) and text (.csv) hold them."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphFileError, GraphlsError, GraphValueError
from graphls.base.files.files import open_file, read_bytes

Array = np.ndarray[Any, Any]
_NUMBERED = re.compile(r"(?P<name>.+?)(?:\[\s*(?P<inside>\d+)\s*\]|_?(?P<behind>\d+))")
MOST_INTEGER = 2.0**53
"""Up to which floats of 64 bits hold every integer."""


def read_npz(path: Path) -> dict[str, Array]:
    """The arrays of a file that `numpy.savez` has written.

    Raises GraphFileError where it cannot be read, GraphValueError for a file of another kind and for Python objects,
    which would have to be executed to be read.
    """
    data = io.BytesIO(read_bytes(path))
    try:
        found = np.load(data, allow_pickle=False)
        if isinstance(found, np.ndarray):
            raise GraphValueError(f"{path} holds one array without a name; write it with numpy.savez(path, x=...).")
        return {name: found[name] for name in found.files}
    except (GraphlsError, MemoryError):
        raise
    except Exception as error:  # whatever a damaged archive, or the text in front of an array, makes of its readers
        raise GraphValueError(f"{path} is no file of numpy.savez with arrays of numbers: {error}.") from None


def read_csv(path: Path) -> dict[str, Array]:
    """The columns of a text file whose first line has their names: int64 where all are integers, else float64.

    Columns that hold other text are arrays of strings. Raises GraphFileError where the file cannot be read,
    GraphValueError where names are missing or there twice, and for a line of another length.
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
        raise GraphValueError(f"{path} is no text of columns with commas between them: {error}.") from None
    if numbers.size and numbers.shape[1] != len(names):
        raise GraphValueError(f"{path} has {len(names)} names and {numbers.shape[1]} columns below them.")
    columns = numbers.T if numbers.size else np.zeros((len(names), 0))
    return {name: _integers(column) for name, column in zip(names, columns, strict=True)}


def _check_names(path: Path, names: Sequence[str]) -> None:
    """Raise GraphValueError unless the names of columns are names."""
    twice = next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None
    if twice is not None:
        raise GraphValueError(f"{path} has two columns called {twice!r}; give each a name of its own.")
    if not names or not all(names) or all(map(_is_number, names)):
        raise GraphValueError(f"The first line of {path} must have the names of its columns, with commas between them.")


def _numbers(file: Iterable[str]) -> Array:
    """What stands in lines of numbers; raises ValueError for other text and lines of several lengths."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no lines at all are no reason to warn
        return np.loadtxt(file, np.float64, comments=None, delimiter=",", ndmin=2, quotechar='"')


def _by_column(path: Path, names: Sequence[str]) -> dict[str, Array]:
    """The columns of a file of which some hold no numbers."""
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
    """A column as integers, where it holds nothing else."""
    is_whole = np.all(np.abs(column) <= MOST_INTEGER) and np.all(column == np.floor(column))
    return column.astype(np.int64) if is_whole else np.ascontiguousarray(column)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def numbered(names: Iterable[str]) -> dict[str, list[str]]:
    """Names that end in numbers, `x0`, `x_0` or `x[0]`, by what stands before these, in the order of the numbers.

    Only those are taken whose numbers run from 0 or 1 on without a gap.
    """
    found: dict[str, dict[int, str]] = {}
    for name in names:
        match = _NUMBERED.fullmatch(name)
        if match is not None:
            found.setdefault(match["name"], {})[int(match["inside"] or match["behind"])] = name
    runs = {name: [members[i] for i in sorted(members)] for name, members in found.items() if _is_run(sorted(members))}
    return runs


def _is_run(numbers: Sequence[int]) -> bool:
    return numbers[0] in (0, 1) and numbers[-1] - numbers[0] == len(numbers) - 1
