"""A MindRecord file that is written: rows collected into pages, and the file made of these at once.

The rows of one BLOB_DATA page are a group; what belongs to them in RAW_DATA is in one page, too, behind that of other
groups. Pages are kept in a file without a name until all are there. file.py describes the format.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphls.dataset.mindrecord.file import MindRecordFile
from graphls.dataset.mindrecord.schema import Schema, blob_fields
from graphls.dataset.readers.files import corrupt
from graphls.files.files import write_parts
from graphls.ir.errors import GraphRuntimeError

_CHUNK = 1 << 20
_LENGTH = 8


@dataclass
class Layout:
    """What the header says of all rows: where pages begin, how far apart they are, and what is in them."""

    schema: Schema
    indexes: list[str]
    desc: str = ""
    header_size: int = 1 << 24
    page_size: int = 1 << 25


def layout_of(file: MindRecordFile) -> Layout:
    """What the header of a file says; raises GraphRuntimeError for one that does not say it."""
    try:
        header, (schema,) = file.header, file.header["schema"]
        indexes = [str(index["index_field"]) for index in header["index_fields"] or []]
        if not set(indexes) <= file.schema.keys() - set(schema["blob_fields"]):
            raise ValueError(indexes)
        sizes = int(header["header_size"]), int(header["page_size"])
        return Layout(file.schema, indexes, str(schema.get("desc", "")), *sizes)
    except (KeyError, TypeError, ValueError) as error:
        raise corrupt(file.path, f"its header does not say what rows are found by ({error!r})") from None


class Pages:
    """The pages of one file, which begin with those of a file that is there already."""

    @classmethod
    def of(cls, file: MindRecordFile, layout: Layout) -> Pages:
        """Pages that begin with those of a file, whose last group is the first that rows are added to."""
        try:
            pages = cls(file.path, layout, file.shards, int(file.header["shard_id"]))
            pages._go_on(file)
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            raise corrupt(file.path, f"its header does not say where rows can be added ({error!r})") from None
        return pages

    def __init__(self, path: str, layout: Layout, shards: list[str], number: int) -> None:
        self.path, self._layout, self._shards, self._number = path, layout, shards, number
        self._file = tempfile.TemporaryFile(dir=Path(path).parent)  # noqa: SIM115  (closed with this object)
        self._pages: list[dict[str, Any]] = []
        self._blobs, self._raws = bytearray(), bytearray()
        self._first = self.count = self._saved = 0
        self._blob_page: int | None = None

    def __len__(self) -> int:
        return self.count

    def add(self, raw: bytes, blob: bytes, saved: int) -> None:
        """Add a row, for which compression saved so many bytes; raises GraphRuntimeError where a page is too short."""
        raw, blob = (len(part).to_bytes(_LENGTH, "little") + part for part in (raw, blob))
        self._check(len(raw), "raw")
        self._check(len(blob), "blob")
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
        """The number of a new page."""
        same = sum(page["page_type"] == kind for page in self._pages)
        self._pages.append({
            "end_row_id": 0, "page_id": len(self._pages), "page_size": 0, "page_type": kind, "page_type_id": same,
            "row_group_ids": [], "shard_id": self._number, "start_row_id": 0,
        })  # fmt: skip
        return len(self._pages) - 1

    def _close_group(self) -> None:
        """Write the rows that were collected into their two pages."""
        if self._blob_page is None:
            return
        page = self._pages[self._blob_page]
        group = {"id": 0, "offset": 0}
        page |= {"start_row_id": self._first, "end_row_id": self.count, "row_group_ids": [group]}
        self._append(page, self._blobs)
        raw = next((page for page in reversed(self._pages) if page["page_type"] == "RAW_DATA"), None)
        if raw is None or raw["page_size"] + len(self._raws) > self._layout.page_size:
            raw = self._pages[self._begin("RAW_DATA")]
        raw["row_group_ids"].append({"id": page["page_type_id"], "offset": raw["page_size"]})
        self._append(raw, self._raws)
        self._first, self._blob_page = self.count, None
        self._blobs, self._raws = bytearray(), bytearray()

    def _append(self, page: dict[str, Any], data: bytearray) -> None:
        self._file.seek(page["page_id"] * self._layout.page_size + page["page_size"])
        self._file.write(data)
        page["page_size"] += len(data)

    def _go_on(self, file: MindRecordFile) -> None:
        self._pages, self.count = [_page(page) for page in file.header["page"] or []], len(file)
        self._saved = int(file.header.get("compression_size", 0))
        with open(self.path, "rb") as data:
            data.seek(self._layout.header_size)
            shutil.copyfileobj(data, self._file, _CHUNK)
        for page in [page for page in self._pages if page["page_type"] == "BLOB_DATA"][-1:]:
            self._reopen(page)

    def _reopen(self, page: dict[str, Any]) -> None:
        number = page["page_type_id"]
        raw = next(p for p in self._pages if any(g["id"] == number for g in _groups(p)))
        (group,) = (g for g in _groups(raw) if g["id"] == number)
        self._first, self._blob_page = page["start_row_id"], page["page_id"]
        self._raws, self._blobs = self._cut(raw, group["offset"]), self._cut(page, 0)
        raw["row_group_ids"].remove(group)

    def _cut(self, page: dict[str, Any], offset: int) -> bytearray:
        """What a page has behind an offset, where it now ends."""
        self._file.seek(page["page_id"] * self._layout.page_size + offset)
        data = bytearray(self._file.read(page["page_size"] - offset))
        page["page_size"] = offset
        return data

    def write(self) -> None:
        """Write the file whole; raises GraphRuntimeError for a header that is too long, and GraphFileError."""
        self._close_group()
        write_parts(Path(self.path), self._parts(self._header()))

    def _header(self) -> bytes:
        layout = self._layout
        schema = {"blob_fields": blob_fields(layout.schema), "desc": layout.desc, "schema": layout.schema}
        fields = {
            "header_size": layout.header_size,
            "index_fields": [{"index_field": name, "schema_id": 0} for name in layout.indexes] or None,
            "page": self._pages or None, "page_size": layout.page_size, "compression_size": max(self._saved, 0),
            "schema": [schema], "shard_addresses": self._shards, "shard_id": self._number, "statistics": None,
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
        """Let go of the pages."""
        self._file.close()


def _page(page: dict[str, Any]) -> dict[str, Any]:
    """The description of a page in a header, all of it; raises KeyError, TypeError or ValueError otherwise."""
    numbers = ("end_row_id", "page_id", "page_size", "page_type_id", "shard_id", "start_row_id")
    groups = [{"id": int(group["id"]), "offset": int(group["offset"])} for group in page["row_group_ids"]]
    known = {"page_type": str(page["page_type"]), "row_group_ids": groups}
    return dict(sorted(({name: int(page[name]) for name in numbers} | known).items()))


def _groups(page: dict[str, Any]) -> list[dict[str, Any]]:
    return page["row_group_ids"] if page["page_type"] == "RAW_DATA" else []
