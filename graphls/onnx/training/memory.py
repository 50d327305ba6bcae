"""Memory that sessions read and write: arrays one after the other in one row, on the CPU or a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
STEP = 16
"""Elements that the place of an array is a multiple of, so that kernels find it aligned."""


class Memory:
    """Elements in a row; `get` gives them as an array, which may be the memory itself, and `set` takes one."""

    def __init__(self, address: int, dtype: Any, device: tuple[str, int] = ("cpu", 0)) -> None:
        self.address = address
        self.dtype = dtype
        self.device = device

    def at(self, place: int) -> int:
        """The address of an element."""
        offset: int = place * self.dtype.itemsize
        return self.address + offset

    def get(self) -> Array:
        """The elements."""
        raise NotImplementedError

    def set(self, whole: Array) -> None:
        """Take over elements."""
        raise NotImplementedError


class HostMemory(Memory):
    """Memory of the CPU, on a boundary of 64 bytes."""

    def __init__(self, count: int, dtype: Any) -> None:
        size = count * dtype.itemsize
        raw = np.zeros(size + 64, np.uint8)
        start = -raw.ctypes.data % 64
        self.array: Array = raw[start : start + size].view(dtype)
        super().__init__(self.array.ctypes.data, dtype)

    def get(self) -> Array:
        return self.array

    def set(self, whole: Array) -> None:
        if whole is not self.array:
            self.array[...] = whole


class DeviceMemory(Memory):
    """Memory of a device."""

    def __init__(self, count: int, dtype: Any, device: Device) -> None:
        zeros = np.zeros(count, dtype)
        self.value = device.runtime.OrtValue.ortvalue_from_numpy(zeros, device.kind, device.number)
        super().__init__(self.value.data_ptr(), dtype, (device.kind, device.number))

    def get(self) -> Array:
        copied: Array = self.value.numpy()
        return copied

    def set(self, whole: Array) -> None:
        self.value.update_inplace(np.ascontiguousarray(whole))


class Device:
    """Where sessions run: its name and number as ONNX Runtime has them."""

    def __init__(self, text: str, runtime: Any) -> None:
        kind, _, number = text.partition(":")
        self.kind = kind
        self.number = int(number or 0)
        self.runtime = runtime

    @property
    def providers(self) -> list[Any]:
        """The execution providers of a session."""
        if self.kind == "cpu":
            return ["CPUExecutionProvider"]
        return [(f"{self.kind.upper()}ExecutionProvider", {"device_id": self.number}), "CPUExecutionProvider"]

    def memory(self, count: int, dtype: Any) -> Memory:
        """Zeros."""
        return HostMemory(count, dtype) if self.kind == "cpu" else DeviceMemory(count, dtype, self)


class Row:
    """Arrays of one dtype by name, in one piece of memory; what is between them is zero."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], dtype: Any, device: Device) -> None:
        self.shapes = dict(shapes)
        self.dtype = np.dtype(dtype)
        self.device = device
        self.places, self.count = {}, 0
        for name, shape in self.shapes.items():
            self.places[name] = self.count
            self.count += -(-max(prod(shape), 1) // STEP) * STEP
        self.memory = device.memory(self.count, self.dtype)

    def get(self, name: str) -> Array:
        """A copy of an array."""
        return np.array(self._view(self.memory.get(), name))

    def set(self, values: Mapping[str, Array]) -> None:
        """Give arrays new elements."""
        whole = self.memory.get()
        for name, value in values.items():
            self._view(whole, name)[...] = value
        self.memory.set(whole)

    def _view(self, whole: Array, name: str) -> Array:
        start, shape = self.places[name], self.shapes[name]
        found: Array = whole[start : start + prod(shape)].reshape(shape)
        return found

    def joined(self, names: Iterable[str]) -> Array:
        """Arrays one after the other, without gaps."""
        whole = self.memory.get()
        parts = [self._view(whole, name).reshape(-1) for name in names]
        return np.concatenate(parts) if parts else np.zeros(0, self.dtype)
