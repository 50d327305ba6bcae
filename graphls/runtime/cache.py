"""The on-disk compile cache: entries under the hash of all inputs of a compilation.

An entry is a file with a checksum of its key and its parts, which is written at once or not at all. So processes may
share a folder, and one that is damaged, cut short, of another key or of another version counts as none.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, TypeVar

from graphls.base.errors import GraphFileError, GraphlsError, GraphTypeError, GraphValueError
from graphls.base.files.files import open_file, remove_leftovers, write_parts
from graphls.base.reporting import warn
from graphls.base.sharing.settings import Settings
from graphls.base.version import __version__
from graphls.ir.graph import Graph, walk
from graphls.ir.text import digest

ENDING = ".compiled"
MAGIC = b"graphls compiled 2\n"
PAGE = 4096
"""The alignment of parts in a file in bytes, so that arrays in them can be mapped into memory."""

LIMIT = 4 * 2**30
"""Bytes that a folder of entries takes at most, unless another number is asked for."""

FEWEST = 20
"""Nodes of a graph from which on it is kept; a smaller one is compiled as soon as an entry is read."""

Parts = Mapping[str, bytes | memoryview]
Opened = TypeVar("Opened")
_OURS = "graphls."
_SOURCES = "base", "ir", "primitives", "runtime"
_FEATURES = "flags", "features", "model name"


@dataclass(frozen=True)
class Cache:
    """A folder of entries, each a file of named parts; where they exceed `limit` bytes, those unused for longest go.

    Entries of different `contents` may share a folder, each kind with its `ending`.
    """

    folder: Path
    limit: int = LIMIT
    ending: str = ENDING
    contents: str = "A compiled step"
    has_warned: ClassVar[set[Path]] = set()

    def open(self, key: str, opened: Callable[[Mapping[str, memoryview]], Opened]) -> Opened | None:
        """The object that `opened` makes of the parts of an entry; None where there is no complete entry.

        It is also None where the engine raises anything but a GraphlsError, as a runtime may refuse what is in an
        entry by any exception. One warning says which, so that no fault of an engine stays hidden.
        """
        parts = self.load(key)
        try:
            return None if parts is None else opened(parts)
        except GraphlsError:
            raise  # what is missing is missing for every entry
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            self._warn(f"{self.contents} in {self.folder} is damaged and is made again ({reason}).")
            return None

    def load(self, key: str) -> dict[str, memoryview] | None:
        """The parts of an entry, mapped into memory; None where there is no whole one of this key."""
        path = self._path(key)
        try:
            with open_file(path) as file:
                data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            parts = _parts(key, data)
        except (OSError, ValueError, TypeError, AttributeError, RecursionError):
            return None
        with suppress(OSError):
            os.utime(path)  # which makes it the one that was used last
        return parts

    def keep(self, key: str, parts: Parts) -> None:
        """Write an entry, and remove others beyond the limit; where that fails, one warning says so and no more."""
        head, size = _head(key, parts)
        refused = f"{self.contents} could not be kept in {self.folder}"
        if size > self.limit:
            self._warn(f"{refused}: it takes {size:,} bytes, which is beyond the limit of {self.limit:,}.")
            return
        try:
            write_parts(self._path(key), [head, *_padded(parts)], follows_links=False)
            self._remove_oldest(self._path(key))
        except (GraphFileError, OSError) as error:
            self._warn(f"{refused}: {str(error).rstrip('.')}.")

    def keys(self) -> list[str]:
        """The keys of the entries in the folder, complete ones and others."""
        return sorted(path.name.removesuffix(self.ending) for path in self.folder.glob(f"*{self.ending}"))

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{self.ending}"

    def _warn(self, text: str) -> None:
        if self.folder not in self.has_warned:
            self.has_warned.add(self.folder)
            warn(text)

    def _remove_oldest(self, newest: Path) -> None:
        remove_leftovers(self.folder, "", "*")
        entries = []
        for path in self.folder.glob(f"*{self.ending}"):
            with suppress(OSError):  # another process may have removed it
                status = path.stat()
                entries.append((path != newest, -status.st_mtime_ns, status.st_size, path))
        total = 0
        for _, _, size, path in sorted(entries):
            total += size
            if total > self.limit:
                with suppress(OSError):
                    path.unlink()


_settings = Settings({"folder": None, "limit": LIMIT})


def keep_in(folder: Path | None) -> None:
    """Keep compiled steps in a folder; None leaves it to the environment, without another limit."""
    if folder is None:
        _settings.reset()
    else:
        _settings.update({"folder": folder.absolute()})


def limit_to(limit: int) -> None:
    """Let a folder of entries take this many bytes at most."""
    _settings.update({"limit": limit})


def current() -> Cache | None:
    """The cache of compiled steps: in the folder that was chosen, or that the environment has as GRAPHLS_CACHE."""
    folder = _settings["folder"] or os.environ.get("GRAPHLS_CACHE")
    return Cache(Path(folder), _settings["limit"]) if folder else None


def default_folder() -> Path:
    """The folder of a user who names none; raises GraphValueError for one without a home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "graphls" / "compiled"
    except RuntimeError:
        raise GraphValueError("There is no home directory to keep compiled steps in; name a folder.") from None


def key_of(graph: Graph, fewest: int | None = None, /, **compiled_with: object) -> str | None:
    """The hash of a graph, of what an engine makes of it by, of this machine and of graphls.

    None for graphs of less than `fewest` nodes, by default FEWEST, or that hold what has no hash: an attribute that is
    no data, or a primitive from elsewhere, whose rules may change without the graph.
    """
    nodes = list(walk(graph))
    fewest = FEWEST if fewest is None else fewest
    if len(nodes) < fewest or not all(type(n.primitive).__module__.startswith(_OURS) for n in nodes):
        return None
    try:
        facts = {"graph": digest(graph), "graphls": __version__, "sources": _sources(), "machine": machine()}
    except GraphTypeError:
        return None
    text = json.dumps({**facts, **compiled_with}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _sources() -> str:
    """The hash of the files that lower graphs, which change between versions where graphls is being developed."""
    root, checksum = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for room in _SOURCES for path in (root / room).rglob("*.py")):
        checksum.update(str(path.relative_to(root)).encode())
        checksum.update(path.read_bytes())
    return checksum.hexdigest()


@cache
def machine() -> str:
    """The processor of this machine with its features, on which optimized models depend."""
    known = [platform.system(), platform.machine(), platform.processor()]
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").lower().splitlines()
        known += sorted({line for line in lines if line.startswith(_FEATURES)})
    return " ".join(" ".join(known).split())


def _head(key: str, parts: Parts) -> tuple[bytes, int]:
    """The header of an entry, a number of whole pages, and how many bytes the entry has."""
    sizes = {name: len(part) for name, part in parts.items()}
    table = json.dumps(sizes).encode()
    checksum = hashlib.sha256(key.encode() + table)
    for part in _padded(parts):
        checksum.update(part)
    head = MAGIC + checksum.digest() + len(table).to_bytes(8, "little") + table
    head += bytes(-len(head) % PAGE)
    return head, len(head) + sum(map(len, _padded(parts)))


def _padded(parts: Parts) -> list[bytes | memoryview]:
    return [piece for part in parts.values() for piece in (part, bytes(-len(part) % PAGE))]


def _parts(key: str, data: memoryview) -> dict[str, memoryview]:
    """The parts of the entry of a key; raises ValueError, or an error of JSON, for an incomplete or damaged one."""
    offset = len(MAGIC)
    checksum, offset = data[offset : offset + 32], offset + 32
    count, offset = int.from_bytes(data[offset : offset + 8], "little"), offset + 8
    if data[: len(MAGIC)] != MAGIC or count > len(data):
        raise ValueError("This is not an entry.")
    table, offset = data[offset : offset + count], offset + count
    offset += -offset % PAGE
    computed = hashlib.sha256(key.encode() + bytes(table))
    computed.update(data[offset:])
    if computed.digest() != checksum:
        raise ValueError("The entry is damaged.")
    parts = {}
    for name, size in json.loads(bytes(table)).items():
        parts[name] = data[offset : offset + size]
        offset += size + -size % PAGE
    return parts
