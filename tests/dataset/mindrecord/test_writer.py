"""FileWriter: files and indexes with the bytes of MindSpore 2.10, rows that come back, and what it refuses."""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls import dataset as ds
from graphls.compat.hook.script import run_script
from graphls.dataset.mindrecord import schema as errors
from graphls.dataset.mindrecord.encoding import compressed, decompressed, packed, unpacked
from graphls.dataset.mindrecord.reader import FileReader
from graphls.dataset.mindrecord.writer import FileWriter
from graphls.ir.errors import GraphFileError, GraphlsError, GraphRuntimeError, GraphTypeError

SCHEMA: dict[str, Any] = {
    "name": {"type": "string"}, "label": {"type": "int32"}, "f": {"type": "float64"}, "data": {"type": "bytes"},
    "x": {"type": "float32", "shape": [-1, 2]}, "k": {"type": "int32", "shape": [-1]},
}  # fmt: skip
# What MindSpore 2.10 wrote for the three rows of `row` with these sizes.
HEADER = (
    '{"header_size":16384,"index_fields":[{"index_field":"f","schema_id":0},{"index_field":"label","schema_id":0},'
    '{"index_field":"name","schema_id":0}],"page":[{"end_row_id":3,"page_id":0,"page_size":162,"page_type":"BLOB_DATA",'
    '"page_type_id":0,"row_group_ids":[{"id":0,"offset":0}],"shard_id":0,"start_row_id":0},{"end_row_id":0,"page_id":1,'
    '"page_size":101,"page_type":"RAW_DATA","page_type_id":0,"row_group_ids":[{"id":0,"offset":0}],"shard_id":0,'
    '"start_row_id":0}],"page_size":32768,"compression_size":0,"schema":[{"blob_fields":["data","k","x"],"desc":"desc",'
    '"schema":{"data":{"type":"bytes"},"f":{"type":"float64"},"k":{"shape":[-1],"type":"int32"},"label":'
    '{"type":"int32"},"name":{"type":"string"},"x":{"shape":[-1,2],"type":"float32"}}}],"shard_addresses":["a"],'
    '"shard_id":0,"statistics":null,"version":"3.0"}'
)
BLOB = (
    b"%\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1x\0\0\0\0\0\0\0\x0c\0\0\0\3\x18\0\xd4\xfep\x11\1\0\0\0\0\0\0\0\0\0.\0\0\0\0\0\0\0\0"
    b"\0\0\0\0\0\0\2xx\0\0\0\0\0\0\0\x0c\0\0\0\3\x18\1\xd4\xfep\x11\1\0\0\0\0\0\0\0\0\x08\0\0\0\0\0\0\x80?7\0\0\0\0\0\0\0"
    b"\0\0\0\0\0\0\0\3xxx\0\0\0\0\0\0\0\x0c\0\0\0\3\x18\2\xd4\xfep\x11\1\0\0\0\0\0\0\0\0\x10\0\0\0\0\0\0\x80?\0\0\0@\0\0@@"
)
RAW = (
    b"\x17\0\0\0\0\0\0\0\x83\xa1f\xca\0\0\0\0\xa5label\xfc\xa4name\xa2n0\x1b\0\0\0\0\0\0\0\x83\xa1f\xcb?\xd5UUUUUU"
    b"\xa5label\xff\xa4name\xa2n1\x1b\0\0\0\0\0\0\0\x83\xa1f\xcb?\xe5UUUUUU\xa5label\2\xa4name\xa2n2"
)
PLACES = [(0, 1, 0, 31, 0, 0, 0, 45), (1, 1, 31, 66, 0, 0, 45, 99), (2, 1, 66, 101, 0, 0, 99, 162)]
FIELDS = [(0, 0.0, 0, -4, 0, "n0"), (0, 1 / 3, 0, -1, 0, "n1"), (0, 2 / 3, 0, 2, 0, "n2")]


def row(i: int) -> dict[str, Any]:
    return {
        "name": f"n{i}", "label": i * 3 - 4, "f": i / 3, "data": b"x" * (i + 1),
        "x": np.arange(i * 2, dtype=np.float32).reshape(-1, 2), "k": np.array([i, -300, 70000], np.int32),
    }  # fmt: skip


def writer(path: Path, schema: Any = SCHEMA, count: int = 1, overwrite: bool = False) -> FileWriter:
    made = FileWriter(str(path), count, overwrite)
    made.set_header_size(1 << 14)
    made.set_page_size(1 << 15)
    if schema:
        made.add_schema(schema, "desc")
    return made


def write(path: Path, rows: list[dict[str, Any]], schema: Any = SCHEMA, count: int = 1) -> None:
    made = writer(path, schema, count)
    made.write_raw_data(rows)
    made.commit()


def read(path: Path) -> list[dict[str, Any]]:
    return list(FileReader(str(path)).get_next())


def are_same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    pairs = zip(found, expected, strict=True)
    return all(a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in b) for a, b in pairs)


def query(path: Path, text: str) -> list[Any]:
    with closing(sqlite3.connect(f"{path}.db")) as database:
        return database.execute(text).fetchall()


def test_files_have_the_bytes_of_mindspore(tmp_path: Path) -> None:
    write(tmp_path / "a", [row(i) for i in range(3)])
    head = len(HEADER).to_bytes(8, "little") + HEADER.encode()
    assert (tmp_path / "a").read_bytes() == head.ljust(1 << 14, b"\0") + BLOB.ljust(1 << 15, b"\0") + RAW


def test_indexes_have_the_rows_of_mindspore(tmp_path: Path) -> None:
    write(tmp_path / "a", [row(i) for i in range(3)])
    assert query(tmp_path / "a", "SELECT * FROM INDEXES") == [a + b for a, b in zip(PLACES, FIELDS, strict=True)]
    assert query(tmp_path / "a", "SELECT * FROM SHARD_NAME") == [("a",)]
    columns = [(name, kind, key) for _, name, kind, _, _, key in query(tmp_path / "a", "PRAGMA table_info(INDEXES)")]
    assert columns[0] == ("ROW_ID", "INT", 1) and columns[-1] == ("name_0", "TEXT", 0)
    assert columns[8:10] == [("INC_0", "INT", 2), ("f_0", "REAL", 0)]


def test_rows_are_in_groups_that_have_one_page_of_each_kind(tmp_path: Path) -> None:
    schema = {"n": {"type": "int64"}, "text": {"type": "string"}, "data": {"type": "bytes"}}
    rows = [{"n": i, "text": "t" * (i * 97 % 3000), "data": b"d" * (i * 61 % 5000)} for i in range(60)]
    made = writer(tmp_path / "a", schema)
    for start in range(0, 60, 7):
        made.write_raw_data(rows[start : start + 7])
    made.commit()
    assert are_same(read(tmp_path / "a"), rows)
    pages = "SELECT DISTINCT ROW_GROUP_ID, PAGE_ID_RAW, PAGE_ID_BLOB FROM INDEXES"
    groups = [group for group, *_ in query(tmp_path / "a", pages)]
    assert groups == list(range(len(groups))) and len(groups) > 3
    ends = query(tmp_path / "a", "SELECT MAX(PAGE_OFFSET_RAW_END), MAX(PAGE_OFFSET_BLOB_END) FROM INDEXES")
    assert max(ends[0]) <= 1 << 15


@pytest.mark.parametrize("schema", [{"n": {"type": "int64"}}, {"d": {"type": "bytes"}}, SCHEMA])
def test_rows_are_added_to_files(tmp_path: Path, schema: Any) -> None:
    rows = [{name: (row(i) | {"n": i, "d": b"d" * 9000})[name] for name in schema} for i in range(12)]
    write(tmp_path / "a", rows[:4], schema)
    for start, end in ((4, 8), (8, 11), (11, 12)):
        more = FileWriter.open_for_append(str(tmp_path / "a"))
        more.write_raw_data(rows[start:end])
        more.commit()
    assert are_same(read(tmp_path / "a"), rows) and query(tmp_path / "a", "SELECT COUNT(*) FROM INDEXES") == [(12,)]


def test_several_files_have_equal_shares(tmp_path: Path) -> None:
    made = writer(tmp_path / "a", {"n": {"type": "int32"}}, 3)
    for i in range(10):
        made.write_raw_data([{"n": 2 * i}, {"n": 2 * i + 1}])
    made.commit()
    lengths = [FileReader([str(tmp_path / f"a{i}")]).len() for i in range(3)]
    assert sorted(lengths) == [6, 7, 7] and sorted(r["n"] for r in read(tmp_path / "a1")) == list(range(20))


def test_files_without_rows(tmp_path: Path) -> None:
    writer(tmp_path / "a").commit()
    assert FileReader(str(tmp_path / "a")).len() == 0 and (tmp_path / "a").stat().st_size < 1 << 14
    more = FileWriter.open_for_append(str(tmp_path / "a"))
    more.write_raw_data([row(1)])
    more.commit()
    assert are_same(read(tmp_path / "a"), [row(1)])


def test_a_data_set_reads_what_was_written(tmp_path: Path) -> None:
    write(tmp_path / "a", [row(i) for i in range(3)])
    dataset = ds.MindDataset(str(tmp_path / "a"), ["k", "name"], shuffle=False)
    found = list(dataset.create_tuple_iterator(num_epochs=1, output_numpy=True))
    assert [(k.tolist(), str(name)) for k, name in found] == [([i, -300, 70000], f"n{i}") for i in range(3)]


def test_nothing_is_there_before_the_end(tmp_path: Path) -> None:
    made = writer(tmp_path / "a")
    made.write_raw_data([row(1)] * 2000)
    del made
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", [row(1)])
    made = writer(tmp_path / "a", overwrite=True)
    made.write_raw_data([row(2)])

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(GraphFileError, match="No space left"):
        patch.setattr(os, "fsync", full)
        made.commit()
    assert are_same(read(tmp_path / "a"), [row(1)]) and [p.name for p in tmp_path.iterdir()] == ["a"]
    made.commit()
    assert are_same(read(tmp_path / "a"), [row(2)]) and query(tmp_path / "a", "SELECT name_0 FROM INDEXES") == [("n2",)]


def test_rows_that_do_not_fit_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wrong = [
        {"label": "three"}, {"label": True}, {"label": np.int64(3)}, {"label": 2**31}, {"name": 3}, {"name": "\ud800"},
        {"f": 1}, {"f": float("nan")}, {"data": "text"}, {"x": [1.0, 2.0]}, {"x": np.zeros(3, np.float32)},
        {"x": np.zeros((1, 2))}, {"k": np.int32(3)},
    ]  # fmt: skip
    rows = [row(0), *(row(1) | changes for changes in wrong), {"name": "a"}, row(2)]
    write(tmp_path / "a", rows)
    assert are_same(rows, [row(0), row(2)]) and are_same(read(tmp_path / "a"), rows)
    said = caplog.text
    assert "for schema, 14 th data is wrong, there is not field: 'data' in the raw data." in said
    assert "data type: 'int32' for field: 'label' is not matched." in said
    assert "data shape: '(3,)' for field: 'x' is not matched." in said
    with pytest.raises(GraphRuntimeError, match="There is no valid data which can be written"):
        writer(tmp_path / "b").write_raw_data([{"name": "a"}])


def test_texts_come_back(tmp_path: Path) -> None:
    rows = [{"text": text} for text in ("", "é\0", "a'b;--", "\U0001f600" * 99)]
    write(tmp_path / "a", rows, {"text": {"type": "string"}})
    assert read(tmp_path / "a") == rows
    assert query(tmp_path / "a", "SELECT ROW_ID FROM INDEXES WHERE text_0 = 'a''b;--'") == [(2,)]


def test_numbers_of_numpy_and_columns_that_are_not_in_the_schema(tmp_path: Path) -> None:
    schema = {"a": {"type": "int32"}, "b": {"type": "float32"}}
    write(tmp_path / "a", [{"a": np.int32(3), "b": np.float32(0.1), "c": object()}], schema)
    assert read(tmp_path / "a") == [{"a": 3, "b": float(np.float32(0.1))}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "not allowed None or empty"),
        ((3,), "File path: 3 is not string"),
        (("a/",), "can not end with '/'"),
        (("a:b",), "should not contains"),
        ((" a",), "should not start/end with space"),
        (("a", 0), "shard_num's value: 0 should between 1 and 1000"),
        (("a", "2"), "shard_num's type is not int"),
        (("a", None), "shard_num is None"),
        (("a", 1, 1), "overwrite's type is not bool"),
    ],
)
def test_arguments_that_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(errors.ParamValueError, match=message) as caught:
        FileWriter(*arguments)
    assert str(caught.value).startswith("[ParamValueError]: Invalid parameter value.")


@pytest.mark.parametrize(
    ("schema", "error", "message"),
    [
        ({}, errors.MRMInvalidSchemaError, "Schema content is empty"),
        ([1], errors.MRMInvalidSchemaError, "Schema content should be dict"),
        ({"a-b": {"type": "int32"}}, errors.MRMInvalidSchemaError, "Field 'a-b' should be composed of"),
        ({"a": "int32"}, errors.MRMInvalidSchemaError, "Field 'a' should be dict"),
        ({"a": {"type": "int16"}}, errors.MRMInvalidSchemaError, "illegal attribute 'int16'"),
        ({"a": {"type": "string", "shape": [1]}}, errors.MRMInvalidSchemaError, "illegal attribute 'string'"),
        ({"a": {"type": "int32", "shape": 3}}, errors.MRMInvalidSchemaError, "illegal attribute '3'"),
        ({"a": {"type": "int32", "size": 3}}, errors.MRMInvalidSchemaError, "contains illegal attributes"),
        ({"a": {"type": "int32", "shape": [-1, -1]}}, errors.MRMBuildSchemaError, "Failed to build schema"),
        ({"a": {"type": "int32", "shape": [0]}}, errors.MRMBuildSchemaError, "Failed to build schema"),
    ],
)
def test_schemas_that_are_refused(schema: Any, error: type[GraphlsError], message: str) -> None:
    with pytest.raises(error, match=message):
        FileWriter("a").add_schema(schema)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ("label", errors.ParamTypeError, "'index_fields' expect list type"),
        ([3], errors.ParamTypeError, "'index field' expect str type"),
        (["data"], errors.MRMDefineIndexError, "Failed to set field data since it's not primitive type"),
        (["y"], GraphRuntimeError, "y can not found in schema"),
        (["label", "label"], GraphRuntimeError, "label is added repeatedly"),
    ],
)
def test_indexes_that_are_refused(tmp_path: Path, fields: Any, error: type[GraphlsError], message: str) -> None:
    with pytest.raises(error, match=message):
        writer(tmp_path / "a").add_index(fields)


def test_calls_that_are_refused(tmp_path: Path) -> None:
    made = writer(tmp_path / "a")
    with pytest.raises(errors.MRMAddSchemaError, match="Failed to add schema"):
        made.add_schema(SCHEMA)
    with pytest.raises(errors.ParamTypeError, match="'raw_data' expect list type"):
        made.write_raw_data(row(0))  # type: ignore[arg-type]
    with pytest.raises(errors.ParamTypeError, match="'raw_data item' expect dict type"):
        made.write_raw_data([3])  # type: ignore[list-item]
    with pytest.raises(GraphTypeError, match="must be bool"):
        made.write_raw_data([row(0)], 1)  # type: ignore[arg-type]
    with pytest.raises(GraphRuntimeError, match="too small to save a raw row"):
        made.write_raw_data([row(0) | {"name": "x" * 40000}])
    with pytest.raises(GraphRuntimeError, match="too small to save a blob row"):
        made.write_raw_data([row(0) | {"data": b"x" * 32768}])
    with pytest.raises(GraphRuntimeError, match="before rows are written"):
        made.set_page_size(1 << 16)
    made.write_raw_data([row(0)])
    with pytest.raises(GraphRuntimeError, match="must be consistent"):
        made.write_raw_data([row(0)], True)
    made.commit()
    with pytest.raises(GraphRuntimeError, match="Not allowed to call `write_raw_data` on flushed"):
        made.write_raw_data([row(0)])


def test_files_that_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", [row(0)])
    with pytest.raises(GraphRuntimeError, match="mindrecord files already exist"):
        writer(tmp_path / "a").open_and_set_header()
    with pytest.raises(GraphRuntimeError, match="failed to get the realpath"):
        writer(tmp_path / "no" / "a").commit()
    with pytest.raises(GraphRuntimeError, match="schema is not found in header"):
        writer(tmp_path / "b", None).commit()
    with pytest.raises(errors.MRMGetMetaError):
        writer(tmp_path / "b", None).add_index(["a"])
    with pytest.raises(GraphRuntimeError, match="is not exists"):
        FileWriter.open_for_append(str(tmp_path / "b"))
    with pytest.raises(GraphRuntimeError, match="shard header is too big"):
        writer(tmp_path / "b", {f"column_{i}": {"type": "int32"} for i in range(900)}).commit()


@pytest.mark.parametrize("size", [(1 << 14) - 4, (1 << 14) + 1, 1 << 28, 3.0])
def test_sizes_that_are_refused(size: Any) -> None:
    with pytest.raises(GraphRuntimeError, match="Invalid data, header size"):
        FileWriter("a").set_header_size(size)


def test_damaged_headers_are_errors_when_rows_are_added(tmp_path: Path) -> None:
    write(tmp_path / "a", [row(0)])
    whole = (tmp_path / "a").read_bytes()
    for name in (b"index_field", b"row_group_ids", b"shard_id", b"page_type_id", b"start_row_id"):
        (tmp_path / "a").write_bytes(whole.replace(b'"' + name, b'"' + name[1:] + b"_"))
        with pytest.raises(GraphRuntimeError, match="its header does not say"):
            FileWriter.open_for_append(str(tmp_path / "a"))


def test_every_changed_header_takes_rows_or_gives_one_error(tmp_path: Path) -> None:
    write(tmp_path / "a", [row(0)])
    whole = (tmp_path / "a").read_bytes()
    length, draws = int.from_bytes(whole[:8], "little"), np.random.default_rng(0)
    for position in draws.integers(8, 8 + length, 150):
        data = bytearray(whole)
        data[position] = draws.choice(list(b'09-"{}[],x'))
        (tmp_path / "a").write_bytes(data)
        try:
            more = FileWriter.open_for_append(str(tmp_path / "a"))
            more.write_raw_data([row(1)])
            more.commit()
        except GraphlsError as error:
            assert "\n" not in str(error)


def test_integers_and_maps_come_back() -> None:
    for power in range(63):
        numbers = np.array([1 << power, -(1 << power), (1 << power) - 1, 1 - (1 << power), power], np.int64)
        assert decompressed(compressed(numbers), np.dtype(np.int64)).tolist() == numbers.tolist()
        entries = {f"n{i}": int(number) for i, number in enumerate(numbers)}
        assert unpacked(packed(entries)) == entries
    values: dict[str, Any] = {"a" * 40: "t" * 300, "b": 1e300, "c": -0.0, "d": "\0é" * 40000}
    values |= {f"e{i}": i for i in range(20)}
    assert unpacked(packed(values)) == values


def test_scripts_write_through_mindspore(tmp_path: Path) -> None:
    code = (
        "from mindspore.mindrecord import FAILED, SUCCESS, FileWriter, FileReader, MindPage, ParamValueError\n"
        "from mindspore.mindrecord.filewriter import FileWriter as Same\n"
        "from mindspore.mindrecord.common.exceptions import ParamTypeError\n"
        f"writer = FileWriter(file_name={str(tmp_path / 'a')!r}, shard_num=1)\n"
        "writer.set_header_size(16384), writer.set_page_size(32768)\n"
        "writer.add_schema({'label': {'type': 'int32'}}, 'a schema')\n"
        "writer.add_index(['label'])\n"
        "writer.write_raw_data([{'label': 3}])\n"
        "writer.commit()\n"
    )
    (tmp_path / "script.py").write_text(code)
    assert run_script(str(tmp_path / "script.py")) == 0
    assert read(tmp_path / "a") == [{"label": 3}]
