"""The index of a MindRecord file: the SQLite database `.db` beside it, where MindSpore looks up its rows."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from graphls.dataset.readers_mindrecord import MindRecordFile
from graphls.ir.errors import GraphFileError
from graphls.ir.files import write_parts

KINDS = {"string": "TEXT", "int32": "INTEGER", "int64": "INTEGER", "float32": "REAL", "float64": "REAL"}
"""The types of columns of the database, by those of the file."""

_PLACES = "ROW_ID PAGE_ID_RAW PAGE_OFFSET_RAW PAGE_OFFSET_RAW_END ROW_GROUP_ID PAGE_ID_BLOB PAGE_OFFSET_BLOB"
_CHUNK = 1 << 20


def remove_index(path: str) -> None:
    """Take away the index of a file that is about to be replaced, so that none is beside a file of other rows."""
    with suppress(FileNotFoundError):
        os.unlink(f"{path}.db")


def write_index(path: str, indexes: list[str]) -> None:
    """Write the index of a file, by the columns that rows can be found by; raises GraphFileError."""
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "index")
        try:
            _fill(database, MindRecordFile(path), os.path.basename(path), indexes)
        except sqlite3.Error as error:
            raise GraphFileError(f"{path}.db cannot be written: {error}.") from None
        with open(database, "rb") as file:
            write_parts(Path(f"{path}.db"), iter(lambda: file.read(_CHUNK), b""))


def _fill(database: str, file: MindRecordFile, name: str, indexes: list[str]) -> None:
    columns = [f"{place} INT NOT NULL" for place in (*_PLACES.split(), "PAGE_OFFSET_BLOB_END")]
    for number, column in enumerate(indexes):
        columns += f"INC_{number} INT", f"{column}_0 {KINDS[file.schema[column]['type']]}"
    keys = ",".join(["ROW_ID", *(f"INC_{number}" for number in range(len(indexes)))])
    marks = ",".join("?" * len(columns))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"CREATE TABLE INDEXES({','.join(columns)},PRIMARY KEY({keys}))")
        connection.execute("CREATE TABLE SHARD_NAME(NAME TEXT NOT NULL)")
        connection.execute("INSERT INTO SHARD_NAME VALUES(?)", (name,))
        connection.executemany(f"INSERT INTO INDEXES VALUES({marks})", _rows(file, indexes))


def _rows(file: MindRecordFile, indexes: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    groups = {page["page_id"]: page["page_type_id"] for page in file.header["page"] or []}
    for number in range(len(file)):
        (raw_page, *raw), (blob_page, *blob) = file.places(number)
        numbers = file.numbers(number) if indexes else {}
        fields = [part for name in indexes for part in (0, numbers[name])]
        yield number, raw_page, *raw, groups[blob_page], blob_page, *blob, *fields
