"""Arrays of JAX as buffers of states and results."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.runtime.xla.processes import gathered, is_spread

Bounds = tuple[tuple[int, int], ...]
"""The first and the last index, exclusive, of a part along each axis."""


class XlaBuffer:
    """A cell that holds an array of JAX, which a step replaces by that of the new value."""

    __slots__ = ("array",)

    def __init__(self, array: Any = None) -> None:
        self.array = array

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host: a step may give the memory of its states to their new values.

        Where the array is divided among processes, all of them read it together.
        """
        return np.array(gathered(self.array) if is_spread(self.array) else self.array)

    def parts(self) -> tuple[int, list[tuple[int, Bounds, Any]]]:
        """The number of devices, and each distinct part: the device that has it first, its bounds and its content.

        The content of a device of another process is None.
        """
        array, shape = self.array, self.array.shape
        regions = array.sharding.devices_indices_map(shape)
        own = {shard.device: shard.data for shard in array.addressable_shards}
        parts: dict[Bounds, tuple[int, Bounds, Any]] = {}
        for number, (device, region) in enumerate(regions.items()):
            bounds = tuple(piece.indices(size)[:2] for piece, size in zip(region, shape, strict=True))
            parts.setdefault(bounds, (number, bounds, own.get(device)))
        return len(regions), list(parts.values())
