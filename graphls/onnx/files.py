"""The bytes of a model, and the file that they are from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from onnx import ModelProto

from graphls.files.files import as_path
from graphls.importing.files import bytes_of, parsed

Source = object
"""A path, the bytes of a model, or a ModelProto."""


@dataclass(frozen=True)
class Original:
    """A model as it was given: its bytes, and the file that they are from, where there is one."""

    data: bytes
    path: Path | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return "The model" if self.path is None else str(self.path)

    @property
    def folder(self) -> Path | None:
        """Where its external data lies."""
        return None if self.path is None else self.path.parent

    def model(self) -> ModelProto:
        """The model, parsed anew; raises GraphValueError for bytes that are none."""
        return parsed(self.data, self.name)


def read(source: Source) -> Original:
    """What a model is read from.

    Raises GraphFileError for what cannot be read, GraphValueError for a file above 2 GiB, GraphTypeError for another
    kind of source.
    """
    if isinstance(source, ModelProto):
        return Original(source.SerializeToString())
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Original(bytes(source))
    path = as_path(source)
    return Original(bytes_of(path), path)
