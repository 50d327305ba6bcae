"""The order of rows of several files, by workers, shards and kinds of shuffling, as MindSpore 2.10 gives it."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pytest

from graphls import dataset as ds
from graphls.dataset.mindrecord.writer import FileWriter
from graphls.dataset.readers.records import masked_crc

SIZES = {"a": 5, "b": 3, "c": 7, "d": 2}
NAMES = [f"{name}{i}" for name, size in SIZES.items() for i in range(size)]
Read = Callable[..., list[str]]


def rows(dataset: ds.Dataset) -> list[str]:
    """The rows of a pass as a letter for the file and the number in it."""
    found = [row[0].item() for row in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)]
    assert len(found) == dataset.get_dataset_size()
    return [text if isinstance(text, str) else NAMES[text] for text in found]


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def record(value: int) -> bytes:
    """A record of TFRecord with one number `x`."""
    values = field(3, field(1, bytes([value])))
    content = field(1, field(1, field(1, b"x") + field(2, values)))
    parts = (struct.pack("<Q", len(content)), content)
    return b"".join(part + struct.pack("<I", masked_crc(part)) for part in parts)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of lines, of CSV, of TFRecord and of MindRecord, each with the same rows."""
    folder = tmp_path_factory.mktemp("rows")
    for name, size in SIZES.items():
        own = [f"{name}{i}" for i in range(size)]
        (folder / f"{name}.txt").write_text("\n".join(own))
        (folder / f"{name}.csv").write_text("\n".join(own))
        (folder / f"{name}.tf").write_bytes(b"".join(record(NAMES.index(row)) for row in own))
        writer = FileWriter(str(folder / f"{name}.mr"))
        writer.add_schema({"x": {"type": "int32"}}, "rows")
        writer.write_raw_data([{"x": NAMES.index(row)} for row in own])
        writer.commit()
    return folder


@pytest.fixture
def files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def lines(**arguments: Any) -> list[str]:
    return rows(ds.TextFileDataset("*.txt", **arguments))


def table(**arguments: Any) -> list[str]:
    return rows(ds.CSVDataset(["d.csv", "c.csv", "b.csv", "a.csv"], column_names=["x"], **arguments))


def records(**arguments: Any) -> list[str]:
    return rows(ds.TFRecordDataset(["c.tf", "d.tf", "a.tf", "b.tf"], **arguments))


def mind_records(**arguments: Any) -> list[str]:
    return rows(ds.MindDataset(["a.mr", "b.mr", "c.mr", "d.mr"], **arguments))


@pytest.mark.parametrize("read", [lines, table, records])
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"num_parallel_workers": 1}, "a0 a1 a2 a3 a4 b0 b1 b2 c0 c1 c2 c3 c4 c5 c6 d0 d1"),
        ({"num_parallel_workers": 2}, "a0 b0 a1 b1 a2 b2 a3 d0 a4 d1 c0 c1 c2 c3 c4 c5 c6"),
        ({"num_parallel_workers": 2, "num_samples": 9}, "a0 b0 a1 b1 a2 b2 a3 d0 a4"),
        ({"num_parallel_workers": 2, "num_shards": 2, "shard_id": 0}, "a0 b0 a1 b1 a2 b2 a3 a4 c0"),
        ({"num_parallel_workers": 2, "num_shards": 2, "shard_id": 1}, "c1 d0 c2 d1 c3 c4 c5 c6 a0"),
        ({"num_parallel_workers": 1, "num_shards": 3, "shard_id": 1}, "b1 b2 c0 c1 c2 c3"),
        ({"num_parallel_workers": 2, "num_shards": 3, "shard_id": 2}, "c4 d0 c5 d1 c6 a0"),
    ],
)
@pytest.mark.usefixtures("files")
def test_workers_take_turns_and_shards_follow_each_other(read: Read, arguments: dict[str, Any], expected: str) -> None:
    if read is records:
        arguments = {**arguments, "shard_equal_rows": True}
    assert read(shuffle=False, **arguments) == expected.split()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((1, 2, 0), "a0 a1 a2 a3 a4 c0 c1 c2 c3 c4 c5 c6"),
        ((2, 2, 0), "a0 c0 a1 c1 a2 c2 a3 c3 a4 c4 c5 c6"),
        ((2, 2, 1), "b0 d0 b1 d1 b2"),
        ((2, 3, 0), "a0 d0 a1 d1 a2 a3 a4"),
    ],
)
@pytest.mark.usefixtures("files")
def test_shards_of_tfrecord_are_files_unless_they_are_to_be_equal(arguments: Any, expected: str) -> None:
    workers, count, index = arguments
    found = records(shuffle=False, num_parallel_workers=workers, num_shards=count, shard_id=index)
    assert found == expected.split()


@pytest.mark.usefixtures("files")
def test_more_shards_than_files_of_tfrecord() -> None:
    with pytest.raises(RuntimeError, match="4 files for 5 shards"):
        records(num_shards=5, shard_id=4)


@pytest.mark.parametrize("read", [lines, table, records, mind_records])
@pytest.mark.usefixtures("files")
def test_what_is_shuffled(read: Read) -> None:
    by_files = read(shuffle=ds.Shuffle.FILES)
    found = ["".join(own) for _, own in groupby(by_files, lambda row: row[0])]
    in_order = ["".join(own) for _, own in groupby(NAMES, lambda row: row[0])]
    assert found != in_order and sorted(found) == in_order
    in_files = read(shuffle=ds.Shuffle.INFILE)
    assert in_files != NAMES == sorted(in_files)
    assert [row[0] for row in in_files] == [row[0] for row in NAMES]
    for kind in (True, None, ds.Shuffle.GLOBAL, ds.Shuffle.ADAPTIVE, ds.Shuffle.PARTIAL):
        everything = read(shuffle=kind)
        assert everything != NAMES == sorted(everything)
        assert len(list(groupby(everything, lambda row: row[0]))) > 4
    assert read(shuffle=False) == read(shuffle=ds.Shuffle.FALSE) == NAMES
    for wrong in (1, "files"):
        with pytest.raises(TypeError, match="shuffle"):
            read(shuffle=wrong)


@pytest.mark.parametrize("read", [lines, mind_records])
@pytest.mark.parametrize("kind", list(ds.Shuffle))
@pytest.mark.usefixtures("files")
def test_shards_have_all_rows_in_every_kind(read: Read, kind: ds.Shuffle) -> None:
    shards = [read(shuffle=kind, num_shards=3, shard_id=i) for i in range(3)]
    assert set(chain(*shards)) == set(NAMES) and set(map(len, shards)) == {6}


@pytest.mark.usefixtures("files")
def test_shards_of_mindrecord_have_rows_in_turn() -> None:
    assert mind_records(shuffle=False, num_shards=3, shard_id=2) == ["a2", "b0", "c0", "c3", "c6", "a0"]
    assert [row[0] for row in mind_records(shuffle=ds.Shuffle.INFILE, num_shards=3, shard_id=2)] == list("abccca")
    with pytest.raises(ValueError, match="num_samples cannot be specified"):
        mind_records(shuffle=ds.Shuffle.FILES, num_samples=3)


@pytest.mark.usefixtures("files")
def test_a_schema_says_how_many_rows_are_read() -> None:
    schema: dict[str, Any] = {"columns": {"x": {"type": "int64", "rank": 0, "shape": []}}}
    for rows_told, samples, count in [(4, None, 4), (40, None, 17), (4, 2, 2), (4, 6, 6)]:
        Path("schema.json").write_text(json.dumps({**schema, "numRows": rows_told}))
        assert records(schema="schema.json", shuffle=False, num_samples=samples) == NAMES[:count]


@pytest.mark.usefixtures("files")
def test_a_file_without_lines_is_the_turn_of_a_worker() -> None:
    Path("aa.txt").write_text("\n\n")
    found = rows(ds.TextFileDataset(["a.txt", "aa.txt", "b.txt"], shuffle=False, num_parallel_workers=2))
    assert found == NAMES[:8]
    halves = ds.TextFileDataset("a.txt", shuffle=False, num_parallel_workers=2, num_shards=2, shard_id=1)
    assert rows(halves) == ["a3", "a0", "a4"]
