"""Storage of parameter values: one buffer or two, shared by all compiled steps that use the parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from graphls.base.sharing.locks import LOOSE, Group, holding


class OnDevice(Protocol):
    """A buffer in the memory of a device."""

    def numpy(self) -> Any:
        """Its value as a NumPy array."""


Array = np.ndarray[Any, Any]
Buffer = Array | OnDevice


class Division(Protocol):
    """The sharding of a value: each rank stores one shard, whose shape is `part`."""

    part: tuple[int, ...]

    def of(self, array: Array) -> Array:
        """The shard of this rank."""

    def gathered(self, part: Array) -> Array:
        """The complete value, from this shard and those of the other ranks, which are requested."""

    def retain(self, current: Callable[[], Array]) -> None:
        """Retain the current value, or the shard of it, because another one replaces it."""

    def gathered_by_all(self, part: Array) -> Array:
        """The complete value, gathered by all ranks together, which go on with it."""


class Version:
    """The number of steps that a session has completed; its parity chooses the current one of two buffers."""

    __slots__ = ("ticks",)

    def __init__(self) -> None:
        self.ticks = 0


def array_in(buffer: Buffer) -> Array:
    """The content of a buffer, in host memory or on a device, as an array."""
    return buffer if isinstance(buffer, (np.ndarray, np.generic)) else np.asarray(buffer.numpy())


class Storage:
    """The buffers of one parameter: one that is updated in place, or two that a session swaps.

    A buffer is a NumPy array, or an object with `numpy()` that lives on a device. The value is read in `dtype`, that of
    the first buffer, though a session may hold it in a wider one. `expected` is the value that sessions know without
    reading it, because they know how a step changes it. `versioned` is the buffers and the version whose parity chooses
    one, in one attribute, so that a Ctrl-C never leaves one without the other. Where there is a `division`, the buffers
    may hold the shard of this rank, and a read requests those of the others.
    """

    __slots__ = ("division", "dtype", "expected", "group", "versioned")

    def __init__(self, buffer: Array) -> None:
        self.dtype = buffer.dtype
        self.versioned: tuple[tuple[Buffer, ...], Version | None] = (buffer,), None
        self.expected: Any = None
        self.division: Division | None = None
        self.group: Group = LOOSE

    @property
    def buffers(self) -> tuple[Any, ...]:
        """The buffers, of which one holds the value."""
        return self.versioned[0]

    @property
    def version(self) -> Version | None:
        """The version whose parity chooses the buffer, where there are two."""
        return self.versioned[1]

    @property
    def index(self) -> int:
        """The index of the buffer that holds the value now."""
        version = self.versioned[1]
        return 0 if version is None else version.ticks & 1

    @property
    def current(self) -> Any:
        """The buffer that holds the value now."""
        buffers, version = self.versioned
        return buffers[0 if version is None else version.ticks & 1]

    def read(self) -> Array:
        """The value as an array, which shares memory with the buffer where it can."""
        array = self.own()
        return self.division.gathered(array) if self.division is not None and self.is_part else array

    def own(self) -> Array:
        """The value or the shard of this rank, in the dtype that `read` gives."""
        return self.local_array().astype(self.dtype, copy=False)

    def local_array(self) -> Array:
        """The content of the current buffer: the value, or the shard of this rank."""
        return array_in(self.current)

    @property
    def is_part(self) -> bool:
        """Whether the buffer holds only the shard of this rank."""
        return self.division is not None and self.local_array().shape == self.division.part

    def fit(self, shape: tuple[int, ...]) -> None:
        """Hold the complete value or the shard of this rank, whichever has that shape; all ranks gather together."""
        if self.division is None or (array := self.local_array()).shape == shape:
            return
        self.move(self.division.of(array) if shape == self.division.part else self.division.gathered_by_all(array))

    def fitted_array(self, shape: tuple[int, ...]) -> Array:
        """The content of the buffer after `fit`: of the complete value and the shard, the one of that shape."""
        self.fit(shape)
        return self.local_array()

    def twin(self) -> Storage:
        """A second storage with the same value and the same division."""
        with holding(self):
            twin = Storage(self.local_array().astype(self.dtype))
        twin.division = self.division  # other ranks that ask still get the shards of this one
        return twin

    def copy(self) -> Array:
        """A copy of the value between two steps."""
        with holding(self):
            return np.array(self.read())

    def replace(self, buffer: Buffer) -> None:
        """Hold another value, in this buffer alone."""
        with holding(self):
            self.expected = None
            if self.division is not None:
                self.division.retain(self.own)
            self.move(buffer)

    def move(self, buffer: Buffer) -> None:
        """Hold the value in another buffer, alone."""
        self._set_buffers((buffer,), None)

    def swap_with(self, other: Buffer, version: Version) -> None:
        """Keep two buffers, chosen by the parity of `version`; the current one stays current."""
        buffers = (self.current, other)
        self._set_buffers(buffers if not version.ticks & 1 else buffers[::-1], version)

    def _set_buffers(self, buffers: tuple[Buffer, ...], version: Version | None) -> None:
        with holding(self) as group:
            group.changes += 1  # first, so that a Ctrl-C in between causes one check too many, not one too few
            self.versioned = buffers, version

    def __getstate__(self) -> dict[str, Array]:
        return {"buffer": self.copy()}

    def __setstate__(self, state: dict[str, Array]) -> None:
        self.__init__(state["buffer"])  # type: ignore[misc]
