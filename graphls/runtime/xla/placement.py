"""Where the values of a program lie: on one device, or divided over the devices of a mesh."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.ir.graph import Graph, Value
from graphls.ir.sharding import STAGE, Sharding
from graphls.runtime.devices import Cuda
from graphls.runtime.xla.library import devices_of, load_jax


class Placement:
    """The devices of a graph, or those of one stage of a pipeline, and the sharding of JAX for each of its values.

    Raises GraphRuntimeError where the stages of a mesh belong to different processes.
    """

    def __init__(self, graph: Graph, device: str | Cuda, stage: int | None = None) -> None:
        self.jax, mesh = load_jax(), graph.mesh
        sizes = {} if mesh is None else dict(mesh.sizes)
        grid = np.array(devices_of(device, prod(sizes.values())), dtype=object).reshape(tuple(sizes.values()))
        if stage is not None:
            axis = list(sizes).index(STAGE)
            _require_own_stages(grid, axis)
            grid = np.take(grid, stage, axis)
            del sizes[STAGE]
        devices = self.devices = list(np.ravel(np.asarray(grid, dtype=object)))
        self.mesh: Any = None
        if len(devices) > 1:
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

    def moved(self, place: Any) -> Any:
        """The sharding on these devices that corresponds to one on the devices of another stage."""
        return self.replicated if self.mesh is None else self.jax.sharding.NamedSharding(self.mesh, place.spec)

    def constrained(self, array: Any, sharding: Sharding, before: Sharding | None = None) -> Any:
        """An array of a traced program, divided as a node requires, or whole where that divides nothing.

        XLA would gather the whole array on each device where parts move and are joined or cut at once, so it does one
        after the other where the sharding `before` is known.
        """
        if self.mesh is None:
            return array
        for each in (sharding,) if before is None else before.path(sharding):
            array = self.jax.lax.with_sharding_constraint(array, self._sharding(each.axes))
        return array

    def _sharding(self, axes: tuple[tuple[str, ...], ...]) -> Any:
        spec = self.jax.sharding.PartitionSpec(*(names or None for names in axes))
        return self.jax.sharding.NamedSharding(self.mesh, spec)


def _require_own_stages(grid: Any, axis: int) -> None:
    """Raise GraphRuntimeError where a process would send to the stage of another one."""
    owners = np.vectorize(lambda device: device.process_index)(np.moveaxis(grid, axis, 0))
    if (owners != owners[0]).any():
        text = "Each process has devices of all stages of a pipeline, and in this mesh stages are of different ones"
        raise GraphRuntimeError(f"{text}; write an axis that divides the batch first, like Mesh(data=2, stage=4).")
