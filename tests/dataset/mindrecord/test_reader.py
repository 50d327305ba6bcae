"""MindRecord files: rows as MindSpore 2.10 gives them for pages that it wrote, and files that are damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls import dataset as ds
from graphls.dataset.mindrecord.encoding import unpacked
from graphls.dataset.mindrecord.reader import FileReader
from graphls.ir.errors import GraphlsError, GraphRuntimeError, GraphTypeError, GraphValueError

# The pages that MindSpore 2.10 wrote for three rows of these columns.
SCHEMA = {
    "data": {"type": "bytes"}, "f": {"type": "float64"}, "label": {"type": "int32"}, "name": {"type": "string"},
    "x": {"shape": [-1, 2], "type": "float32"},
}  # fmt: skip
BLOB = (
    b"\x1b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00"
    b"\x00\x00\x00\x00\x00\x80?$\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x01\x01\x01\x01\x00\x00\x00"
    b"\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00\x00@@-\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x05\x02\x02\x02\x02\x02\x00\x00\x00\x00\x00\x00\x00\x18\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00"
    b"@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@"
)
RAW = (
    b"\x17\x00\x00\x00\x00\x00\x00\x00\x83\xa1f\xca\x00\x00\x00\x00\xa5label\x00\xa4name\xa2n0"
    b"\x17\x00\x00\x00\x00\x00\x00\x00\x83\xa1f\xca?\x00\x00\x00\xa5label\x03\xa4name\xa2n1"
    b"\x17\x00\x00\x00\x00\x00\x00\x00\x83\xa1f\xca?\x80\x00\x00\xa5label\x06\xa4name\xa2n2"
)
INTEGERS = {"a": {"shape": [-1], "type": "int32"}, "b": {"shape": [-1], "type": "int64"}}
INTEGERS_BLOB = (
    b"'\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x02\x10\x01\xd4\xfe\x00\x00\x00\x00\x00"
    b"\x00\x00\x0f\x00\x00\x00\x030\x01\x00\x00\x00\x00\x00\x01\x00\x00\xfb!\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x07\x00\x00\x00\x02\x00\x01\xfe\x00\x00\x00\x00\x00\x00\x00\n\x00\x00\x00\x02\x80p\x11\x01\x00\xfb"
)
NO_NUMBERS = b"\x05\x00\x00\x00\x00\x00\x00\x00\x81\xa2id\x00"
START, PAGE = 2048, 512


def header(blob: bytes, raw: bytes, schema: Any, blobs: list[str], shards: list[str]) -> dict[str, Any]:
    return {
        "header_size": START, "page_size": PAGE, "compression_size": 17, "shard_addresses": shards,
        "schema": [{"blob_fields": blobs, "desc": "", "schema": schema}],
        "page": [{"page_id": 0, "page_size": len(blob), "page_type": "BLOB_DATA"},
                 {"page_id": 1, "page_size": len(raw), "page_type": "RAW_DATA"}],
    }  # fmt: skip


def write(path: Path, head: Any, blob: bytes = BLOB, raw: bytes = RAW) -> str:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    front = (len(text).to_bytes(8, "little") + text).ljust(START, b"\0")
    path.write_bytes(front + blob.ljust(PAGE, b"\0") + raw)
    return str(path)


def head_of_rows(shards: list[str] | None = None) -> dict[str, Any]:
    return header(BLOB, RAW, SCHEMA, ["data", "x"], shards or ["a"])


def rows(dataset: ds.Dataset) -> list[list[Any]]:
    return [list(row) for row in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)]


def test_rows_have_the_dtypes_and_shapes_of_the_schema(tmp_path: Path) -> None:
    dataset = ds.MindDataset(write(tmp_path / "a", head_of_rows()), shuffle=False)
    assert dataset.get_col_names() == ["data", "f", "label", "name", "x"] and dataset.get_dataset_size() == 3
    found = rows(dataset)
    assert [column.dtype.str[1:] for column in found[1]] == ["u1", "f8", "i4", "U2", "f4"]
    assert [column.tolist() for column in found[1]] == [[1, 1, 1, 1], 0.5, 3, "n1", [[0, 1], [2, 3]]]
    assert [row[4].shape for row in found] == [(1, 2), (2, 2), (3, 2)]


def test_columns_are_chosen_and_rows_shuffled_and_divided(tmp_path: Path) -> None:
    path = write(tmp_path / "a", head_of_rows())
    assert sorted(int(label) for (label,) in rows(ds.MindDataset(path, ["label"]))) == [0, 3, 6]
    shard = ds.MindDataset(path, ["name", "label"], num_shards=2, shard_id=1, shuffle=False)
    assert [column.tolist() for column in rows(shard)[0]] == ["n1", 3]
    with pytest.raises(GraphValueError, match="no column 'y'"):
        ds.MindDataset(path, ["y"])
    with pytest.raises(GraphValueError, match="duplicate column names are not allowed: f"):
        ds.MindDataset(path, ["f", "label", "f"])
    for names in ("label", [3]):
        with pytest.raises(GraphTypeError, match="columns_list"):
            ds.MindDataset(path, names)  # type: ignore[arg-type]


@pytest.mark.parametrize("saved", [17, 0, -3])  # MindSpore decompresses whatever its header says was saved
def test_integers_are_stored_in_as_few_bytes_as_each_needs(tmp_path: Path, saved: int) -> None:
    raw = NO_NUMBERS * 2
    head = header(INTEGERS_BLOB, raw, INTEGERS, ["a", "b"], ["a"]) | {"compression_size": saved}
    path = write(tmp_path / "a", head, INTEGERS_BLOB, raw)
    first, second = rows(ds.MindDataset(path, shuffle=False))
    assert [column.dtype for column in first] == [np.int32, np.int64]
    assert [column.tolist() for column in first] == [[1, -300], [1, 2**40, -5]]
    assert [column.tolist() for column in second] == [[1, -2], [70000, -5]]


def test_one_path_stands_for_all_files_that_were_written_with_it(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, head_of_rows(["a", "b"])) for name in ("a", "b")]
    assert ds.MindDataset(paths[0]).get_dataset_size() == 6
    assert ds.MindDataset([paths[0]]).get_dataset_size() == 3
    write(tmp_path / "a", head_of_rows(["a", "c"]))
    with pytest.raises(GraphValueError, match="did not match any files"):
        ds.MindDataset(paths[0])


def test_rows_are_read_one_by_one(tmp_path: Path) -> None:
    reader = FileReader(write(tmp_path / "a", head_of_rows()), columns=["data", "label", "f"])
    assert reader.len() == 3 and reader.schema() == SCHEMA
    assert list(reader.get_next())[1] == {"data": b"\1\1\1\1", "label": 3, "f": 0.5}
    reader.close()


def changed(**fields: Any) -> dict[str, Any]:
    return head_of_rows() | fields


def page(number: int, size: int) -> dict[str, Any]:
    return {"page_id": number, "page_size": size, "page_type": "RAW_DATA"}


def schema(**fields: Any) -> dict[str, Any]:
    return changed(schema=[{"blob_fields": ["data", "x"], "schema": SCHEMA | fields}])


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (b"[" * 2000, "not JSON"),
        (b"[]", "not a JSON object"),
        ({}, "not that of a MindRecord"),
        (changed(page_size=10**30), "not there"),
        (changed(header_size=-5), "not there"),
        (changed(page=[page(1, 10**12)]), "not there"),
        (changed(page=[page(1, 20)]), "has less left"),
        (changed(page=[page(1, len(RAW))] * 2), "twice"),
        (changed(page=[page(1, len(RAW))]), "3 rows of numbers, but 0 of arrays"),
        (changed(page=3), "not that of a MindRecord"),
        (schema(label={"type": "object"}), "not that of a MindRecord"),
        (schema(label={"type": ["int32"]}), "not that of a MindRecord"),
        (schema(y={"type": "int32", "shape": [2]}), "not that of a MindRecord"),
        (schema(x={"type": "float32", "shape": [None]}), "not that of a MindRecord"),
    ],
)
def test_damaged_headers(tmp_path: Path, head: Any, message: str) -> None:
    with pytest.raises(GraphRuntimeError, match=message):
        ds.MindDataset(write(tmp_path / "a", head))


@pytest.mark.parametrize(
    "head",
    [
        schema(x={"type": "float32", "shape": [7, 7]}),
        schema(x={"type": "int32", "shape": [-1]}),
        schema(label={"type": "string"}),
        schema(name={"type": "int32"}),
        schema(other={"type": "int32"}),
    ],
)
def test_rows_that_do_not_fit_the_schema(tmp_path: Path, head: Any) -> None:
    with pytest.raises(GraphlsError, match="row 0 is damaged"):
        rows(ds.MindDataset(write(tmp_path / "a", head), shuffle=False))


def test_every_changed_byte_gives_rows_or_one_error(tmp_path: Path) -> None:
    whole = Path(write(tmp_path / "a", head_of_rows())).read_bytes()
    draws = np.random.default_rng(0)
    for position in [*range(0, 8), *range(START, START + len(BLOB), 3), *range(START + PAGE, len(whole))]:
        data = bytearray(whole)
        data[position] = draws.integers(256)
        (tmp_path / "a").write_bytes(data)
        try:
            list(FileReader(str(tmp_path / "a")).get_next())
        except GraphlsError as error:
            assert "\n" not in str(error)


@pytest.mark.parametrize(
    "data", [b"", b"\x81", b"\x81\xa1a", b"\x81\xa1\xff\x01", b"\x80\x01", b"\x90", b"\xdf\xff\xff\xff\xff"]
)
def test_maps_that_are_none(data: bytes) -> None:
    with pytest.raises(GraphValueError):
        unpacked(data)


def test_values_of_every_length() -> None:
    assert unpacked(b"\x83\xa1a\xd9\x01x\xa1b\xd2\xff\xfe\xee\x90\xa1c\xff") == {"a": "x", "b": -70000, "c": -1}
    assert unpacked(b"\xde\x00\x02\xa1a\xc0\xa1b\xc3") == {"a": None, "b": True}
