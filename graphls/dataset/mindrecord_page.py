"""Reading MindRecord files by the values of a column: `MindPage`."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import Any

from graphls.dataset.mindrecord import plain_row
from graphls.dataset.mindrecord_checks import check_filename
from graphls.dataset.mindrecord_errors import MRMDefineCategoryError, ParamTypeError, ParamValueError
from graphls.dataset.mindrecord_index import KINDS
from graphls.dataset.mindrecord_pages import layout_of
from graphls.dataset.readers_mindrecord import MindRecordSource
from graphls.ir.errors import GraphRuntimeError

__all__ = ["MindPage"]

Groups = dict[str, list[int]]


class MindPage:
    """The rows of MindRecord files in groups with the same value of a column, a few at a time.

    The columns are those that rows can be found by. `num_consumer` has no effect. Raises what MindRecordSource does.
    """

    def __init__(self, file_name: Any, num_consumer: int = 4) -> None:
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
        """The column that rows are grouped by; raises ParamTypeError or MRMDefineCategoryError where it can be none."""
        return self._field

    @category_field.setter
    def category_field(self, category_field: str) -> None:
        if not category_field or not isinstance(category_field, str):
            raise ParamTypeError("category_fields", "str")
        if category_field not in self._fields:
            raise MRMDefineCategoryError(f"Field '{category_field}' is not a candidate category field.")
        self._groups, self._field = self._found(category_field), category_field

    def _found(self, field: str) -> Groups:
        """The numbers of the rows with each value, by its text, in the order of texts."""
        kind = KINDS[self._source.files[0].schema[field]["type"]]
        rows = ((row, self._source.numbers(row)[field]) for row in range(len(self._source)))
        groups: Groups = {}
        with closing(sqlite3.connect(":memory:")) as database:  # whose texts of numbers are those of the indexes
            database.execute(f"CREATE TABLE rows(number INTEGER, value {kind})")
            database.executemany("INSERT INTO rows VALUES(?, ?)", rows)
            for number, text in database.execute("SELECT number, CAST(value AS TEXT) FROM rows ORDER BY 2, 1"):
                groups.setdefault(text, []).append(number)
        return groups

    def read_category_info(self) -> str:
        """The groups as JSON: the number of rows, the number and the value of each."""
        self._check_field()
        groups = enumerate(self._groups.items())
        entries = [{"count": len(rows), "id": number, "name": name} for number, (name, rows) in groups]
        fields = {"categories": entries, "key": f"{self._field}_0"}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))

    def read_at_page_by_id(self, category_id: int, page: int, num_row: int) -> list[dict[str, Any]]:
        """Some rows of a group, by its number; raises ParamValueError and GraphRuntimeError for those not there."""
        if type(category_id) is not int or category_id < 0:
            raise ParamValueError("Category id should be int and greater than or equal to 0.")
        self._check_field()
        if category_id >= len(self._groups):
            text = f"Invalid data, category_id: {category_id} must be in the range [0, {len(self._groups)})."
            raise GraphRuntimeError(text)
        return self._page(list(self._groups.values())[category_id], page, num_row)

    def read_at_page_by_name(self, category_name: str, page: int, num_row: int) -> list[dict[str, Any]]:
        """Some rows of a group, by its value; raises ParamValueError and GraphRuntimeError for those not there."""
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
            text = f"Invalid data, page no: {page} or page size: {num_row} is invalid."
            raise GraphRuntimeError(text)
        return [plain_row(self._source.row(row), self._source.files[0].schema) for row in chosen]
