"""Device buffers, and conversion of arrays to the layout of a runtime."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.sharing.storage import array_in

SMALL = 4096
"""Bytes up to which it is cheaper to copy an output from a buffer that stays bound than to bind a new one."""


class DeviceBuffer:
    """A tensor on the GPU of a number, read by `numpy()`."""

    __slots__ = ("id", "value")

    def __init__(self, value: Any, id: int = 0) -> None:
        self.value = value
        self.id = id

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        return np.asarray(self.value.numpy())


def in_rows(array: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    """An array in row-major order, in a dtype or its own; unlike that of NumPy, with no axes where it has none."""
    return np.ascontiguousarray(array, dtype).reshape(array.shape)


def array_of(buffer: Any, dtype: Any) -> np.ndarray[Any, Any]:
    """The content of a buffer as an array on the host in row-major order, in a dtype."""
    return in_rows(array_in(buffer), dtype)
