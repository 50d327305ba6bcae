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
from graphls.runtime.threads import thread_limit

Array = np.ndarray[Any, Any]


class BlockedArray:
    """The values of a type in a layout, as `bytes`; `is_written` where the step that has chosen it writes states."""

    __slots__ = ("bytes", "is_written", "layout", "type")

    def __init__(self, kind: Type, layout: Descriptor, is_written: bool = True) -> None:
        self.type, self.layout, self.is_written = kind, layout, is_written
        self.bytes: Array = checked(empty, (layout.size,), np.uint8)

    @classmethod
    def of(cls, array: Array, kind: Type, layout: Descriptor, is_written: bool = True) -> BlockedArray:
        """An array of a type in a layout."""
        blocked = cls(kind, layout, is_written)
        _reorder(Descriptor.of(kind), np.ascontiguousarray(array), layout, blocked.bytes)
        return blocked

    def numpy(self) -> Array:
        """A copy in row-major order."""
        array: Array = checked(empty, self.type.shape, self.type.dtype.numpy)
        _reorder(self.layout, self.bytes, Descriptor.of(self.type), array)
        return array


def _reorder(source: Descriptor, values: Array, target: Descriptor, result: Array) -> None:
    library().limit_threads(thread_limit())
    move(Memory(source, values.ctypes.data), Memory(target, result.ctypes.data))
