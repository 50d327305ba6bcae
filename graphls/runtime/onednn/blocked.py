"""States in the layout of a kernel, which nobody else sees: to others each is an array in row-major order."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.base.reporting import checked
from graphls.base.sharing.arrays import empty
from graphls.ir.types import Type
from graphls.runtime.onednn.binding import Descriptor, Memory
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import move

Array = np.ndarray[Any, Any]


class BlockedArray:
    """The values of a type in a layout, as `bytes`; `is_written` where the step that has chosen it writes states.

    They are reordered on as many threads as that step computes on, `limit`: another number would let OpenMP end its
    threads and start them again, at the step and at each value that is read.
    """

    __slots__ = ("bytes", "is_written", "layout", "limit", "type")

    def __init__(self, kind: Type, layout: Descriptor, limit: int, is_written: bool = True) -> None:
        self.type, self.layout, self.limit, self.is_written = kind, layout, limit, is_written
        self.bytes: Array = checked(empty, (layout.size,), np.uint8)

    @classmethod
    def of(cls, array: Array, kind: Type, layout: Descriptor, limit: int, is_written: bool = True) -> BlockedArray:
        """An array of a type in a layout."""
        blocked = cls(kind, layout, limit, is_written)
        blocked._reorder(Descriptor.of(kind), np.ascontiguousarray(array), layout, blocked.bytes)
        return blocked

    def numpy(self) -> Array:
        """A copy in row-major order."""
        array: Array = checked(empty, self.type.shape, self.type.dtype.numpy)
        self._reorder(self.layout, self.bytes, Descriptor.of(self.type), array)
        return array

    def _reorder(self, source: Descriptor, values: Array, target: Descriptor, result: Array) -> None:
        library().limit_threads(self.limit)
        move(Memory(source, values.ctypes.data), Memory(target, result.ctypes.data))
