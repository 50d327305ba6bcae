"""Image files as rows of data sets have them: their bytes, or their pixels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.dataset.readers_files import corrupt, mapped
from graphls.dataset.transforms.checks import boolean, string, type_error
from graphls.ir.errors import GraphlsError

IMAGES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")


class Images:
    """The bytes of image files, uint8 of (N,), or with `decode` their pixels, uint8 of (H, W, 3).

    `decrypt(path)` gives the bytes of an encrypted file. Raises GraphTypeError for arguments of another kind, and
    GraphRuntimeError for files that are empty, cannot be read or hold no image.
    """

    def __init__(self, decode: Any = False, decrypt: Callable[[str], bytes] | None = None) -> None:
        self._decode = boolean("decode", decode)
        if decrypt is not None and not callable(decrypt):
            raise type_error("decrypt", decrypt, "a function of a path")
        self._decrypt = decrypt

    def __call__(self, path: str) -> Any:
        """The image in a file."""
        data = np.array(mapped(path)) if self._decrypt is None else np.frombuffer(self._decrypt(path), np.uint8).copy()
        if not self._decode:
            return data
        from graphls.dataset.vision.decoding import decoded

        try:
            return np.asarray(decoded(data))
        except GraphlsError as error:
            raise corrupt(path, str(error).rstrip(".")) from None


def extensions_of(value: Any) -> frozenset[str]:
    """The endings of file names; raises GraphTypeError for anything but a list of strings."""
    if not isinstance(value, (list, tuple)):
        raise type_error("extensions", value, "a list of strings")
    return frozenset(string(f"extensions[{position}]", item) for position, item in enumerate(value))
