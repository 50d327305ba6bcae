"""The index of MindRecord files by values of columns, and `MindPage`, which reads rows by them.

The index of a file is the SQLite database `.db` beside it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from graphls.base.errors import GraphFileError, GraphRuntimeError
from graphls.base.files.files import write_parts
from graphls.dataset.mindrecord.reader import MindRecordFile, MindRecordSource, layout_of, plain_row
from graphls.dataset.mindrecord.schema import MRMDefineCategoryError, ParamTypeError, ParamValueError, check_filename
from graphls.dataset.readers.files import Paths

__all__ = ["MindPage"]


KINDS = {"string": "TEXT", "int32": "INTEGER", "int64": "INTEGER", "float32": "REAL", "float64": "REAL"}
"""The types of columns of the database, by those of the file."""

_COLUMNS = "ROW_ID PAGE_ID_RAW PAGE_OFFSET_RAW PAGE_OFFSET_RAW_END ROW_GROUP_ID PAGE_ID_BLOB PAGE_OFFSET_BLOB"
_CHUNK = 1 << 20


def remove_index(path: str) -> None:
    """Remove the index of a file that is about to be replaced, so that it never describes other rows."""
    with suppress(FileNotFoundError):
        os.unlink(f"{path}.db")


def write_index(path: str, indexes: list[str]) -> None:
    """Write the index of a file by some columns; raises GraphFileError."""
    with tempfile.TemporaryDirectory() as folder:
        database = os.path.join(folder, "index")
        try:
            _fill(database, MindRecordFile(path), os.path.basename(path), indexes)
        except sqlite3.Error as error:
            raise GraphFileError(f"{path}.db cannot be written: {error}.") from None
        with open(database, "rb") as file:
            write_parts(Path(f"{path}.db"), iter(lambda: file.read(_CHUNK), b""))


def _fill(database: str, file: MindRecordFile, name: str, indexes: list[str]) -> None:
    columns = [f"{name} INT NOT NULL" for name in (*_COLUMNS.split(), "PAGE_OFFSET_BLOB_END")]
    for i, column in enumerate(indexes):
        columns += f"INC_{i} INT", f"{column}_0 {KINDS[file.schema[column]['type']]}"
    keys = ",".join(["ROW_ID", *(f"INC_{i}" for i in range(len(indexes)))])
    marks = ",".join("?" * len(columns))
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(f"CREATE TABLE INDEXES({','.join(columns)},PRIMARY KEY({keys}))")
        connection.execute("CREATE TABLE SHARD_NAME(NAME TEXT NOT NULL)")
        connection.execute("INSERT INTO SHARD_NAME VALUES(?)", (name,))
        connection.executemany(f"INSERT INTO INDEXES VALUES({marks})", _entries(file, indexes))


def _entries(file: MindRecordFile, indexes: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    groups = {page["page_id"]: page["page_type_id"] for page in file.header["page"] or []}
    for row in range(len(file)):
        (raw_page, *raw), (blob_page, *blob) = file.pages_of(row)
        numbers = file.numbers(row) if indexes else {}
        fields = [part for name in indexes for part in (0, numbers[name])]
        yield row, raw_page, *raw, groups[blob_page], blob_page, *blob, *fields


Groups = dict[str, list[int]]


class MindPage:
    """The rows of MindRecord files in groups with the same value of a column, a few at a time.

    The columns are those of the index. `num_consumer` has no effect. Raises what MindRecordSource does.

    Examples:
        >>> from graphls.dataset.mindrecord.index import MindPage
        >>> from graphls.dataset.mindrecord.writer import FileWriter
        >>> writer = FileWriter("rows.mindrecord")
        >>> _ = writer.add_schema({"label": {"type": "int32"}}, "numbers")
        >>> _ = writer.add_index(["label"])
        >>> _ = writer.write_raw_data([{"label": 3}, {"label": 5}])
        >>> _ = writer.commit()
        >>> page = MindPage("rows.mindrecord")
        >>> page.candidate_fields
        ['label']
    """

    def __init__(self, file_name: Paths, num_consumer: int = 4) -> None:
        for name in file_name if isinstance(file_name, list) else [file_name]:
            check_filename(name)
        self._source = MindRecordSource(file_name, None)
        self._fields = layout_of(self._source.files[0]).indexes
        self._field: str | None = None
        self._groups: Groups = {}

    @property
    def candidate_fields(self) -> list[str]:
        """The columns that rows can be grouped by."""
        return list(self._fields)

    @property
    def category_field(self) -> str | None:
        """The column that rows are grouped by; raises ParamTypeError or MRMDefineCategoryError for other columns."""
        return self._field

    @category_field.setter
    def category_field(self, category_field: str) -> None:
        if not category_field or not isinstance(category_field, str):
            raise ParamTypeError("category_fields", "str")
        if category_field not in self._fields:
            raise MRMDefineCategoryError(f"Field '{category_field}' is not a candidate category field.")
        self._groups, self._field = self._groups_by(category_field), category_field

    def _groups_by(self, field: str) -> Groups:
        """The indices of the rows with each value of a column, by its text, in the order of texts."""
        kind = KINDS[self._source.files[0].schema[field]["type"]]
        rows = ((row, self._source.numbers(row)[field]) for row in range(len(self._source)))
        groups: Groups = {}
        with closing(sqlite3.connect(":memory:")) as database:  # writes numbers as the indexes do
            database.execute(f"CREATE TABLE rows(row INTEGER, value {kind})")
            database.executemany("INSERT INTO rows VALUES(?, ?)", rows)
            for row, text in database.execute("SELECT row, CAST(value AS TEXT) FROM rows ORDER BY 2, 1"):
                groups.setdefault(text, []).append(row)
        return groups

    def read_category_info(self) -> str:
        """The groups as JSON: the number of rows, the index and the value of each."""
        self._check_field()
        groups = enumerate(self._groups.items())
        entries = [{"count": len(rows), "id": index, "name": name} for index, (name, rows) in groups]
        fields = {"categories": entries, "key": f"{self._field}_0"}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    def read_at_page_by_id(self, category_id: int, page: int, num_row: int) -> list[dict[str, Any]]:
        """Some rows of a group, by its index; raises ParamValueError and GraphRuntimeError for missing ones."""
        if type(category_id) is not int or category_id < 0:
            raise ParamValueError("Category id should be int and greater than or equal to 0.")
        self._check_field()
        if category_id >= len(self._groups):
            text = f"Invalid data, category_id: {category_id} must be in the range [0, {len(self._groups)})."
            raise GraphRuntimeError(text)
        return self._page(list(self._groups.values())[category_id], page, num_row)

    def read_at_page_by_name(self, category_name: str, page: int, num_row: int) -> list[dict[str, Any]]:
        """Some rows of a group, by its value; raises ParamValueError and GraphRuntimeError for missing ones."""
        if not isinstance(category_name, str):
            raise ParamValueError("Category name should be str.")
        self._check_field()
        if category_name not in self._groups:
            raise GraphRuntimeError(f"category_name: {category_name} could not found.")
        return self._page(self._groups[category_name], page, num_row)

    def _check_field(self) -> None:
        if self._field is None:
            raise GraphRuntimeError("Invalid data, field: is invalid; set category_field first.")

    def _page(self, rows: list[int], page: int, num_row: int) -> list[dict[str, Any]]:
        if type(page) is not int or page < 0:
            raise ParamValueError("Page should be int and greater than or equal to 0.")
        if type(num_row) is not int or num_row <= 0:
            raise ParamValueError("num_row should be int and greater than 0.")
        chosen = rows[page * num_row : (page + 1) * num_row]
        if not chosen:
            raise GraphRuntimeError(f"Invalid data, page no: {page} or page size: {num_row} is invalid.")
        return [plain_row(self._source.row(row), self._source.files[0].schema) for row in chosen]
