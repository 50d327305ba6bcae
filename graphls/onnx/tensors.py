"""The constants of a model, with their elements in the model or in a file beside it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from graphls.base.errors import GraphFileError, GraphlsError, GraphValueError
from graphls.frontend.tensors.tensor import Array
from graphls.runtime.lowering.protos import text_of

MessagePath = tuple[int, ...]
"""The path of a message in the bytes of a model: field numbers, each with the index in the repeated field."""

MOST_KNOWN = 2**31
"""Bytes of the largest sparse constant that is expanded."""


@dataclass(eq=False)
class Stored:
    """A constant of a model: an initializer, or the result of a Constant node."""

    name: str
    proto: TensorProto | SparseTensorProto
    folder: Path | None
    path: MessagePath = ()
    is_node: bool = False
    """True for the result of a Constant node."""
    apart: tuple[MessagePath, int] | None = None
    """The node and the number of its input for which this is a copy of a tensor that the model shares with others."""
    kind: str = ""
    """What it is in the exported program (`importing.signature`); empty where the model does not say."""

    @property
    def is_float(self) -> bool:
        """True for a constant that can be trained: dense, and of floats that graphls computes with."""
        proto = self.proto
        return isinstance(proto, TensorProto) and proto.data_type in _FLOATS

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of its elements."""
        proto = self.proto if isinstance(self.proto, TensorProto) else self.proto.values
        return np.dtype(helper.tensor_dtype_to_np_dtype(proto.data_type))

    @property
    def rank(self) -> int:
        """The number of its axes."""
        return len(self.proto.dims)

    @property
    def is_number(self) -> bool:
        """True for a single number that serves as a literal: without axes, or the result of a node."""
        return not self.rank or (self.is_node and self.size == 1)

    @property
    def size(self) -> int:
        """The number of its elements."""
        return prod(self.proto.dims)

    @property
    def is_external(self) -> bool:
        """True for data in a separate file."""
        return isinstance(self.proto, TensorProto) and self.proto.data_location == TensorProto.EXTERNAL

    @property
    def has_data(self) -> bool:
        """False for a tensor whose elements only the parameter of a cell has, as in modules of PyTorch."""
        fields = ("raw_data", "float_data", "int32_data", "int64_data", "uint64_data", "double_data", "string_data")
        is_dense = isinstance(self.proto, TensorProto)
        return not is_dense or not self.size or self.is_external or any(len(getattr(self.proto, f)) for f in fields)

    @property
    def external(self) -> dict[str, str]:
        """The entries that locate the file with its data."""
        entries = () if isinstance(self.proto, SparseTensorProto) else self.proto.external_data
        return {text_of(entry.key): text_of(entry.value) for entry in entries}

    @cached_property
    def array(self) -> Array:
        """Its elements, cached; see `read`."""
        return self.read()

    def read(self) -> Array:
        """Its elements; raises GraphValueError where the data does not fit the type, GraphFileError without a file."""
        try:
            if isinstance(self.proto, SparseTensorProto):
                return _dense(self.proto)
            if self.is_external:
                return self._mapped(self.proto, self.external)
            return numpy_helper.to_array(self.proto)
        except GraphlsError:
            raise
        except Exception as error:  # of many kinds: the data does not fit the type
            raise GraphValueError(f"The tensor {self.name!r} of the model is damaged: {error}.") from None

    def _mapped(self, proto: TensorProto, entries: dict[str, str]) -> Array:
        """The elements in a file of the folder, mapped copy-on-write."""
        path = external_path(self.folder, entries.get("location", ""), self.name)
        dtype = helper.tensor_dtype_to_np_dtype(proto.data_type)
        shape = tuple(proto.dims)
        offset, size = int(entries.get("offset", 0)), prod(shape) * dtype.itemsize
        length = int(entries.get("length", size))
        try:
            file_size = path.stat().st_size
        except OSError as error:
            text = f"The data of the tensor {self.name!r} cannot be read from {path}: {error.strerror or error}."
            raise GraphFileError(text) from None
        if min(shape, default=0) < 0 or offset < 0 or length != size or offset + length > file_size:
            text = f"The tensor {self.name!r} takes {size} bytes from {offset} on of {path}, which has {file_size}"
            raise GraphValueError(f"{text}; export or copy the model again.")
        if not size:
            return np.zeros(shape, dtype)
        return np.array(np.memmap(path, dtype, "c", offset, shape), copy=False, subok=False)


_FLOATS = {TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE}


def external_path(folder: Path | None, location: str, name: str) -> Path:
    """The file that holds the data of a tensor; raises GraphValueError for one outside of the model's folder."""
    if folder is None:
        text = f"The data of the tensor {name!r} lies in a file of its own; give the path of the model, not its bytes."
        raise GraphValueError(text)
    path = folder / location
    root, real = os.path.realpath(folder), os.path.realpath(path)
    if not location or os.path.isabs(location) or not Path(real).is_relative_to(root):
        text = f"The tensor {name!r} names the file {location!r}, which is not in the folder of the model"
        raise GraphValueError(f"{text}; nothing else is read.")
    if os.path.lexists(real) and not os.path.isfile(real):
        raise GraphValueError(f"The tensor {name!r} names {location!r}, which is not a regular file.")
    return path


def _dense(proto: SparseTensorProto) -> Array:
    shape, values = tuple(proto.dims), numpy_helper.to_array(proto.values)
    indices = numpy_helper.to_array(proto.indices)
    if min(shape, default=0) < 0 or prod(shape) * values.itemsize > MOST_KNOWN:
        raise ValueError(f"it has the shape {shape}")
    dense = np.zeros(shape, values.dtype)
    flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
    dense.reshape(-1)[flat] = values
    return dense
