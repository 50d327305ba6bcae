"""Sessions of ONNX Runtime on saved models, with inputs and outputs bound to memory that outlives a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from graphls.base.errors import GraphFileError, GraphTypeError, GraphValueError
from graphls.base.files.files import as_path
from graphls.frontend.tensors.tensor import Array
from graphls.onnx.training.memory import Device, Memory, OrtValue

TYPES: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(int16)": np.int16, "tensor(int8)": np.int8,
    "tensor(uint64)": np.uint64, "tensor(uint32)": np.uint32, "tensor(uint16)": np.uint16, "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}  # fmt: skip


class TensorInfo(Protocol):
    """An input or output of a session, `onnxruntime.NodeArg`."""

    name: str
    type: str
    shape: Sequence[int | str | None]


class Binding(Protocol):
    """The inputs and outputs of a session, `onnxruntime.IOBinding`."""

    def bind_input(self, name: str, kind: str, number: int, dtype: object, shape: list[int], address: int) -> None:
        """Read an input from memory."""

    def bind_output(
        self, name: str, kind: str, number: int, dtype: object = None, shape: list[int] | None = None,
        address: int | None = None,
    ) -> None:  # fmt: skip
        """Write an output to memory, or to new memory of a device."""

    def bind_cpu_input(self, name: str, array: Array) -> None:
        """Read an input from an array."""

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        """Read an input from a tensor."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""


class Session(Protocol):
    """A loaded model, `onnxruntime.InferenceSession`."""

    def get_inputs(self) -> list[TensorInfo]:
        """The inputs of the model."""

    def get_outputs(self) -> list[TensorInfo]:
        """The outputs of the model."""

    def io_binding(self) -> Binding:
        """A new binding."""

    def run_with_iobinding(self, binding: Binding) -> None:
        """Run the model on the inputs of a binding."""


def open_session(path: object, device: Device, options: object = None) -> Session:
    """A session of a model in a file; raises GraphFileError without the file, GraphValueError for no model."""
    file = as_path(path)
    if not os.path.isfile(file):
        raise GraphFileError(f"There is no model {os.fspath(file)!r}; give the path that artifacts wrote it to.")
    try:
        session: Session = device.runtime.InferenceSession(str(file), options, providers=device.providers)
    except Exception as error:  # of many kinds, which no public module of the runtime has
        raise GraphValueError(f"ONNX Runtime does not run {file}: {error}") from None
    return session


class Bound:
    """A session with a binding of its inputs and outputs: to memory, which it retains, or for one run only."""

    def __init__(self, session: Session, device: Device) -> None:
        self.session = session
        self.device = device
        self.binding = session.io_binding()
        self.retained: list[Memory] = []

    def bind_input(self, name: str, memory: Memory, offset: int, shape: Sequence[int]) -> None:
        """Read an input from an array at an offset in memory."""
        self.retained.append(memory)
        self.binding.bind_input(name, *memory.device, memory.dtype, list(shape), memory.at(offset))

    def bind_output(self, name: str, memory: Memory, offset: int, shape: Sequence[int]) -> None:
        """Write an output to an array at an offset in memory."""
        self.retained.append(memory)
        self.binding.bind_output(name, *memory.device, memory.dtype, list(shape), memory.at(offset))

    def bind_new_outputs(self, names: Sequence[str], on_host: bool = True) -> None:
        """Allocate outputs in the next run."""
        device = ("cpu", 0) if on_host else (self.device.kind, self.device.number)
        for name in names:
            self.binding.bind_output(name, *device)

    def run(self) -> None:
        """Run the session on the bound inputs."""
        self.session.run_with_iobinding(self.binding)


def checked(info: TensorInfo, value: object) -> Array:
    """An input as a contiguous array; raises GraphTypeError for another dtype, GraphValueError for another shape."""
    array = np.asarray(value, order="C")
    dtype = TYPES.get(info.type)
    if dtype is None or array.dtype != dtype:
        raise GraphTypeError(f"The input {info.name!r} takes {info.type}, not an array of {array.dtype}.")
    fits = len(array.shape) == len(info.shape)
    if not fits or any(isinstance(w, int) and w != s for w, s in zip(info.shape, array.shape, strict=True)):
        raise GraphValueError(f"The input {info.name!r} takes the shape {info.shape}, not {list(array.shape)}.")
    return array
