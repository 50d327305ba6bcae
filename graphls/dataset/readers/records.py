"""Files of records: lines of text, and TFRecord.

A record of TFRecord is its length (uint64, little endian), the masked CRC-32C of these eight bytes, the content, and
the masked CRC-32C of that. The content is a protocol buffer tf.train.Example, which maps names to lists of bytes, of
float32 or of int64. The formats are described in TensorFlow's documentation
(tensorflow.org/tutorials/load_data/tfrecord) and its file example.proto.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.base.files.wire import fields, numbers, signed
from graphls.dataset.checks import boolean
from graphls.dataset.columns import Array, Schema, StrPath, as_schema
from graphls.dataset.readers import files
from graphls.dataset.readers.files import Shuffle, corrupt

_NEWLINE = 10
_NO_BYTES = np.empty(0, np.uint8)


class TextFileSource(files.Source):
    """The rows of TextFileDataset; lines are located in the constructor and read on access."""

    columns = ["text"]  # noqa: RUF012

    def __init__(self, dataset_files: files.Paths, header: int = 0) -> None:
        self._paths = sorted(files.matching_files(dataset_files))
        self._files = [files.mapped(path) if os.path.getsize(path) else _NO_BYTES for path in self._paths]
        self._lines = [_lines(data)[header:] for data in self._files]
        self.lengths = list(map(len, self._lines))
        self._rows = files.Parts(self.lengths)
        if not len(self):
            raise GraphRuntimeError(f"There is no line in {dataset_files!r}.")

    def __getitem__(self, index: int) -> tuple[Array, ...]:
        return (np.array(self.text(index)),)

    def text(self, index: int) -> str:
        """A line; raises GraphRuntimeError for one that is not UTF-8."""
        file, line = self._rows[index]
        start, end = self._lines[file][line]
        try:
            return bytes(self._files[file][start:end]).decode("utf-8")
        except UnicodeDecodeError as error:
            raise corrupt(self._paths[file], f"the line at byte {start} is not UTF-8 text ({error})") from None


class PennTreebankSource(TextFileSource):
    """The rows of PennTreebankDataset."""

    def __init__(self, dataset_dir: StrPath, part: str | None) -> None:
        directory, part = files.folder(dataset_dir), files.usage(part, "train", "valid", "test", "all")
        parts = ["test", "train", "valid"] if part == "all" else [part]
        super().__init__([os.path.join(directory, f"ptb.{name}.txt") for name in parts])


class TextFileDataset(files.Sequential):
    r"""The lines of text files that are not empty, without their ends: the column `text`, a string of ().

    `dataset_files` is a path, a pattern or a list of them, read in order of their names; of several files each worker
    reads every n-th, and the workers give a line in turn. Lines are shuffled over all files, or as `Shuffle` says,
    unless `shuffle` is False. Shards follow each other and are equally long. Raises GraphValueError for files that are
    not there, GraphRuntimeError for no line at all and for text that is not UTF-8.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> _ = Path("lines.txt").write_text("one\n\ntwo\n")
        >>> [str(text) for (text,) in ds.TextFileDataset("lines.txt", shuffle=False)]
        ['one', 'two']
    """

    def __init__(
        self, dataset_files: files.Paths, num_samples: int | None = None, num_parallel_workers: int | None = None,
        shuffle: bool | Shuffle | None = Shuffle.GLOBAL, num_shards: int | None = None, shard_id: int | None = None,
        cache: object = None,
    ) -> None:  # fmt: skip
        source = TextFileSource(dataset_files)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, num_shards, shard_id)


class PennTreebankDataset(files.TextParts):
    r"""The sentences of the Penn Treebank: the column `text`, a string of ().

    `usage` is "train", "valid", "test" or "all", the default, which has those of test first. Raises what
    TextFileDataset does.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> Path("ptb").mkdir()
        >>> _ = Path("ptb/ptb.test.txt").write_text(" no it was n't black monday \n")
        >>> [str(text) for (text,) in ds.PennTreebankDataset("ptb", "test")]
        [" no it was n't black monday "]
    """

    _read = PennTreebankSource


def _lines(data: files.Bytes) -> Array:
    """The begin and the end of each line that is not empty, int64 of (lines, 2)."""
    ends = np.append(np.flatnonzero(np.asarray(data) == _NEWLINE), len(data))
    starts = np.append(0, ends[:-1] + 1)
    return np.stack([starts, ends], 1)[ends > starts]


Feature = Array | list[bytes]

HEAD, TAIL = 12, 4


class TFRecordSource(files.Source):
    """The rows of TFRecordDataset.

    The lengths in the files are checked, each with its checksum, in the constructor; contents are read on access.
    """

    def __init__(
        self, dataset_files: files.Paths, schema: Schema | StrPath | None, columns_list: Sequence[str] | None
    ) -> None:
        self._paths = sorted(files.matching_files(dataset_files))
        self._files = [files.mapped(path) for path in self._paths]
        records = [list(_records(path, data)) for path, data in zip(self._paths, self._files, strict=True)]
        self.lengths = list(map(len, records))
        self._rows = [(file, *span) for file, spans in enumerate(records) for span in spans]
        if not self._rows:
            raise corrupt(self._paths[0], "there is no record in it")
        described = Schema() if schema is None else as_schema(schema)
        self.most = described.num_rows
        self._schema = {column["name"]: column for column in described.columns}
        self.columns: list[str] = list(columns_list or self._schema or sorted(self._features(0)))

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        features, path = self._features(index), self._paths[self._rows[index][0]]
        missing = [name for name in self.columns if name not in features]
        if missing:
            raise corrupt(path, f"record {index} has no feature {missing[0]!r} among {', '.join(sorted(features))}")
        return tuple(self._column(path, name, features[name]) for name in self.columns)

    def _features(self, index: int) -> dict[str, Feature]:
        file, start, length = self._rows[index]
        content = memoryview(bytes(self._files[file][start : start + length]))
        try:
            return dict(_features(content))
        except (GraphValueError, UnicodeDecodeError) as error:
            raise corrupt(self._paths[file], f"record {index} is not an Example: {files.reason_of(error)}") from None

    def _column(self, path: str, name: str, value: Feature) -> Array:
        column = self._schema.get(name, {"type": None, "shape": None})
        if isinstance(value, list):
            is_text = column["type"] is not None and column["type"].kind in "US"
            array = np.array([v.decode("utf-8", "replace") for v in value]) if is_text else _padded(value)
        else:
            array = value
        if column["type"] is not None and column["type"].kind not in "US":
            array = array.astype(column["type"])
        shape = column["shape"]
        if shape is not None and not _fits(array, shape):
            raise corrupt(path, f"the column {name!r} has {array.size} elements, which the shape {shape} does not take")
        return array if shape is None else array.reshape(shape)


def _records(path: str, data: files.Bytes) -> Iterator[tuple[int, int]]:
    """The offset and the length of the content of each record."""
    position = 0
    while position < len(data):
        head = bytes(data[position : position + HEAD])
        length = int.from_bytes(head[:8], "little")
        if len(head) < HEAD or masked_crc(head[:8]) != int.from_bytes(head[8:], "little"):
            raise corrupt(path, f"at byte {position} there is no length of a record with its checksum")
        start = position + HEAD
        position = start + length + TAIL
        if position > len(data):
            raise corrupt(path, f"a record of {length} bytes is announced where only {len(data) - start} are left")
        yield start, length


def masked_crc(content: bytes) -> int:
    """The CRC-32C of some bytes, rotated and offset, as TFRecord stores it."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _crc_of(byte: int) -> int:
    """The contribution of a byte to a CRC-32C, by the reversed polynomial of Castagnoli."""
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_CRC = [_crc_of(byte) for byte in range(256)]


def _features(example: memoryview) -> Iterator[tuple[str, Feature]]:
    """The features of an Example: field 1 is a map, whose entries have the name in field 1, the lists in 2."""
    for features in _messages(example, 1):
        for entry in _messages(features, 1):
            name = b"".join(map(bytes, _messages(entry, 1))).decode()
            for kind, values in (item for feature in _messages(entry, 2) for item in fields(feature)):
                yield name, _values(kind, values)


def _messages(message: memoryview, field: int) -> list[memoryview]:
    return [value for number, value in fields(message) if number == field and not isinstance(value, int)]


def _values(kind: int, content: int | memoryview) -> Feature:
    """The values of a BytesList (1), a FloatList (2) or an Int64List (3), packed or not."""
    if isinstance(content, int) or kind not in (1, 2, 3):
        raise GraphValueError(f"a feature has a field {kind} that is not a list")
    values = [value for number, value in fields(content, with_floats=kind == 2) if number == 1]
    if kind == 3:
        return np.array([signed(n) for value in values for n in numbers(value)], np.int64)
    parts = [bytes(value) for value in values if not isinstance(value, int)]
    if kind == 1:
        return parts
    packed = b"".join(parts)
    if len(packed) % 4:
        raise GraphValueError("a list of floats ends within one")
    return np.frombuffer(packed, "<f4").astype(np.float32)


def _padded(values: Sequence[bytes]) -> files.Bytes:
    longest = max(map(len, values), default=0)
    return np.frombuffer(b"".join(value.ljust(longest) for value in values), np.uint8).copy()


def _fits(array: Array, shape: Sequence[int]) -> bool:
    known = int(np.prod([n for n in shape if n >= 0], dtype=np.int64))
    return array.size % max(known, 1) == 0 if -1 in shape else known == array.size


class TFRecordDataset(files.Sequential):
    """The records of TFRecord files: the columns of `schema`, a Schema or a JSON file, else those of the first record.

    A list of int64 or float32 has one axis; bytes are uint8 of one axis, several of them padded with spaces to one
    length. A column of a schema is converted to its dtype and shape, bytes also to strings. `columns_list` chooses
    and orders columns. Rows are in the order that TextFileDataset describes, as many as `num_samples` or, without it,
    the schema's `numRows` says. Shards have every `num_shards`-th file, with `shard_equal_rows` equally many rows.
    Raises GraphValueError for compressed or missing files, GraphRuntimeError for those that are not TFRecord files
    or lack a column, and for fewer files than shards.

    Examples:
        >>> from pathlib import Path
        >>> from graphls import dataset as ds
        >>> record = (  # a row with the columns `label` and `size`, as TensorFlow writes it
        ...     "2800000000000000ff70164a0a260a0e0a056c6162656c12051a030a0103"
        ...     "0a140a0473697a65120c120a0a080000c03f0000004011eb4565"
        ... )
        >>> _ = Path("rows.tfrecord").write_bytes(bytes.fromhex(record))
        >>> [(label.tolist(), size.tolist()) for label, size in ds.TFRecordDataset("rows.tfrecord")]
        [([3], [1.5, 2.0])]
    """

    def __init__(
        self, dataset_files: files.Paths, schema: Schema | StrPath | None = None, columns_list: list[str] | None = None,
        num_samples: int | None = None, num_parallel_workers: int | None = None,
        shuffle: bool | Shuffle | None = Shuffle.GLOBAL, num_shards: int | None = None, shard_id: int | None = None,
        shard_equal_rows: bool = False, cache: object = None, compression_type: str | None = None,
    ) -> None:  # fmt: skip
        if compression_type:
            message = f"TFRecord files are read as they are, not with {compression_type!r}; decompress them first."
            raise GraphValueError(message)
        source = TFRecordSource(dataset_files, schema, columns_list)
        by_file = not boolean("shard_equal_rows", shard_equal_rows)
        if by_file and num_shards is not None and num_shards > len(source.lengths):
            text = f"There are {len(source.lengths)} files for {num_shards} shards; give shard_equal_rows=True."
            raise GraphRuntimeError(text)
        most = num_samples or source.most
        super().__init__(source, cache, num_parallel_workers, most, shuffle, num_shards, shard_id, by_file)
