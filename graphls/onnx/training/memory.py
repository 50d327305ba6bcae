"""Memory that sessions read and write: buffers on the CPU or a GPU, and arrays packed into one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from math import prod
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np

from graphls.frontend.tensors.tensor import Array
from graphls.runtime.onnxruntime.runtime import load_runtime

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

STEP = 16
"""The alignment of packed arrays, in elements."""


class OrtValue(Protocol):
    """A tensor of ONNX Runtime, `onnxruntime.OrtValue`."""

    def numpy(self) -> Array:
        """A copy of its elements."""

    def data_ptr(self) -> int:
        """The address of its memory."""

    def update_inplace(self, array: Array) -> None:
        """Replace its elements."""


class Memory:
    """A buffer of one dtype; `get` returns its elements, possibly as a view of the buffer, and `set` replaces them."""

    def __init__(self, address: int, dtype: np.dtype[np.generic], device: tuple[str, int] = ("cpu", 0)) -> None:
        self.address = address
        self.dtype = dtype
        self.device = device

    def at(self, index: int) -> int:
        """The address of an element."""
        return self.address + index * self.dtype.itemsize

    def get(self) -> Array:
        """The elements."""
        raise NotImplementedError

    def set(self, elements: Array) -> None:
        """Replace the elements."""
        raise NotImplementedError


class HostMemory(Memory):
    """Memory of the CPU, aligned to 64 bytes."""

    def __init__(self, count: int, dtype: np.dtype[np.generic]) -> None:
        size = count * dtype.itemsize
        raw = np.zeros(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        self.array: Array = raw[start : start + size].view(dtype)
        super().__init__(self.array.ctypes.data, dtype)

    def get(self) -> Array:
        return self.array

    def set(self, elements: Array) -> None:
        if elements is not self.array:
            self.array[...] = elements


class DeviceMemory(Memory):
    """Memory of a device."""

    def __init__(self, count: int, dtype: np.dtype[np.generic], device: Device) -> None:
        zeros = np.zeros(count, dtype)
        self.value: OrtValue = device.runtime.OrtValue.ortvalue_from_numpy(zeros, device.kind, device.number)
        super().__init__(self.value.data_ptr(), dtype, (device.kind, device.number))

    def get(self) -> Array:
        return self.value.numpy()

    def set(self, elements: Array) -> None:
        self.value.update_inplace(np.ascontiguousarray(elements))


class Device:
    """The device that sessions run on, such as "cuda:0", with its name and number as ONNX Runtime has them."""

    def __init__(self, text: str) -> None:
        kind, _, number = text.partition(":")
        self.kind = kind
        self.number = int(number or 0)

    @cached_property
    def runtime(self) -> ModuleType:
        """ONNX Runtime."""
        runtime: ModuleType = load_runtime()
        return runtime

    @property
    def providers(self) -> list[str | tuple[str, dict[str, int]]]:
        """The execution providers of a session."""
        if self.kind == "cpu":
            return ["CPUExecutionProvider"]
        return [(f"{self.kind.upper()}ExecutionProvider", {"device_id": self.number}), "CPUExecutionProvider"]

    def memory(self, count: int, dtype: np.dtype[np.generic]) -> Memory:
        """New memory of zeros."""
        return HostMemory(count, dtype) if self.kind == "cpu" else DeviceMemory(count, dtype, self)


class Row:
    """Arrays of one dtype by name, packed into one buffer with zeros between them."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], dtype: DTypeLike, device: Device) -> None:
        self.shapes = dict(shapes)
        self.dtype = np.dtype(dtype)
        self.device = device
        self.offsets, self.count = {}, 0
        for name, shape in self.shapes.items():
            self.offsets[name] = self.count
            self.count += -(-max(prod(shape), 1) // STEP) * STEP
        self.memory = device.memory(self.count, self.dtype)

    def part(self, name: str) -> tuple[Memory, int, tuple[int, ...]]:
        """The memory, offset and shape of an array."""
        return self.memory, self.offsets[name], self.shapes[name]

    def get(self, name: str) -> Array:
        """A copy of an array."""
        return np.array(self._view(self.memory.get(), name))

    def set(self, values: Mapping[str, Array]) -> None:
        """Replace the elements of arrays."""
        elements = self.memory.get()
        for name, value in values.items():
            self._view(elements, name)[...] = value
        self.memory.set(elements)

    def _view(self, elements: Array, name: str) -> Array:
        start, shape = self.offsets[name], self.shapes[name]
        view: Array = elements[start : start + prod(shape)].reshape(shape)
        return view

    def joined(self, names: Iterable[str]) -> Array:
        """Arrays one after the other, without gaps."""
        elements = self.memory.get()
        parts = [self._view(elements, name).reshape(-1) for name in names]
        return np.concatenate(parts) if parts else np.zeros(0, self.dtype)
