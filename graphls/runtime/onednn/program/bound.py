"""The calls of a program on memories: in an arena, and on arrays outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphls.ir.types import Type
from graphls.runtime.onednn.binding import Memory, Primitive, arguments
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.numpy_nodes import OnArrays
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.calls import AnyCall, Array, Copy, View


class Binding:
    """The calls of a program on memories: in an arena, and on arrays outside."""

    def __init__(self, arena: Array, outside: dict[Buffer, Array]) -> None:
        self.calls: list[partial[Any]] = []
        self._arena, self._outside = arena, outside
        self._following: dict[Buffer, list[tuple[int, Copy | OnArrays]]] = {}
        self._memories: dict[View, Memory] = {}
        self._moving: dict[Buffer, list[tuple[Memory, int]]] = {}

    def bind_calls(self, calls: Sequence[AnyCall]) -> None:
        """Bind calls; those on arrays that each step brings are bound when these are there."""
        for number, call in enumerate(calls):
            missing: set[Buffer] = set()
            if isinstance(call, (Copy, OnArrays)):
                missing.update(filter(self._is_missing, call.holds))
                for buffer in missing:
                    self._following.setdefault(buffer.memory, []).append((number, call))
            self.calls.append(partial(int) if missing else call.bound(self))

    def _is_missing(self, buffer: Buffer) -> bool:
        return buffer.memory.is_outside and buffer.memory not in self._outside

    def execution(self, primitive: Primitive, views: Mapping[int, View]) -> partial[int]:
        """The execution of a primitive, which somebody else keeps, on the memories of views."""
        lib, memories = library(), {int(role): self.memory(view) for role, view in views.items()}
        execute = lib.c.dnnl_primitive_execute
        return partial(execute, primitive.handle, lib.stream, len(memories), arguments(memories))

    def memory(self, view: View) -> Memory:
        """The memory of a view."""
        if view not in self._memories:
            buffer, position = view.buffer.memory, view.buffer.position
            array = self._outside.get(buffer)
            begin = self._arena.ctypes.data + buffer.offset if array is None else array.ctypes.data
            self._memories[view] = memory = Memory(view.layout, begin + position)
            if buffer.is_outside:
                self._moving.setdefault(buffer, []).append((memory, position))
        return self._memories[view]

    def array(self, buffer: Buffer, kind: Type) -> Array:
        """The content of a buffer in row-major order."""
        memory, position = buffer.memory, buffer.position
        content = self._arena[memory.offset :]
        if memory.is_outside:
            content = self._outside[memory].reshape(-1).view(np.uint8)
        array: Array = content[position : position + kind.nbytes].view(kind.dtype.numpy).reshape(kind.shape)
        return array

    def bind(self, key: Buffer, array: Array) -> None:
        """Let a buffer outside lie in another array."""
        self._outside[key] = array
        for memory, position in self._moving.get(key, ()):
            memory.move(array.ctypes.data + position)
        for number, call in self._following.get(key, ()):
            if not any(map(self._is_missing, call.holds)):
                self.calls[number] = call.bound(self)
