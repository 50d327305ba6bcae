"""External data of a model: large arrays in a file beside it, as a protocol buffer has 2 GiB at most.

The tensors of arrays that do not fit refer to external data: sessions get the arrays, and a saved model has a file of
them beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto

from graphls.base.errors import GraphValueError
from graphls.base.files.files import write_bytes, write_parts
from graphls.primitives.primitive import Array

INSIDE = 2**30
"""Bytes of arrays inside of a model; the rest of 2 GiB is for operators and metadata."""

SMALLEST = 2**16
"""Bytes from which on an array may be external; type inference needs shapes and axes inside of the model."""

PAGE = 4096
"""The alignment of arrays in a file, so that they can be mapped into memory."""


class Arrays(MutableMapping[str, Array]):
    """Arrays by names, each computed anew when it is read, so that they are never all in memory."""

    def __init__(self, makers: Mapping[str, Callable[[], Array]]) -> None:
        self.makers = dict(makers)

    def __getitem__(self, name: str) -> Array:
        return self.makers[name]()

    def __setitem__(self, name: str, array: Array) -> None:
        self.makers[name] = partial(_itself, array)

    def __delitem__(self, name: str) -> None:
        del self.makers[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.makers)

    def __len__(self) -> int:
        return len(self.makers)


def _itself(array: Array) -> Array:
    return array


class Weights:
    """The arrays of a model: the number of bytes inside of it, and the external arrays by the names of their tensors.

    With a `threshold`, arrays of `fill_later` of so many bytes and more are external, whatever the size of the model.
    """

    def __init__(
        self, outside: Mapping[str, Array] | None = None, inside: int = 0, threshold: int | None = None
    ) -> None:
        self.outside = Arrays({name: partial(_itself, array) for name, array in (outside or {}).items()})
        self.inside = inside
        self.threshold = threshold

    def fill(self, tensor: TensorProto, array: Array) -> None:
        """Set the data of a tensor, or make it external; bfloat16 stays inside, as no session takes arrays of it."""
        if array.nbytes < SMALLEST or array.dtype.name == "bfloat16" or self.inside + array.nbytes <= INSIDE:
            self.inside += array.nbytes
            tensor.raw_data = array.tobytes()
        else:
            self._make_external(tensor, array.nbytes, partial(_itself, array))

    def fill_later(self, tensor: TensorProto, size: int, array: Callable[[], Array]) -> None:
        """Set the data of a tensor, of `size` bytes, or make it external, to be computed when it is read."""
        fits = size < SMALLEST or self.inside + size <= INSIDE
        if fits if self.threshold is None else size < self.threshold:
            self.inside += size
            tensor.raw_data = array().tobytes()
        else:
            self._make_external(tensor, size, array)

    def _make_external(self, tensor: TensorProto, size: int, array: Callable[[], Array]) -> None:
        self.outside.makers[tensor.name] = array
        _set_location(tensor, "elsewhere", 0, size)


def complete(model: ModelProto, outside: Mapping[str, Array]) -> ModelProto:
    """Load all external data into a model, in place; above 2 GiB it cannot be serialised."""
    for tensor in model.graph.initializer:
        if tensor.name in outside:
            tensor.ClearField("external_data")
            tensor.data_location = TensorProto.DEFAULT
            tensor.raw_data = outside[tensor.name].tobytes()
    return model


def write_model(path: Path, model: ModelProto, outside: Mapping[str, Array]) -> None:
    """Write a model, and beside it its external data as `name.onnx.data`; raises GraphFileError as `write_parts` does.

    Each of the two files is written atomically, the data first.
    """
    if outside:
        path = Path(os.path.realpath(path))  # a link stays one, and both files go to its target
        data = path.with_name(f"{path.name}.data")
        write_parts(data, _parts(model, outside, data.name))
    write_bytes(path, serialised(model))


def _parts(model: ModelProto, outside: Mapping[str, Array], name: str) -> Iterator[bytes | memoryview]:
    """The arrays one after the other, each at the beginning of a page, with the offsets set in their tensors."""
    offset = 0
    for tensor in model.graph.initializer:
        if tensor.name in outside:
            array = outside[tensor.name]
            _set_location(tensor, name, offset, array.nbytes)
            yield bytes_of(array)
            padding = -array.nbytes % PAGE
            yield bytes(padding)
            offset += array.nbytes + padding


def bytes_of(array: Array) -> memoryview:
    """The memory of an array, in row-major order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def serialised(model: ModelProto) -> bytes:
    """A model as bytes; raises GraphValueError for one that is larger than the format allows."""
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # EncodeError of protobuf, which no public module of onnx has
        raise GraphValueError(f"The model takes more than the 2 GiB that ONNX can hold ({error}).") from None


def _set_location(tensor: TensorProto, file: str, offset: int, count: int) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", file), ("offset", str(offset)), ("length", str(count))):
        tensor.external_data.add(key=key, value=value)
