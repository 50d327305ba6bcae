"""Writing files whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from graphls.ir.errors import GraphFileError


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file at once; where that fails, what was there before stays. Directories are made.

    Raises GraphFileError, which names the file and the reason.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data)
    except OSError as error:
        raise GraphFileError(f"{path} cannot be written: {error.strerror or error}.") from None


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
