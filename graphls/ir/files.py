"""Writing files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from graphls.ir.errors import GraphFileError


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file at once; where that fails, what was there before stays. Directories are made.

    A link stays a link to the file; a device or a directory is not replaced.
    Raises GraphFileError, which names the file and the reason.
    """
    try:
        path = path.resolve()
        if path.exists() and not path.is_file():
            raise OSError("it is not a regular file")
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GraphFileError(f"{path} cannot be written: {reason}.") from None


def _write(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, at once."""
    write_bytes(path, text.encode())
