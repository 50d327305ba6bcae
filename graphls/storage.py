"""Where the value of a parameter lives, shared by every compiled step that uses it."""

from __future__ import annotations

from typing import Any

import numpy as np


class Clock:
    """Counts the steps of a session that keeps two buffers per state and swaps them."""

    __slots__ = ("ticks",)

    def __init__(self) -> None:
        self.ticks = 0


class Changes:
    """Counts how often any storage got another buffer, so that a session sees with one comparison that
    everything it bound is still current."""

    count = 0


def array_in(buffer: Any) -> np.ndarray[Any, Any]:
    """The array that a buffer is, or that of one on a device."""
    return buffer if isinstance(buffer, np.ndarray) else np.asarray(buffer.numpy())


class Storage:
    """The buffers of one parameter: one that is updated in place, or two that a session swaps.

    A buffer is a NumPy array, or an object with `numpy()` that lives on a device. The value is read in `dtype`, that of
    the first buffer, though a session may hold it in a wider one. `expected` is the value that sessions know without
    reading it, because they know how a step changes it.
    """

    __slots__ = ("buffers", "clock", "dtype", "expected")

    def __init__(self, buffer: np.ndarray[Any, Any]) -> None:
        self.dtype = buffer.dtype
        self.buffers: tuple[Any, ...] = (buffer,)
        self.clock: Clock | None = None
        self.expected: Any = None

    @property
    def turn(self) -> int:
        """Which of the buffers holds the value now."""
        return 0 if self.clock is None else self.clock.ticks & 1

    @property
    def current(self) -> Any:
        """The buffer that holds the value now."""
        return self.buffers[self.turn]

    def read(self) -> np.ndarray[Any, Any]:
        """The value as an array, which shares memory with the buffer where it can."""
        return array_in(self.current).astype(self.dtype, copy=False)

    def replace(self, buffer: Any) -> None:
        """Hold another value, in this buffer alone."""
        self.move(buffer)
        self.expected = None

    def move(self, buffer: Any) -> None:
        """Hold the value in another buffer, alone."""
        self.buffers = (buffer,)
        self.clock = None
        Changes.count += 1

    def swap_with(self, other: Any, clock: Clock) -> None:
        """Keep two buffers that change places with every tick of `clock`; the current one stays current."""
        buffers = (self.current, other)
        self.buffers = buffers if not clock.ticks & 1 else buffers[::-1]
        self.clock = clock
        Changes.count += 1
