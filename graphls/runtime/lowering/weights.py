"""External data of a model: large arrays in a file beside it, as a protocol buffer holds 2 GiB at most.

What does not fit is a tensor whose data lies elsewhere: a session is given the arrays, a file has another beside it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto

from graphls.base.errors import GraphValueError
from graphls.base.files.files import write_bytes, write_parts

INSIDE = 2**30
"""Bytes of arrays that a model has in itself; the rest of 2 GiB is for operators and what they tell."""

SMALLEST = 2**16
"""Bytes from which on an array may lie outside; those of shapes and axes must be there to infer types."""

PAGE = 4096
"""What the place of an array in a file is a multiple of, so that it can be mapped into memory."""

Array = np.ndarray[Any, Any]


class Arrays(MutableMapping[str, Array]):
    """Arrays by names, each made when it is read, and not kept, so that they are never all in memory."""

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
    """The arrays of a model: how many bytes are inside of it, and the others by the names of their tensors.

    With a `threshold`, arrays of so many bytes and more that are made later lie outside, whatever the model holds.
    """

    def __init__(
        self, outside: Mapping[str, Array] | None = None, inside: int = 0, threshold: int | None = None
    ) -> None:
        self.outside = Arrays({name: partial(_itself, array) for name, array in (outside or {}).items()})
        self.inside = inside
        self.threshold = threshold

    def fill(self, tensor: TensorProto, array: Array) -> None:
        """Give a tensor its data, or say that it lies elsewhere; no session takes an array of bfloat16."""
        if array.nbytes < SMALLEST or array.dtype.name == "bfloat16" or self.inside + array.nbytes <= INSIDE:
            self.inside += array.nbytes
            tensor.raw_data = array.tobytes()
        else:
            self._put_outside(tensor, array.nbytes, partial(_itself, array))

    def fill_later(self, tensor: TensorProto, size: int, array: Callable[[], Array]) -> None:
        """Give a tensor its data, of `size` bytes, or say that it lies elsewhere, where it is made when it is read."""
        if self.threshold is None:
            lies_inside = size < SMALLEST or self.inside + size <= INSIDE
        else:
            lies_inside = size < self.threshold
        if lies_inside:
            self.inside += size
            tensor.raw_data = array().tobytes()
        else:
            self._put_outside(tensor, size, array)

    def _put_outside(self, tensor: TensorProto, size: int, array: Callable[[], Array]) -> None:
        self.outside.makers[tensor.name] = array
        _lie_in(tensor, "elsewhere", 0, size)


def complete(model: ModelProto, outside: Mapping[str, Array]) -> ModelProto:
    """The same model, in place, with all of its data; larger than 2 GiB it cannot be serialised."""
    for tensor in model.graph.initializer:
        if tensor.name in outside:
            tensor.ClearField("external_data")
            tensor.data_location = TensorProto.DEFAULT
            tensor.raw_data = outside[tensor.name].tobytes()
    return model


def write_model(path: Path, model: ModelProto, outside: Mapping[str, Array]) -> None:
    """Write a model, and beside it what lies outside, as `name.onnx.data`; raises GraphFileError as `write_parts` does.

    Each of the two files is written at once or not at all, the data first.
    """
    if outside:
        path = Path(os.path.realpath(path))  # a link stays one, and both files lie where it leads
        data = path.with_name(f"{path.name}.data")
        write_parts(data, _parts(model, outside, data.name))
    write_bytes(path, serialised(model))


def _parts(model: ModelProto, outside: Mapping[str, Array], name: str) -> Iterator[bytes | memoryview]:
    """The arrays one after the other, each at the beginning of a page, which its tensor is told."""
    place = 0
    for tensor in model.graph.initializer:
        if tensor.name in outside:
            array = outside[tensor.name]
            _lie_in(tensor, name, place, array.nbytes)
            yield bytes_of(array)
            filling = -array.nbytes % PAGE
            yield bytes(filling)
            place += array.nbytes + filling


def bytes_of(array: Array) -> memoryview:
    """The memory of an array, in row-major order."""
    flat: Any = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memoryview(flat)


def serialised(model: ModelProto) -> bytes:
    """A model as bytes; raises GraphValueError for one that is larger than the format can hold."""
    try:
        return bytes(model.SerializeToString())
    except Exception as error:  # EncodeError of protobuf, which no public module of onnx has
        raise GraphValueError(f"The model takes more than the 2 GiB that ONNX can hold ({error}).") from None


def _lie_in(tensor: TensorProto, file: str, place: int, count: int) -> None:
    tensor.data_location = TensorProto.EXTERNAL
    del tensor.external_data[:]
    for key, value in (("location", file), ("offset", str(place)), ("length", str(count))):
        tensor.external_data.add(key=key, value=value)
