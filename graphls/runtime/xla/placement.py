"""Where the values of a program lie: on one device, or divided over the devices of a mesh."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from graphls.ir.graph import Graph, Value
from graphls.ir.sharding import Sharding
from graphls.runtime.devices import Cuda
from graphls.runtime.xla.library import devices_of, load_jax


class Placement:
    """The devices of a graph, and the sharding of JAX for each of its values."""

    def __init__(self, graph: Graph, device: str | Cuda) -> None:
        self.jax, mesh = load_jax(), graph.mesh
        sizes = {} if mesh is None else dict(mesh.sizes)
        devices = self.devices = devices_of(device, prod(sizes.values()))
        self.mesh: Any = None
        if len(devices) > 1:
            grid = np.array(devices, dtype=object).reshape(tuple(sizes.values()))
            self.mesh = self.jax.sharding.Mesh(grid, tuple(sizes))
        self.replicated = self._sharding(()) if self.mesh else self.jax.sharding.SingleDeviceSharding(devices[0])
        """The sharding of what all devices have."""

    @property
    def divides_cpu(self) -> bool:
        """Whether the devices are parts of one CPU."""
        return self.mesh is not None and self.mesh.devices.flat[0].platform == "cpu"

    @property
    def is_spread(self) -> bool:
        """Whether the devices belong to several processes."""
        return len({device.process_index for device in self.devices}) > 1

    def of(self, value: Value, more: int = 0) -> Any:
        """The sharding of a value, which may have more axes at its end."""
        if self.mesh is None or value.sharding is None:
            return self.replicated
        return self._sharding((*value.sharding.axes, *[()] * more))

    def constrained(self, array: Any, sharding: Sharding) -> Any:
        """An array of a traced program, divided as a node requires, or whole where that divides nothing."""
        if self.mesh is None:
            return array
        return self.jax.lax.with_sharding_constraint(array, self._sharding(sharding.axes))

    def _sharding(self, axes: tuple[tuple[str, ...], ...]) -> Any:
        spec = self.jax.sharding.PartitionSpec(*(names or None for names in axes))
        return self.jax.sharding.NamedSharding(self.mesh, spec)
