"""Saving a checkpoint in shards: each process writes what its devices have, and no host the whole."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphFileError, GraphlsError
from graphls.base.files.files import write_bytes, write_parts
from graphls.base.reporting import checked
from graphls.distributed.peers import Peers
from graphls.frontend.tensors.parameter import Parameter
from graphls.interop.formats import safetensors
from graphls.interop.formats.checkpoint import Entry
from graphls.interop.formats.shards import FILE, INDEX, Bounds, encode_index, file_name, part_name
from graphls.train.loading import entry_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Divided:
    """A value that lies in parts on so many `devices`.

    Each part has the number of its device, its bounds and, if the device belongs to this process, its content.
    """

    shape: tuple[int, ...]
    itemsize: int
    devices: int
    parts: tuple[tuple[int, Bounds, Array | None], ...]


def parts_of(name: str, value: Any) -> Entry | Divided:
    """A copy of what the devices of this process have of a value; of one that lies on the host, a complete copy."""
    storage = value.storage if isinstance(value, Parameter) else None
    if storage is None or storage.division is not None or not hasattr(storage.current, "parts"):
        return entry_of(name, value)
    devices, parts = storage.current.parts()
    copies = ((d, b, None if part is None else np.array(part).astype(storage.dtype)) for d, b, part in parts)
    return Divided(value.shape, storage.dtype.itemsize, devices, tuple(copies))


class Save:
    """Entries as files of a folder: which device writes which of them, and the index of all."""

    def __init__(self, entries: Mapping[str, Entry | Divided], tag: str, is_first: bool) -> None:
        self.count = max((entry.devices for entry in entries.values() if isinstance(entry, Divided)), default=1)
        self.tag, self.is_first = tag, is_first
        self.places: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.parts: dict[str, dict[str, Bounds]] = {}
        self.own: dict[str, dict[str, Entry]] = {}
        self.size = 0
        for name, entry in entries.items():
            self._add(name, entry)

    def _add(self, name: str, entry: Entry | Divided) -> None:
        if not isinstance(entry, Divided):
            self._place(name, 0, entry if self.is_first else None)
            self.size += 0 if isinstance(entry, str) else entry.nbytes
            return
        self.size += int(np.prod(entry.shape, dtype=np.int64)) * entry.itemsize
        if len(entry.parts) == 1:
            self._place(name, entry.parts[0][0], entry.parts[0][2])
            return
        self.shapes[name], self.parts[name] = entry.shape, {}
        for device, bounds, part in entry.parts:
            key = part_name(name, bounds)
            self.parts[name][key] = bounds
            self._place(key, device, part)

    def _place(self, key: str, device: int, entry: Entry | None) -> None:
        file = file_name(self.tag, device, self.count)
        if not isinstance(entry, str):
            self.places[key] = file
        if entry is not None:
            self.own.setdefault(file, {})[key] = entry

    def write_own(self, folder: Path) -> None:
        """Write the files of the devices of this process."""
        for file, entries in self.own.items():
            write_parts(folder / file, [safetensors.encode(entries)])

    def write_index(self, folder: Path) -> None:
        """Write the index, from which on this is the checkpoint of the folder."""
        write_bytes(folder / INDEX, encode_index(self.places, self.shapes, self.parts, self.size))

    def remove_others(self, folder: Path) -> None:
        """Remove the files of earlier saves, and of such as were not completed."""
        files = set(self.places.values()) | set(self.own)
        for path in folder.glob("model-*.safetensors"):
            if FILE.fullmatch(path.name) and path.name not in files:
                with suppress(OSError):
                    path.unlink()

    def remove_own(self, folder: Path) -> None:
        """Remove what this process has written."""
        for file in self.own:
            with suppress(OSError):
                (folder / file).unlink()


def save_shards(folder: Path, entries: Mapping[str, Entry | Divided]) -> None:
    """Write entries to a folder; all processes of a mesh do so together, and raise where one of them cannot.

    The index is replaced last, so that the folder has the old checkpoint or the new one. Raises GraphFileError.
    """
    peers, tag = Peers.current, secrets.token_hex(4)
    if peers is not None:
        tag = peers.agree("a save in shards", tag)[0]
    save = Save(entries, tag, peers is None or peers.number == 0)
    try:
        _together("the files of a save", lambda: checked(save.write_own, folder))
        _together("the index of a save", lambda: save.write_index(folder) if save.is_first else None)
    except BaseException:
        save.remove_own(folder)
        raise
    if save.is_first:
        save.remove_others(folder)


def remove_shards(folder: Path) -> None:
    """Remove a checkpoint, its index first, and the folder if it has nothing else; raises OSError where that fails."""
    (folder / INDEX).unlink(missing_ok=True)
    for path in folder.glob("model-*.safetensors"):
        if FILE.fullmatch(path.name):
            path.unlink(missing_ok=True)
    with suppress(OSError):  # where the user's own files stay, or another process has removed it
        folder.rmdir()


def _together(act: str, task: Callable[[], None]) -> None:
    """Do a part of a save; an error in one process is raised in all."""
    peers, error = Peers.current, None
    try:
        task()
    except GraphlsError as own:
        if peers is None:
            raise
        error = own
    if peers is None:
        return
    reasons = peers.agree(act, None if error is None else error.message)
    if error is not None:
        raise error
    number, reason = next(((n, text) for n, text in enumerate(reasons) if text), (0, ""))
    if reason:
        raise GraphFileError(f"Process {number} could not save its shards: {reason}")
