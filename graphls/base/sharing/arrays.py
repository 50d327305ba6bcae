"""Allocation of arrays aligned to cache lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

from graphls.base.sharing.settings import Settings

Array = np.ndarray[Any, Any]

LINE = 64
"""The bytes of a cache line, and of a vector that a processor reads at once."""

LEAST = 4096
"""Bytes from which on arrays are aligned."""


def empty(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array without values in row-major order.

    NumPy's own large arrays begin 16 bytes after a page, so that every vector of them lies on two lines: updates of
    ONNX Runtime took 4 % longer with them.
    """
    return _aligned(np.empty, shape, dtype)


def zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array of zeros, which takes memory once it is written where the system has pages of zeros."""
    return _aligned(np.zeros, shape, dtype)


def copy(array: Array) -> Array:
    """A copy in row-major order, or an abstract array in its place."""
    if is_abstract(array.shape, array.dtype):
        return abstract(array.shape, array.dtype)
    result = empty(array.shape, array.dtype)
    result[...] = array
    return result


def full(shape: tuple[int, ...], value: object, dtype: Any) -> Array:
    """An array with one value everywhere, or an abstract array in its place."""
    return abstract(shape, dtype) if is_abstract(shape, dtype) else np.full(shape, value, dtype)


_settings = Settings({"abstract": False})


@contextmanager
def without_values() -> Iterator[None]:
    """Let parameters of more than a page, which are created in the block, be abstract: no step can run on them."""
    with _settings.preserved():
        _settings.update({"abstract": True})
        yield


def is_abstract(shape: tuple[int, ...], dtype: Any) -> bool:
    """Whether arrays of this size are to be abstract."""
    return bool(_settings["abstract"]) and prod(shape) * np.dtype(dtype).itemsize > LEAST


def abstract(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array with a shape, whose elements are one and the same zero in memory, and cannot be written."""
    return np.broadcast_to(np.zeros((), dtype), shape)


def _aligned(make: Callable[[Any, Any], Array], shape: tuple[int, ...], dtype: Any) -> Array:
    """An array made by `make`, aligned to a cache line where it is large."""
    size = prod(shape) * np.dtype(dtype).itemsize
    if size < LEAST:
        return make(shape, dtype)
    buffer = make(size + LINE, np.uint8)
    begin = -buffer.__array_interface__["data"][0] % LINE
    aligned: Array = buffer[begin : begin + size].view(dtype).reshape(shape)
    return aligned


class Scratch:
    """A scratch buffer with several users in turn; it is allocated after all of them have announced their sizes."""

    def __init__(self) -> None:
        self.size = 0
        self._retained = np.empty(0, np.uint8)

    def need(self, size: int) -> None:
        """Announce a use of so many bytes."""
        self.size = max(self.size, size)

    def array(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array at the beginning of the buffer."""
        if self._retained.size < self.size:
            self._retained = empty((self.size,), np.uint8)
        size = prod(shape) * np.dtype(dtype).itemsize
        view: Array = self._retained[:size].view(dtype).reshape(shape)
        return view
