"""Reading the file of an ONNX model, without the data that lies in other files."""

from __future__ import annotations

import os
from pathlib import Path

from onnx import ModelProto

from graphls.files.files import read_bytes
from graphls.ir.errors import GraphValueError

LARGEST = 2**31 - 1
"""Bytes that one file of the format can hold."""

Source = str | os.PathLike[str] | ModelProto


def load(source: Source) -> tuple[ModelProto, str]:
    """The model, and its file in front of messages; raises GraphFileError and GraphValueError as `read_onnx` says."""
    if isinstance(source, ModelProto):
        return source, ""
    return parsed(bytes_of(Path(source)), str(source)), f"{source}: "


def parsed(data: bytes, source: str) -> ModelProto:
    """The model of these bytes; raises GraphValueError, which calls them `source`, where they are none."""
    model = ModelProto()
    try:
        model.ParseFromString(data)
    except Exception:  # DecodeError of protobuf, which no public module of onnx has
        raise GraphValueError(f"{source} is not an ONNX model, or not all of one; export or copy it again.") from None
    if not (model.HasField("graph") and (model.graph.node or model.graph.output)):
        raise GraphValueError(f"{source} is not an ONNX model: there is no graph in it.")
    return model


def bytes_of(path: Path) -> bytes:
    """The bytes of a file; raises GraphFileError where it cannot be read, GraphValueError for one above 2 GiB."""
    if os.path.isfile(path) and os.path.getsize(path) > LARGEST:
        raise GraphValueError(f"{path} is larger than 2 GiB, which no ONNX model is; export it with external data.")
    return read_bytes(path)
