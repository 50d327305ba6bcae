"""Where the values of a program lie: on one device, or divided over the devices of a mesh."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from graphls.ir.graph import Graph, Value
from graphls.runtime.devices import Cuda
from graphls.runtime.xla.library import devices_of, load_jax


class Placement:
    """The devices of a graph, and the sharding of JAX for each of its values."""

    def __init__(self, graph: Graph, device: str | Cuda) -> None:
        self.jax, mesh = load_jax(), getattr(graph,"mesh",None)
        sizes = dict(mesh.axes) if mesh is not None else {}
        devices = self.devices = devices_of(device, prod(sizes.values()))
        self.mesh: Any = None
        if len(devices) > 1:
            grid = np.array(devices, dtype=object).reshape(tuple(sizes.values()))
            self.mesh = self.jax.sharding.Mesh(grid, tuple(sizes))
        self.whole = self._sharding(()) if self.mesh else self.jax.sharding.SingleDeviceSharding(devices[0])
        """The sharding of what all devices have."""

    @property
    def divides_cpu(self) -> bool:
        """Whether the devices are parts of one CPU."""
        return self.mesh is not None and self.mesh.devices.flat[0].platform == "cpu"

    def of(self, value: Value, more: int = 0) -> Any:
        """The sharding of a value, which may have more axes at its end."""
        if self.mesh is None or getattr(value,"sharding",None) is None:
            return self.whole
        return self._sharding((*value.sharding.axes, *[()] * more))

    def constrained(self, array: Any, value: Value) -> Any:
        """An array of a traced program, divided as its value says."""
        if self.mesh is None or getattr(value,"sharding",None) is None:
            return array
        return self.jax.lax.with_sharding_constraint(array, self.of(value))

    def _sharding(self, axes: tuple[tuple[str, ...], ...]) -> Any:
        spec = self.jax.sharding.PartitionSpec(*(names or None for names in axes))
        return self.jax.sharding.NamedSharding(self.mesh, spec)
