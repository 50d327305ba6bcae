"""Reads the file of an ONNX model, without its external data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from onnx import ModelProto

from graphls.base.errors import GraphValueError
from graphls.base.files.files import as_path, read_bytes

LARGEST = 2**31 - 1
"""Bytes of the largest file of the format."""

Source: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | ModelProto"
"""A path, the bytes of a model, or a ModelProto."""


@dataclass(frozen=True)
class Original:
    """The bytes of a model, and the path of its file, if it has one."""

    data: bytes
    path: Path | None = None

    @property
    def name(self) -> str:
        """The name of the model in messages."""
        return "The model" if self.path is None else str(self.path)

    @property
    def folder(self) -> Path | None:
        """The folder of its external data; None without a file."""
        return None if self.path is None else self.path.parent

    def model(self) -> ModelProto:
        """The model, parsed anew; raises GraphValueError for other bytes."""
        model = ModelProto()
        try:
            model.ParseFromString(self.data)
        except Exception:  # DecodeError of protobuf, which no public module of onnx has
            text = f"{self.name} is not an ONNX model, or not all of one; export or copy it again."
            raise GraphValueError(text) from None
        if not (model.HasField("graph") and (model.graph.node or model.graph.output)):
            raise GraphValueError(f"{self.name} is not an ONNX model: there is no graph in it.")
        return model


def read(source: Source) -> Original:
    """Read the bytes of a model.

    Raises GraphFileError for what cannot be read, GraphValueError for a file above 2 GiB, GraphTypeError for another
    kind of source.
    """
    if isinstance(source, ModelProto):
        return Original(source.SerializeToString())
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Original(bytes(source))
    path = as_path(source)
    if os.path.isfile(path) and os.path.getsize(path) > LARGEST:
        raise GraphValueError(f"{path} is larger than 2 GiB, which no ONNX model is; export it with external data.")
    return Original(read_bytes(path), path)
