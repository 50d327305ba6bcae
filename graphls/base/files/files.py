"""Reading regular files, and writing files atomically."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import IO, Any, BinaryIO

from graphls.base.errors import GraphFileError, GraphTypeError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows, where a file that is open can be neither removed nor replaced
    fcntl = None

Part = bytes | memoryview
StrPath = str | os.PathLike[str]
NEW_FILE = 0o666
"""The mode of a new file, from which the system removes the umask of the process."""


def as_path(path: object) -> Path:
    """The path that a user named, as text, bytes or a path; raises GraphTypeError for anything else."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise GraphTypeError(f"A file or directory is named by a string or a path, not by {path!r}.")
    return Path(os.fsdecode(path))


def open_file(path: StrPath, mode: str = "rb", **options: Any) -> IO[Any]:
    """Open a data file for reading; `options` are those of Python's open.

    Raises OSError where it cannot be opened, and for anything but a regular file: a pipe might never send a byte.
    """
    return open(path, mode, opener=_open_regular, **options)


def _open_regular(path: str, flags: int) -> int:
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # else it would wait for the writer of a pipe
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):  # Python itself reports that it is a directory
        return handle
    os.close(handle)
    raise OSError("it is not a regular file")


def read_bytes(path: StrPath) -> bytes:
    """The bytes of a regular file; raises GraphFileError, which names the file and the reason."""
    try:
        with open_file(path) as file:
            return bytes(file.read())
    except (OSError, ValueError) as error:
        raise GraphFileError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text; raises ValueError for invalid JSON, and for JSON that is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically; see `write_parts`."""
    write_parts(path, [data])


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, atomically; a lone surrogate, which UTF-8 cannot encode, becomes its escape."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


CIRCLE = "its links lead in a circle"


def write_parts(path: Path, parts: Iterable[Part], follows_links: bool = True) -> None:
    """Write a file of these parts atomically, and wait until it is on the disk; directories are created.

    Where that fails, the old file stays. The unfinished file of a process that was killed is removed when a file
    of the same name is written again. A link stays a link to the file, unless `follows_links` is False, which puts
    the file in its place; a device or a directory is not replaced. A file that is replaced keeps its mode, a new one
    has the default mode under the umask of the process.
    Raises GraphFileError, which names the file and the reason.
    """
    try:
        if not follows_links and path.is_symlink():
            path.unlink()
        path = _resolved(path)
        if path.exists() and not path.is_file():
            raise OSError("it is not a regular file")
        _make_folder(path.parent)
        remove_leftovers(path.parent, path.name)
        _write(path, parts)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GraphFileError(f"{path} cannot be written: {reason}.") from None


def _resolved(path: Path) -> Path:
    try:
        resolved = path.resolve()
    except RuntimeError:  # Python 3.13 returns the path in place of this error
        raise OSError(CIRCLE) from None
    if any(part.is_symlink() for part in (resolved, *resolved.parents)):
        raise OSError(CIRCLE)
    return resolved


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OSError(f"{folder} is not a directory") from None


def _hidden(name: str) -> str:
    """The prefix of the unfinished files of a name; a long name is cut, since names have 255 bytes at most."""
    if len(os.fsencode(name)) <= 200:
        return f".{name}"
    return f".{name[:40]}-{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}"


def remove_leftovers(folder: Path, name: str, ending: str = "") -> None:
    """Remove the unfinished files of a name that no process is writing any more; `ending` is a pattern after it."""
    if fcntl is None:
        return
    for leftover in folder.glob(f"{escape(_hidden(name))}{ending}.*.tmp"):
        with suppress(OSError), open(leftover, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def _write(path: Path, parts: Iterable[Part]) -> None:
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else None
    begun: list[Path] = []
    try:
        with _open_temporary(path, NEW_FILE if mode is None else mode & 0o700, begun) as file:
            temporary = begun[-1]
            if mode is not None:
                os.chmod(temporary, mode)
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is not None:
                os.replace(temporary, path)
        if fcntl is None:
            os.replace(temporary, path)
    except BaseException:
        for unfinished in begun:
            unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _open_temporary(path: Path, mode: int, begun: list[Path]) -> BinaryIO:
    """A new file beside this one, locked while this process writes it; the system removes the umask from the mode.

    Its name is in `begun` before the file exists, and the file is closed with its last reference, so that after a
    Ctrl-C at any moment it only has to be removed by name.
    """
    while True:
        temporary = path.parent / f"{_hidden(path.name)}.{secrets.token_hex(16)}.tmp"
        begun.append(temporary)
        file = open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        if _lock(file.fileno()) and temporary.exists():
            return file
        file.close()


def _lock(handle: int) -> bool:
    """Try to lock a file; returns False where another process has the lock, True also on file systems without locks."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _sync_folder(folder: Path) -> None:
    """Make a new name durable, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
