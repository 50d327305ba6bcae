"""The bases of datasets in files: checked reads of their content, and the order of rows over several files."""

from __future__ import annotations

import gzip
import os
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from glob import glob
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np

from graphls.base.errors import GraphlsError, GraphRuntimeError, GraphValueError
from graphls.base.refusals import refusal
from graphls.dataset import checks
from graphls.dataset.checks import boolean, string, type_error
from graphls.dataset.columns import StrPath
from graphls.dataset.config import get_num_parallel_workers
from graphls.dataset.readers.generator import GeneratorDataset
from graphls.dataset.readers.sources import Choice
from graphls.dataset.samplers import Array, BuiltinSampler, Labels, SamplerLike
from graphls.dataset.vision.decoding import decoded

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Decrypt = Callable[[str], bytes]

Paths = StrPath | Sequence[StrPath]

LARGEST = float(np.finfo(np.float32).max)

_GZIP_AT_MOST = 1032  # bytes out for one byte in, the limit of deflate


def folder(dataset_dir: object) -> str:
    """The path of an existing folder; raises GraphTypeError or GraphValueError otherwise."""
    path = checks.path("dataset_dir", dataset_dir)
    if not os.path.isdir(path):
        raise GraphValueError(f"The folder {path} does not exist, or it is not a folder.")
    return path


def existing_file(name: str, value: object) -> str:
    """The path of an existing file; raises GraphTypeError or GraphValueError otherwise."""
    path = checks.path(name, value)
    if not os.path.isfile(path):
        raise GraphValueError(f"The file {path} does not exist, or it is not a file.")
    return path


def usage(value: object, *known: str) -> str:
    """A part of a data set by its name, "all" for None; raises GraphTypeError or GraphValueError otherwise."""
    part = "all" if value is None else string("usage", value)
    if value is not None and part not in known:
        raise GraphValueError(f"usage is one of {', '.join(known)}, not {value!r}.")
    return part


def corrupt(path: str, fault: str) -> GraphRuntimeError:
    """The error for a file that violates its format."""
    return GraphRuntimeError(f"{path} cannot be read: {fault}.")


def reason_of(error: Exception) -> str:
    """The text of an error, without its line and its full stop, as a part of another message."""
    return error.message.rstrip(".") if isinstance(error, GraphlsError) else str(error)


def first_of(directory: str, *names: str) -> str | None:
    """The path of the first of these names that the folder has."""
    paths = (os.path.join(directory, name) for name in names)
    return next((path for path in paths if os.path.isfile(path)), None)


def mapped(path: str) -> Bytes:
    """The bytes of a file, left on disk until used; raises GraphRuntimeError for an empty or unreadable one."""
    try:
        if os.path.getsize(path) == 0:
            raise corrupt(path, "the file is empty")
        return np.memmap(path, np.uint8, "r")
    except OSError as error:
        raise corrupt(path, error.strerror or str(error)) from None


def inside(directory: str, name: str, source: str) -> str:
    """The path of a file that `source` names; raises GraphRuntimeError for names that lead out of the folder."""
    if os.path.isabs(name) or "\0" in name or ".." in name.replace("\\", "/").split("/"):
        raise corrupt(source, f"the file name {name!r} leads out of {directory}")
    return os.path.join(directory, name)


def text_of(path: str) -> str:
    """The text of a small UTF-8 file; raises GraphRuntimeError for one that is missing, empty or not text."""
    try:
        return bytes(mapped(path)).decode("utf-8")
    except UnicodeDecodeError as error:
        raise corrupt(path, f"it is not UTF-8 text ({error})") from None


def words_of(text: str) -> list[list[str]]:
    """The words of each line that is not empty."""
    return [line.split() for line in text.splitlines() if line.strip()]


def number_in(path: str, name: str, text: str, low: float = -LARGEST, high: float = LARGEST) -> float:
    """The number in a text; raises GraphRuntimeError for other texts and for numbers beyond [low, high]."""
    try:
        number = float(text)
    except ValueError:
        raise corrupt(path, f"{name} is {text[:40]!r}, which is not a number") from None
    if not low <= number <= high:
        raise corrupt(path, f"{name} is {text[:40]!r}, which is not within [{low:g}, {high:g}]")
    return number


def matching_files(dataset_files: object) -> list[str]:
    """The files that match names and patterns; raises GraphTypeError or GraphValueError where one matches none."""
    patterns = [dataset_files] if isinstance(dataset_files, (str, os.PathLike)) else dataset_files
    if not isinstance(patterns, (list, tuple)) or not all(isinstance(p, (str, os.PathLike)) for p in patterns):
        raise type_error("dataset_files", dataset_files, "a path or a list of paths")
    matches = {
        str(p): [str(p)] if os.path.isfile(p) else sorted(filter(os.path.isfile, glob(str(p)))) for p in patterns
    }
    unmatched = [pattern for pattern, paths in matches.items() if not paths]
    if unmatched or not matches:
        raise GraphValueError(f"The following patterns did not match any files: {unmatched}.")
    return [path for pattern in patterns for path in matches[str(pattern)]]


class Source:
    """Rows of files by index, in `columns`; a subclass computes them from its `_rows`."""

    columns: list[str]
    classes: Mapping[str, Any] = {}
    lengths: list[int]  # the number of rows of each file, for readers that go from one to the next
    _rows: Any  # a list, or Parts

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        """The columns of a row."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return map(self.__getitem__, range(len(self)))


class Shuffle(str, Enum):
    """The rows that readers of several files shuffle: all, the order of the files, or the rows of each file.

    PARTIAL and ADAPTIVE, which shuffle many rows in ranges in MindSpore, shuffle everything here.

    Examples:
        >>> from graphls import dataset as ds
        >>> ds.Shuffle.FILES
        <Shuffle.FILES: 'files'>
    """

    FALSE = "false"
    GLOBAL = "global"
    FILES = "files"
    INFILE = "infile"
    PARTIAL = "partial"
    ADAPTIVE = "adaptive"

    __str__ = str.__str__


def shuffle_of(value: object) -> Shuffle:
    """The kind of shuffling, GLOBAL for True and None; raises GraphTypeError for anything but a bool or a Shuffle."""
    if isinstance(value, Shuffle):
        return value
    if value is not None and not isinstance(value, bool):
        raise type_error("shuffle", value, [bool, Shuffle])
    return Shuffle.FALSE if value is False else Shuffle.GLOBAL


class FileSampler(BuiltinSampler):
    """The rows of files of these `lengths` that belong to a shard.

    `num_shards` shards have equally many rows, consecutive ones or, with `is_dealt`, every `num_shards`-th row each;
    the last continue with the first row. With `by_file` they have every `num_shards`-th file instead. `workers` read
    files in rotation: each gives a row in its turn, and continues with its next file when one ends.
    """

    def __init__(
        self, lengths: Sequence[int], shuffle: Shuffle, shard: tuple[int, int] | None = None,
        num_samples: int | None = None, workers: int = 1, by_file: bool = False, is_dealt: bool = False,
    ) -> None:  # fmt: skip
        self.joined = 1 if shard is None else checks.joined_shards(*shard)
        super().__init__(num_samples and num_samples * self.joined)
        shard = shard if self.joined == 1 else None
        self.shuffle, self.workers, self.is_dealt = shuffle, workers, is_dealt
        ends = np.cumsum(lengths)
        files = [np.arange(end - length, end) for end, length in zip(ends, lengths, strict=True)]
        self.files = files[shard[1] :: shard[0]] if shard and by_file else files
        self.shard = None if by_file else shard

    def available(self, size: int) -> int:
        count = sum(map(len, self.files))
        return count if self.shard is None else -(-count // self.shard[0])

    def chosen(self, size: int, draws: np.random.Generator, labels: Labels | None) -> Iterable[int]:
        files = self._shuffled(draws)
        rows: list[int] = interleaved(files if self.shard is None else self._shared(files), self.workers).tolist()
        return rows

    def _shuffled(self, draws: np.random.Generator) -> list[Array]:
        if self.shuffle is Shuffle.FALSE:
            return self.files
        if self.shuffle is Shuffle.FILES:
            return [self.files[i] for i in draws.permutation(len(self.files))]
        if self.shuffle is Shuffle.INFILE:
            return [draws.permutation(rows) for rows in self.files]
        rows = np.concatenate(self.files)
        return [rows[draws.permutation(len(rows))]]

    def _shared(self, files: list[Array]) -> list[Array]:
        """The parts of files that belong to the shard."""
        assert self.shard is not None
        (count, index), rows = self.shard, np.concatenate(files)
        size = -(-len(rows) // count)
        first, step = (index, count) if self.is_dealt else (index * size, 1)
        positions = (first + step * np.arange(size)) % len(rows)
        file_of_row = np.repeat(np.arange(len(files)), [len(file) for file in files])[positions]
        is_new = (np.diff(file_of_row) != 0) | (np.diff(positions) < 0)
        return np.split(rows[positions], np.flatnonzero(is_new) + 1)


def interleaved(files: Sequence[Array], workers: int) -> Array:
    """The rows of files, one of each worker in turn while it has some; worker `i` reads each `workers`-th file."""
    queues = [np.concatenate(files[worker::workers]) for worker in range(min(workers, len(files)))]
    turns = np.concatenate([np.arange(len(queue)) for queue in queues])
    rows: Array = np.concatenate(queues)[np.argsort(turns, kind="stable")]
    return rows


class Files(GeneratorDataset):
    """The base of datasets in files; GeneratorDataset describes their common arguments."""

    def __init__(
        self, source: Source, cache: object, num_parallel_workers: int | None, num_samples: int | None,
        shuffle: bool | None, sampler: SamplerLike | None, num_shards: int | None, shard_id: int | None,
    ) -> None:  # fmt: skip
        if cache is not None:
            raise GraphValueError(refusal("dataset caches"))
        super().__init__(
            source, source.columns, num_samples=num_samples, shuffle=shuffle, sampler=sampler, num_shards=num_shards,
            shard_id=shard_id, num_parallel_workers=1 if num_parallel_workers is None else num_parallel_workers,
            python_multiprocessing=False,
        )  # fmt: skip

    def num_classes(self) -> int | None:
        """The number of classes, if the files name them."""
        return len(self.source.classes) or None

    def get_class_indexing(self) -> dict[str, Any]:
        """The index of each class, by its name."""
        return dict(self.source.classes)


class Sequential(Files):
    """A dataset of files that are read in sequence, each by one of the workers; see `Shuffle`."""

    def __init__(
        self, source: Source, cache: object, num_parallel_workers: int | None, num_samples: int | None,
        shuffle: bool | Shuffle | None, num_shards: int | None, shard_id: int | None, by_file: bool = False,
    ) -> None:  # fmt: skip
        Choice(num_samples, None, None, num_shards, shard_id, None, None).check(True)
        shard = None if num_shards is None else checks.shard(num_shards, shard_id)
        workers = checks.workers(num_parallel_workers) or get_num_parallel_workers()
        order = FileSampler(source.lengths, shuffle_of(shuffle), shard, num_samples, workers, by_file)
        super().__init__(source, cache, num_parallel_workers, None, None, order, None, None)


class PartsOfFiles(Files):
    """A dataset with named parts; a subclass defines their source."""

    _read: ClassVar[Callable[..., Source]]

    def __init__(
        self, dataset_dir: StrPath, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: bool | None = None, sampler: SamplerLike | None = None,
        num_shards: int | None = None, shard_id: int | None = None, cache: object = None,
    ) -> None:  # fmt: skip
        source = self._read(dataset_dir, usage)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)


class DecodedParts(Files):
    """A dataset of images with named parts, as bytes or as pixels."""

    _read: ClassVar[Callable[..., Source]]

    def __init__(
        self, dataset_dir: StrPath, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: bool | None = None, decode: bool = False,
        sampler: SamplerLike | None = None, num_shards: int | None = None, shard_id: int | None = None,
        cache: object = None,
    ) -> None:  # fmt: skip
        source = self._read(dataset_dir, usage, decode)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, sampler, num_shards, shard_id)


class TextParts(Sequential):
    """A dataset of texts with named parts."""

    _read: ClassVar[Callable[..., Source]]

    def __init__(
        self, dataset_dir: StrPath, usage: str | None = None, num_samples: int | None = None,
        num_parallel_workers: int | None = None, shuffle: bool | Shuffle | None = Shuffle.GLOBAL,
        num_shards: int | None = None, shard_id: int | None = None, cache: object = None,
    ) -> None:  # fmt: skip
        source = self._read(dataset_dir, usage)
        super().__init__(source, cache, num_parallel_workers, num_samples, shuffle, num_shards, shard_id)


class Parts:
    """The part of each row, and its index there, counted from the end of the part (-1 is the last)."""

    def __init__(self, lengths: Iterable[int]) -> None:
        self._ends = list(accumulate(lengths))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int) -> tuple[int, int]:
        part = bisect_right(self._ends, index)
        return part, index - self._ends[part]


class Compressed:
    """A gzip file: its first bytes, and all of them once their number is known."""

    def __init__(self, path: str) -> None:
        self.path = path

    def head(self, count: int) -> Bytes:
        """The first `count` bytes, or fewer."""
        return self._read(count)

    def content(self, count: int) -> Bytes:
        """All bytes, `count` of them; raises GraphRuntimeError for more or fewer."""
        if count > os.path.getsize(self.path) * _GZIP_AT_MOST:
            raise corrupt(self.path, f"its header speaks of {count} bytes, which a file of this size cannot hold")
        data = self._read(count + 1)
        if len(data) != count:
            number = "more" if len(data) > count else str(len(data))
            raise corrupt(self.path, f"its header speaks of {count} bytes, but it holds {number}")
        return data

    def _read(self, count: int) -> Bytes:
        try:
            with gzip.open(self.path) as file:
                return np.frombuffer(file.read(count), np.uint8)
        except (OSError, EOFError, zlib.error) as error:
            raise corrupt(self.path, f"the compressed data is damaged ({error})") from None


IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


class Images:
    """The bytes of image files, uint8 of (N,), or with `decode` their pixels, uint8 of (H, W, 3).

    `decrypt(path)` returns the bytes of an encrypted file. Raises GraphTypeError for arguments of another kind, and
    GraphRuntimeError for files that are empty, cannot be read or are not images.
    """

    def __init__(self, decode: bool = False, decrypt: Decrypt | None = None) -> None:
        self._decode = boolean("decode", decode)
        if decrypt is not None and not callable(decrypt):
            raise type_error("decrypt", decrypt, "a function of a path")
        self._decrypt = decrypt

    def __call__(self, path: str) -> Any:
        """The image in a file."""
        data = np.array(mapped(path)) if self._decrypt is None else np.frombuffer(self._decrypt(path), np.uint8).copy()
        if not self._decode:
            return data
        try:
            return decoded(data)
        except GraphlsError as error:
            raise corrupt(path, str(error).rstrip(".")) from None


def extensions_of(value: object) -> frozenset[str]:
    """The extensions of file names; raises GraphTypeError for anything but a list of strings."""
    if not isinstance(value, (list, tuple)):
        raise type_error("extensions", value, "a list of strings")
    return frozenset(string(f"extensions[{position}]", item) for position, item in enumerate(value))
