"""Sessions of ONNX Runtime on written models, and their inputs and outputs in memory that stays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphFileError, GraphTypeError, GraphValueError
from graphls.base.files.files import as_path
from graphls.frontend.tensors.tensor import TensorLike
from graphls.onnx.training.memory import Device, Memory, Row
from graphls.runtime.onnxruntime.runtime import load_runtime

TYPES: dict[str, Any] = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int16)": np.int16, "tensor(int8)": np.int8,
    "tensor(uint64)": np.uint64, "tensor(uint32)": np.uint32, "tensor(uint16)": np.uint16, "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}  # fmt: skip


def open_session(path: object, device: Device, options: Any = None) -> Any:
    """A session of a model in a file; raises GraphFileError where it is not there, GraphValueError for no model."""
    place = as_path(path)
    if not os.path.isfile(place):
        raise GraphFileError(f"There is no model {os.fspath(place)!r}; give the path that artifacts wrote it to.")
    try:
        return load_runtime().InferenceSession(str(place), options, providers=device.providers)
    except Exception as error:  # of many kinds, which no public module of the runtime has
        raise GraphValueError(f"ONNX Runtime does not run {place}: {error}") from None


class Bound:
    """A session with a binding of its inputs and outputs; memory stays bound, and there, others are for one run."""

    def __init__(self, session: Any, device: Device) -> None:
        self.session = session
        self.device = device
        self.binding = session.io_binding()
        self.held: list[Memory] = []

    def take(self, name: str, row: Row, of: str) -> None:
        """Read an input from an array of a row."""
        self.take_at(name, row.memory, row.places[of], row.shapes[of])

    def take_at(self, name: str, memory: Memory, place: int, shape: Sequence[int]) -> None:
        """Read an input from a place in memory."""
        self.held.append(memory)
        self.binding.bind_input(name, *memory.device, memory.dtype, list(shape), memory.at(place))

    def give(self, name: str, row: Row, of: str) -> None:
        """Write an output to an array of a row."""
        self.give_at(name, row.memory, row.places[of], row.shapes[of])

    def give_at(self, name: str, memory: Memory, place: int, shape: Sequence[int]) -> None:
        """Write an output to a place in memory."""
        self.held.append(memory)
        self.binding.bind_output(name, *memory.device, memory.dtype, list(shape), memory.at(place))

    def give_new(self, names: Sequence[str], on_host: bool = True) -> None:
        """Make new outputs in the next run."""
        place = ("cpu", 0) if on_host else (self.device.kind, self.device.number)
        for name in names:
            self.binding.bind_output(name, *place)

    def run(self) -> None:
        """Run the session on what is bound."""
        self.session.run_with_iobinding(self.binding)


def checked(info: Any, value: TensorLike) -> Any:
    """An input as a contiguous array; raises GraphTypeError for another dtype, GraphValueError for another shape."""
    array = np.asarray(value, order="C")
    dtype = TYPES.get(info.type)
    if dtype is None or array.dtype != dtype:
        raise GraphTypeError(f"The input {info.name!r} takes {info.type}, not an array of {array.dtype}.")
    fits = len(array.shape) == len(info.shape)
    if not fits or any(isinstance(w, int) and w != s for w, s in zip(info.shape, array.shape, strict=True)):
        raise GraphValueError(f"The input {info.name!r} takes the shape {info.shape}, not {list(array.shape)}.")
    return array
