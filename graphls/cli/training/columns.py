"""Arrays by name from a file, and columns of it that are one array together."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.base.files.files import read_bytes
from graphls.cli.training.tables import Array, numbered, read_csv, read_npz
from graphls.interop.formats.safetensors import decode
from graphls.ir.registry import nearest

Columns = Mapping[str, Array]


def read_columns(path: Path) -> Columns:
    """The arrays of a file by their names."""
    readers: dict[str, Callable[[Path], Columns]] = {".npz": read_npz, ".csv": read_csv, ".safetensors": _safetensors}
    if path.suffix.lower() not in readers:
        kinds = "a file that ends in .npz, .safetensors or .csv, or module:function"
        raise GraphValueError(f"Data is {kinds}, not {str(path)!r}.")
    return readers[path.suffix.lower()](path)


def _safetensors(path: Path) -> Columns:
    try:
        entries = decode(read_bytes(path))
    except GraphValueError as error:
        raise GraphValueError(f"{path} cannot be read: {error.message}.") from None
    return {name: entry for name, entry in entries.items() if not isinstance(entry, str)}


def is_table(source: str) -> bool:
    """Whether a source is a table, whose columns are numbers."""
    return source.lower().endswith(".csv")


def join_of(text: str) -> tuple[str, list[str]]:
    """What `--bind name=column,column` says; raises GraphValueError for other text."""
    name, _, members = text.partition("=")
    found = [member.strip() for member in members.split(",")]
    if not name or not all(found):
        example = "such as x=length,width or x=pixel_*"
        raise GraphValueError(f"--bind takes a name and columns or patterns of them, {example}, not {text!r}.")
    return name, found


def joined(columns: Columns, joins: Mapping[str, Sequence[str]]) -> Columns:
    """The columns, those under another name that are to be bound to it: one as it is, several as a vector."""
    found = dict(columns)
    for name, patterns in joins.items():
        members = [c for pattern in patterns for c in columns if c == pattern or fnmatchcase(c, pattern)]
        if not members:
            near = nearest(patterns[0], columns)
            raise GraphValueError(f"The data has no {', '.join(patterns)}, which --bind calls {name!r}{near}.")
        for member in members:
            found.pop(member, None)
        found[name] = columns[members[0]] if len(members) == 1 else _stacked([columns[c] for c in members], name)
    return found


def vectors(columns: Columns, wanted: Container[str]) -> Columns:
    """The columns of a table, in which numbered ones are a vector where that is wanted, or where there are several."""
    found = dict(columns)
    for name, members in numbered(columns).items():
        if name not in columns and (name in wanted or len(members) > 1) and not any(m in wanted for m in members):
            found[name] = _stacked([found.pop(member) for member in members], name)
    return found


def _stacked(columns: Sequence[Array], name: str) -> Array:
    if len({column.shape for column in columns}) > 1:
        raise GraphValueError(f"The columns of {name!r} have different shapes; give columns of numbers.")
    return np.stack(columns, 1)
