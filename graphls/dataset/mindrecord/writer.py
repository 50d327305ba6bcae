"""FileWriter, which collects rows into pages and writes MindRecord files of them at once.

The rows of one BLOB_DATA page are a group; their part of RAW_DATA is in one page, too, after that of other groups.
Pages are collected in a temporary file until all are complete. reader.py describes the format.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError
from graphls.base.files.files import write_parts
from graphls.dataset.mindrecord import schema as schemas
from graphls.dataset.mindrecord.encoding import compressed, packed
from graphls.dataset.mindrecord.index import remove_index, write_index
from graphls.dataset.mindrecord.reader import Layout, MindRecordFile, layout_of
from graphls.dataset.mindrecord.schema import (
    MRMAddSchemaError,
    MRMGetMetaError,
    ParamTypeError,
    ParamValueError,
    Row,
    Schema,
)
from graphls.dataset.readers.files import corrupt

__all__ = ["FAILED", "SUCCESS", "FileWriter"]

Page = dict[str, Any]
"""The description of a page in a header."""
_CHUNK = 1 << 20
_LENGTH = 8


class Pages:
    """The pages of one file, which may begin with those of an existing file."""

    @classmethod
    def of(cls, file: MindRecordFile, layout: Layout) -> Pages:
        """The pages of an existing file, to whose last group rows are added first."""
        try:
            pages = cls(file.path, layout, file.shards, int(file.header["shard_id"]))
            pages._continue(file)
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            raise corrupt(file.path, f"its header does not say where rows can be added ({error!r})") from None
        return pages

    def __init__(self, path: str, layout: Layout, shards: list[str], shard: int) -> None:
        self.path, self._layout, self._shards, self._shard = path, layout, shards, shard
        self._file = tempfile.TemporaryFile(dir=Path(path).parent)  # noqa: SIM115  (closed with this object)
        self._pages: list[Page] = []
        self._blobs, self._raws = bytearray(), bytearray()
        self._first = self.count = self._saved = 0
        self._blob_page: int | None = None

    def __len__(self) -> int:
        return self.count

    def add(self, raw: bytes, blob: bytes, saved: int) -> None:
        """Add a row, for which compression saved `saved` bytes; raises GraphRuntimeError where a page is too short."""
        raw, blob = (len(part).to_bytes(_LENGTH, "little") + part for part in (raw, blob))
        self._check(len(raw), "raw")
        self._check(len(blob), "blob")
        # A group ends where either of its pages is full, as each row is in the same group of both.
        room = self._layout.page_size - max(len(self._blobs) + len(blob), len(self._raws) + len(raw))
        if room < 0:
            self._close_group()
        if self._blob_page is None:
            self._blob_page = self._begin("BLOB_DATA")
        self._blobs += blob
        self._raws += raw
        self.count += 1
        self._saved += saved

    def _check(self, length: int, kind: str) -> None:
        if length > self._layout.page_size:
            text = (
                f"Invalid data, Page size: {self._layout.page_size} is too small to save a {kind} row. Please try to "
                "use the mindrecord api 'set_page_size(value)' to enable larger page size, and the value range is in "
                "[32768 bytes, 268435456 bytes]."
            )
            raise GraphRuntimeError(text)

    def _begin(self, kind: str) -> int:
        """The index of a new page."""
        same = sum(page["page_type"] == kind for page in self._pages)
        self._pages.append({
            "end_row_id": 0, "page_id": len(self._pages), "page_size": 0, "page_type": kind, "page_type_id": same,
            "row_group_ids": [], "shard_id": self._shard, "start_row_id": 0,
        })  # fmt: skip
        return len(self._pages) - 1

    def _close_group(self) -> None:
        """Write the collected rows into their two pages."""
        if self._blob_page is None:
            return
        page = self._pages[self._blob_page]
        group = {"id": 0, "offset": 0}
        page |= {"start_row_id": self._first, "end_row_id": self.count, "row_group_ids": [group]}
        self._append(page, self._blobs)
        # Numbers take less room than arrays: the rows of several groups share a RAW_DATA page as long as they fit.
        raw = next((page for page in reversed(self._pages) if page["page_type"] == "RAW_DATA"), None)
        if raw is None or raw["page_size"] + len(self._raws) > self._layout.page_size:
            raw = self._pages[self._begin("RAW_DATA")]
        raw["row_group_ids"].append({"id": page["page_type_id"], "offset": raw["page_size"]})
        self._append(raw, self._raws)
        self._first, self._blob_page = self.count, None
        self._blobs, self._raws = bytearray(), bytearray()

    def _append(self, page: Page, data: bytearray) -> None:
        self._file.seek(page["page_id"] * self._layout.page_size + page["page_size"])
        self._file.write(data)
        page["page_size"] += len(data)

    def _continue(self, file: MindRecordFile) -> None:
        self._pages, self.count = [_page(page) for page in file.header["page"] or []], len(file)
        self._saved = int(file.header.get("compression_size", 0))
        with open(self.path, "rb") as data:
            data.seek(self._layout.header_size)
            shutil.copyfileobj(data, self._file, _CHUNK)
        for page in [page for page in self._pages if page["page_type"] == "BLOB_DATA"][-1:]:
            self._reopen(page)

    def _reopen(self, page: Page) -> None:
        """Remove the rows of the last group from its pages, so that further rows are added to it."""
        group_id = page["page_type_id"]
        raw = next(p for p in self._pages if any(g["id"] == group_id for g in _groups(p)))
        (group,) = (g for g in _groups(raw) if g["id"] == group_id)
        self._first, self._blob_page = page["start_row_id"], page["page_id"]
        self._raws, self._blobs = self._content_from(raw, group["offset"]), self._content_from(page, 0)
        raw["row_group_ids"].remove(group)

    def _content_from(self, page: Page, offset: int) -> bytearray:
        """The content of a page from an offset on, which is then its end."""
        self._file.seek(page["page_id"] * self._layout.page_size + offset)
        data = bytearray(self._file.read(page["page_size"] - offset))
        page["page_size"] = offset
        return data

    def write(self) -> None:
        """Write the file completely; raises GraphRuntimeError for a header that is too long, and GraphFileError."""
        self._close_group()
        write_parts(Path(self.path), self._parts(self._header()))

    def _header(self) -> bytes:
        layout = self._layout
        schema = {"blob_fields": schemas.blob_fields(layout.schema), "desc": layout.desc, "schema": layout.schema}
        fields = {
            "header_size": layout.header_size,
            "index_fields": [{"index_field": name, "schema_id": 0} for name in layout.indexes] or None,
            "page": self._pages or None, "page_size": layout.page_size, "compression_size": max(self._saved, 0),
            "schema": [schema], "shard_addresses": self._shards, "shard_id": self._shard, "statistics": None,
            "version": "3.0",
        }  # fmt: skip
        header = json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
        if len(header) + _LENGTH > layout.header_size:
            text = f"shard header is too big: it has {len(header)} bytes; give set_header_size a larger number."
            raise GraphRuntimeError(text)
        return len(header).to_bytes(_LENGTH, "little") + header

    def _parts(self, header: bytes) -> Iterator[bytes]:
        yield header
        if self._pages:
            yield bytes(self._layout.header_size - len(header))
        self._file.seek(0)
        while part := self._file.read(_CHUNK):
            yield part

    def close(self) -> None:
        """Release the pages."""
        self._file.close()


def _page(page: Page) -> Page:
    """The complete description of a page in a header; raises KeyError, TypeError or ValueError otherwise."""
    numbers = ("end_row_id", "page_id", "page_size", "page_type_id", "shard_id", "start_row_id")
    groups = [{"id": int(group["id"]), "offset": int(group["offset"])} for group in page["row_group_ids"]]
    known = {"page_type": str(page["page_type"]), "row_group_ids": groups}
    return dict(sorted(({name: int(page[name]) for name in numbers} | known).items()))


def _groups(page: Page) -> list[Page]:
    return page["row_group_ids"] if page["page_type"] == "RAW_DATA" else []


SUCCESS, FAILED = 0, 1
"""Results that older scripts compare with; methods that fail raise."""


class FileWriter:
    """Writes rows to a MindRecord file, or to `shard_num` files with numbers after the name.

    Nothing is written before `commit`, which writes each file at once; `overwrite` permits that files are replaced.
    Rows that do not fit the schema are left out with a warning. Raises ParamValueError for arguments that do not fit.

    Examples:
        >>> from graphls import dataset as ds
        >>> from graphls.dataset.mindrecord.writer import FileWriter
        >>> writer = FileWriter("rows.mindrecord")
        >>> _ = writer.add_schema({"label": {"type": "int32"}, "name": {"type": "string"}}, "animals")
        >>> _ = writer.write_raw_data([{"label": 3, "name": "cat"}, {"label": 5, "name": "dog"}])
        >>> _ = writer.commit()
        >>> [int(label) for label, name in ds.MindDataset("rows.mindrecord", shuffle=False)]
        [3, 5]
    """

    def __init__(self, file_name: str, shard_num: int = 1, overwrite: bool = False) -> None:
        schemas.check_filename(file_name)
        schemas.check_count(shard_num)
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
        """A writer that adds rows to a file; raises GraphRuntimeError for one that is missing or damaged."""
        schemas.check_filename(file_name)
        if not os.path.isfile(file_name):
            raise GraphRuntimeError(f"The input: {file_name} is not exists.")
        file = MindRecordFile(file_name)
        writer = cls(file_name)
        writer._layout = layout_of(file)
        writer._files = [Pages.of(file, writer._layout)]
        return writer

    def add_schema(self, content: Schema, desc: str | None = None) -> None:
        """Set the columns of rows: `{"label": {"type": "int32"}, "x": {"type": "float32", "shape": [-1, 2]}}`.

        Raises MRMInvalidSchemaError, MRMBuildSchemaError for an invalid shape, MRMAddSchemaError for a second schema.
        """
        schema = schemas.checked_schema(content)
        if self._layout.schema:
            raise MRMAddSchemaError
        self._layout.schema, self._layout.desc = schema, desc or ""

    def add_index(self, index_fields: list[str]) -> None:
        """Choose the columns of numbers and texts that are indexed; without it all are.

        Raises ParamTypeError, MRMDefineIndexError for columns of bytes and arrays, MRMGetMetaError without a schema,
        GraphRuntimeError for columns that are missing, or chosen twice.
        """
        if not index_fields or not isinstance(index_fields, list):
            raise ParamTypeError("index_fields", "list")
        if not self._layout.schema:
            raise MRMGetMetaError
        for field in index_fields:
            schemas.check_index(field, self._layout.schema, self._layout.indexes)
            self._layout.indexes.append(field)

    def set_header_size(self, header_size: int) -> None:
        """Set the bytes reserved for the header, 16 KiB to 128 MiB; raises GraphRuntimeError for other numbers."""
        self._check_size("header", header_size, schemas.HEADER_SIZES)
        self._layout.header_size = header_size

    def set_page_size(self, page_size: int) -> None:
        """Set the bytes of a page, 32 KiB to 256 MiB; raises GraphRuntimeError for other numbers."""
        self._check_size("page", page_size, schemas.PAGE_SIZES)
        self._layout.page_size = page_size

    def _check_size(self, what: str, size: object, limits: tuple[int, int]) -> None:
        schemas.check_size(what, size, limits)
        if self._files:
            raise GraphRuntimeError(f"The {what} size is to be set before rows are written.")

    def open_and_set_header(self) -> None:
        """Check the files and the schema before the first row, as older versions of MindSpore require."""
        self._open()

    def write_raw_data(self, raw_data: list[Row], parallel_writer: bool = False) -> None:
        """Add rows, dicts of their columns; `parallel_writer` changes nothing but must stay the same.

        Rows that do not fit the schema are removed from the list. Raises ParamTypeError for anything but rows,
        GraphRuntimeError where none fits, where a file exists already, and after `commit`.

        Raises GraphTypeError for a `parallel_writer` that is not a bool.
        """
        if not isinstance(parallel_writer, bool):
            raise GraphTypeError("The parameter `parallel_writer` must be bool.")
        if self._parallel not in (None, parallel_writer):
            raise GraphRuntimeError("The parameter `parallel_writer` must be consistent during use.")
        self._parallel = parallel_writer
        if self._is_flushed:
            raise GraphRuntimeError(_FLUSHED)
        self._open()
        schemas.remove_misfits(raw_data, self._layout.schema)
        rows = [(packed(schemas.raw_entries(self._layout.schema, row)), self._blob(row)) for row in raw_data]
        start = 0
        for file, count in zip(self._files, self._row_counts(len(rows)), strict=True):
            for raw, blob in rows[start : start + count]:
                file.add(raw, *blob)
            start += count

    def _open(self) -> None:
        if self._files:
            return
        for path in self._paths:
            schemas.check_path(path, self._overwrite)
        layout = self._layout
        if not layout.schema:
            text = "Invalid data, schema is not found in header, please use 'add_schema' to add a schema for new"
            raise GraphRuntimeError(f"{text} mindrecord files.")
        blobs = schemas.blob_fields(layout.schema)
        layout.indexes = layout.indexes or [name for name in layout.schema if name not in blobs]
        names = [os.path.basename(path) for path in self._paths]
        self._files = [Pages(path, layout, names, shard) for shard, path in enumerate(self._paths)]

    def _blob(self, row: Row) -> tuple[bytes, int]:
        """The bytes and arrays of a row, and the number of bytes saved by compression."""
        arrays = [row[name] for name in schemas.blob_fields(self._layout.schema)]
        parts = [compressed(v) if _is_integer(v) else bytes(v) for v in arrays]
        saved = sum(v.nbytes - len(part) for v, part in zip(arrays, parts, strict=True) if _is_integer(v))
        if len(parts) < 2:
            return (parts[0] if parts else bytes(4)), saved
        return b"".join(len(part).to_bytes(8, "big") + part for part in parts), saved

    def _row_counts(self, count: int) -> list[int]:
        """The number of new rows for each file: an equal part, and one more for those with the fewest rows so far."""
        least, more = divmod(count, len(self._files))
        chosen = sorted(range(len(self._files)), key=lambda i: len(self._files[i]))[:more]
        return [least + (i in chosen) for i in range(len(self._files))]

    def commit(self) -> None:
        """Write the files and their indexes; raises GraphFileError, and GraphRuntimeError for a header too long.

        An index is removed before its file is replaced, so that it never describes another file.
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


def _is_integer(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "i"
