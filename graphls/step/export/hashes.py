"""File hashes that identify the files of a bundle."""

from __future__ import annotations

import hashlib
from pathlib import Path

from graphls.base.files.files import open_file
from graphls.step.export.manifest import File

CHUNK = 2**20
"""Bytes that are read at once."""


def file_of(path: Path) -> File:
    """The name and the SHA-256 of a file."""
    found = hashlib.sha256()
    with open_file(path) as file:
        while chunk := file.read(CHUNK):
            found.update(chunk)
    return File(path.name, found.hexdigest())
