"""TFRecord files: rows as MindSpore 2.10 gives them for the same files, and files that are damaged or hostile."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import dataset as ds
from graphls.base.files.wire import bytes_field, number
from graphls.dataset.readers.records import masked_crc
from graphls.ir.errors import GraphlsError

Row = dict[str, list[Any]]
ROWS: list[Row] = [
    {"label": [i], "x": [i, i + 0.5], "name": [b"n%d" % i], "img": [bytes([1, 2, i])], "many": [b"ab", b"cde"]}
    for i in range(5)
]


def feature(name: str, values: list[Any]) -> bytes:
    if isinstance(values[0], bytes):
        return bytes_field(1, b"".join(bytes_field(1, value) for value in values))
    if name == "x":
        return bytes_field(2, bytes_field(1, struct.pack(f"<{len(values)}f", *values)))
    return bytes_field(3, bytes_field(1, b"".join(map(number, values))))


def example(row: Row) -> bytes:
    entries = (bytes_field(1, name.encode()) + bytes_field(2, feature(name, values)) for name, values in row.items())
    return bytes_field(1, b"".join(bytes_field(1, entry) for entry in entries))


def record(content: bytes) -> bytes:
    head = struct.pack("<Q", len(content))
    return head + struct.pack("<I", masked_crc(head)) + content + struct.pack("<I", masked_crc(content))


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "a.tfrecord"
    file.write_bytes(b"".join(record(example(row)) for row in ROWS))
    return str(file)


def rows(dataset: ds.Dataset) -> list[list[Any]]:
    return [list(row) for row in dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)]


def test_the_checksum_is_that_of_the_format() -> None:
    """CRC-32C of "123456789" is 0xE3069283 (RFC 3720, appendix B.4 has the polynomial)."""
    crc = 0xE3069283
    assert masked_crc(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_columns_without_a_schema_are_those_of_the_first_record(path: str) -> None:
    dataset = ds.TFRecordDataset(path, shuffle=False)
    assert dataset.get_col_names() == ["img", "label", "many", "name", "x"] and dataset.get_dataset_size() == 5
    image, label, many, name, x = rows(dataset)[3]
    assert (image.dtype, image.tolist(), label.dtype, label.tolist()) == (np.uint8, [1, 2, 3], np.int64, [3])
    assert bytes(many) == b"ab cde" and bytes(name) == b"n3"
    assert (x.dtype, x.tolist()) == (np.float32, [3, 3.5])


def test_columns_of_a_schema_have_its_dtypes_and_shapes(path: str) -> None:
    schema = ds.Schema()
    schema.add_column("label", graphls.int32, [])
    schema.add_column("x", graphls.float16, [2, -1])
    schema.add_column("many", "string")
    label, x, many = rows(ds.TFRecordDataset([path], schema, shuffle=False))[4]
    assert (label.dtype, label.tolist()) == (np.int32, 4)
    assert (x.dtype, x.tolist()) == (np.float16, [[4], [4.5]])
    assert many.tolist() == ["ab", "cde"]
    assert ds.TFRecordDataset(path, schema, ["many", "x"]).get_col_names() == ["many", "x"]


def test_several_files_patterns_samples_shards_and_shuffling(path: str) -> None:
    def labels(**options: Any) -> list[int]:
        return [int(row[0][0]) for row in rows(ds.TFRecordDataset([path, path], columns_list=["label"], **options))]

    assert labels(shuffle=False) == [0, 1, 2, 3, 4] * 2
    assert labels(shuffle=False, num_samples=3) == [0, 1, 2]
    assert labels(shuffle=False, num_shards=2, shard_id=1) == [0, 1, 2, 3, 4]
    assert sorted(labels(shuffle=ds.Shuffle.GLOBAL)) == sorted([0, 1, 2, 3, 4] * 2)
    assert len(rows(ds.TFRecordDataset(path.replace("a.", "*.")))) == 5


def test_floats_that_are_not_packed(tmp_path: Path) -> None:
    values = b"".join(b"\x0d" + struct.pack("<f", value) for value in (1.0, 2.0))
    entry = bytes_field(1, b"x") + bytes_field(2, bytes_field(2, values))
    (tmp_path / "a").write_bytes(record(bytes_field(1, bytes_field(1, entry))))
    assert rows(ds.TFRecordDataset(str(tmp_path / "a"), shuffle=False))[0][0].tolist() == [1, 2]


GOOD = record(example(ROWS[0]))
HUGE = struct.pack("<Q", 2**62)
DAMAGED = {
    "empty": (b"", "the file is empty"),
    "no record": (b"some text", "no length of a record with its checksum"),
    "checksum": (bytes([GOOD[0] ^ 1]) + GOOD[1:], "no length of a record with its checksum"),
    "truncated": (GOOD[:-1], "where only"),
    "huge": (HUGE + struct.pack("<I", masked_crc(HUGE)) + b"x", "4611686018427387904 bytes is announced"),
    "no example": (record(b"\xff" * 9), "is not an Example"),
    "field too long": (record(b"\x0a\xff\xff\xff\xff\x0f"), "is not an Example"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_files(tmp_path: Path, name: str) -> None:
    data, message = DAMAGED[name]
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(GraphlsError, match=message):
        ds.TFRecordDataset(str(tmp_path / "a"))


def test_wrong_uses(path: str, tmp_path: Path) -> None:
    schema = ds.Schema()
    schema.add_column("x", graphls.float32, [3])
    for make, message in (
        (lambda: ds.TFRecordDataset(str(tmp_path / "none")), "did not match any files"),
        (lambda: ds.TFRecordDataset(3), "dataset_files"),
        (lambda: ds.TFRecordDataset(path, compression_type="GZIP"), "decompress them first"),
        (lambda: rows(ds.TFRecordDataset(path, columns_list=["z"])), "has no feature 'z' among img"),
        (lambda: rows(ds.TFRecordDataset(path, schema)), "2 elements, which the shape"),
    ):
        with pytest.raises(GraphlsError, match=message):
            make()


def test_random_damage_is_an_error_or_rows(path: str, tmp_path: Path) -> None:
    draw, data = np.random.default_rng(0), Path(path).read_bytes()
    for _ in range(200):
        changed = bytearray(data)
        for place in draw.integers(0, len(data), 3):
            changed[place] = draw.integers(0, 256)
        (tmp_path / "b").write_bytes(changed)
        try:
            source = ds.TFRecordDataset(str(tmp_path / "b"), shuffle=False).source
            for index in range(len(source)):
                source[index]
        except GraphlsError:
            pass
