"""Writing MindRecord files: `FileWriter`."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from graphls.dataset.mindrecord.encoding import compressed, packed
from graphls.dataset.mindrecord.errors import MRMAddSchemaError, MRMGetMetaError, ParamTypeError, ParamValueError
from graphls.dataset.mindrecord.file import MindRecordFile
from graphls.dataset.mindrecord.index import remove_index, write_index
from graphls.dataset.mindrecord.pages import Layout, Pages, layout_of
from graphls.dataset.mindrecord.schema import (
    HEADER_SIZES,
    PAGE_SIZES,
    Row,
    blob_fields,
    check_count,
    check_filename,
    check_index,
    check_path,
    check_size,
    checked_schema,
    keep_fitting,
    raw_entries,
)
from graphls.ir.errors import GraphRuntimeError, GraphTypeError

__all__ = ["FAILED", "SUCCESS", "FileWriter"]

SUCCESS, FAILED = 0, 1
"""What older scripts compare with; methods that fail raise."""


class FileWriter:
    """Writes rows to a MindRecord file, or to `shard_num` files, which get numbers behind the name.

    Nothing is written before `commit`, which writes each file at once; `overwrite` permits that files are replaced.
    Rows that do not fit the schema are left out with a warning. Raises ParamValueError for arguments that do not fit.
    """

    def __init__(self, file_name: str, shard_num: int = 1, overwrite: bool = False) -> None:
        check_filename(file_name)
        check_count(shard_num)
        if not isinstance(overwrite, bool):
            raise ParamValueError("Parameter overwrite's type is not bool.")
        digits = len(str(shard_num - 1))
        self._paths = [f"{file_name}{i:0{digits}}" for i in range(shard_num)] if shard_num > 1 else [file_name]
        self._overwrite = overwrite
        self._layout = Layout({}, [])
        self._files: list[Pages] = []
        self._parallel: bool | None = None
        self._is_flushed = False

    @classmethod
    def open_for_append(cls, file_name: str) -> FileWriter:
        """A writer that adds rows to a file; raises GraphRuntimeError for one that is not there or is damaged."""
        check_filename(file_name)
        if not os.path.isfile(file_name):
            raise GraphRuntimeError(f"The input: {file_name} is not exists.")
        file = MindRecordFile(file_name)
        writer = cls(file_name)
        writer._layout = layout_of(file)
        writer._files = [Pages.of(file, writer._layout)]
        return writer

    def add_schema(self, content: dict[str, Any], desc: str | None = None) -> None:
        """Say what columns rows have: `{"label": {"type": "int32"}, "x": {"type": "float32", "shape": [-1, 2]}}`.

        Raises MRMInvalidSchemaError, MRMBuildSchemaError for a shape that is none, MRMAddSchemaError for a second one.
        """
        schema = checked_schema(content)
        if self._layout.schema:
            raise MRMAddSchemaError
        self._layout.schema, self._layout.desc = schema, desc or ""

    def add_index(self, index_fields: list[str]) -> None:
        """Choose the columns of numbers and texts that rows can be found by; without it all are.

        Raises ParamTypeError, MRMDefineIndexError for columns of bytes and arrays, MRMGetMetaError without a schema,
        GraphRuntimeError for columns that are not there, or are chosen twice.
        """
        if not index_fields or not isinstance(index_fields, list):
            raise ParamTypeError("index_fields", "list")
        if not self._layout.schema:
            raise MRMGetMetaError
        for field in index_fields:
            check_index(field, self._layout.schema, self._layout.indexes)
            self._layout.indexes.append(field)

    def set_header_size(self, header_size: int) -> None:
        """Set the bytes that are kept for the header, 16 KiB to 128 MiB; raises GraphRuntimeError for other numbers."""
        self._check_size("header", header_size, HEADER_SIZES)
        self._layout.header_size = header_size

    def set_page_size(self, page_size: int) -> None:
        """Set the bytes of a page, 32 KiB to 256 MiB; raises GraphRuntimeError for other numbers."""
        self._check_size("page", page_size, PAGE_SIZES)
        self._layout.page_size = page_size

    def _check_size(self, what: str, size: Any, limits: tuple[int, int]) -> None:
        check_size(what, size, limits)
        if self._files:
            raise GraphRuntimeError(f"The {what} size is to be set before rows are written.")

    def open_and_set_header(self) -> None:
        """Check the files and the schema before the first row, as older versions of MindSpore ask for."""
        self._open()

    def write_raw_data(self, raw_data: list[Row], parallel_writer: bool = False) -> None:
        """Add rows, dicts of their columns; `parallel_writer` changes nothing but must stay the same.

        Those that do not fit the schema are taken out of the list. Raises ParamTypeError for what are no rows,
        GraphRuntimeError where none fits, where a file is there already, and after `commit`.
        """
        if not isinstance(parallel_writer, bool):
            raise GraphTypeError("The parameter `parallel_writer` must be bool.")
        if self._parallel not in (None, parallel_writer):
            raise GraphRuntimeError("The parameter `parallel_writer` must be consistent during use.")
        self._parallel = parallel_writer
        if self._is_flushed:
            raise GraphRuntimeError(_FLUSHED)
        self._open()
        keep_fitting(raw_data, self._layout.schema)
        rows = [(packed(raw_entries(self._layout.schema, row)), self._blob(row)) for row in raw_data]
        start = 0
        for file, count in zip(self._files, self._shares(len(rows)), strict=True):
            for raw, blob in rows[start : start + count]:
                file.add(raw, *blob)
            start += count

    def _open(self) -> None:
        if self._files:
            return
        for path in self._paths:
            check_path(path, self._overwrite)
        layout = self._layout
        if not layout.schema:
            text = "Invalid data, schema is not found in header, please use 'add_schema' to add a schema for new"
            raise GraphRuntimeError(f"{text} mindrecord files.")
        layout.indexes = layout.indexes or [name for name in layout.schema if name not in blob_fields(layout.schema)]
        names = [os.path.basename(path) for path in self._paths]
        self._files = [Pages(path, layout, names, number) for number, path in enumerate(self._paths)]

    def _blob(self, row: Row) -> tuple[bytes, int]:
        """The bytes and arrays of a row, and how many bytes compression saved."""
        arrays = [row[name] for name in blob_fields(self._layout.schema)]
        parts = [compressed(v) if _is_integer(v) else bytes(v) for v in arrays]
        saved = sum(v.nbytes - len(part) for v, part in zip(arrays, parts, strict=True) if _is_integer(v))
        if len(parts) < 2:
            return (parts[0] if parts else bytes(4)), saved
        return b"".join(len(part).to_bytes(8, "big") + part for part in parts), saved

    def _shares(self, count: int) -> list[int]:
        """How many of some rows each file gets: as many as the others, or one more where it has the fewest so far."""
        least, more = divmod(count, len(self._files))
        chosen = sorted(range(len(self._files)), key=lambda i: len(self._files[i]))[:more]
        return [least + (number in chosen) for number in range(len(self._files))]

    def commit(self) -> None:
        """Write the files and their indexes; raises GraphFileError, and GraphRuntimeError for a header too long.

        An index is taken away before its file is replaced, so that none is beside a file that it does not belong to.
        """
        self._open()
        if self._is_flushed:
            return
        for file in self._files:
            remove_index(file.path)
            file.write()
        for file in self._files:
            write_index(file.path, self._layout.indexes)
            file.close()
        self._is_flushed = True


_FLUSHED = (
    "Not allowed to call `write_raw_data` on flushed MindRecord files. When creating new MindRecord files, please "
    "remove `commit` before `write_raw_data`. In other cases, when appending to existing MindRecord files, please call "
    "`open_for_append` first and then `write_raw_data`."
)


def _is_integer(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "i"
