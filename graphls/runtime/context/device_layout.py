"""How the devices of a mesh divide a step: the mesh, the level of ZeRO, and which axes divide the inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphls.base.errors import GraphValueError
from graphls.ir.sharding import Mesh
from graphls.ir.slices import axes_of_slices

DATA_PARALLEL = "data_parallel"
FULL_BATCH = "full_batch"


@dataclass(frozen=True)
class DeviceLayout:
    """The mesh of a step, None for one device, and what it divides.

    The mesh axes `data` divide the first axis of inputs, unless the `strategy` is FULL_BATCH, or has numbers of slices
    for each input. ZeRO divides by them what its level `zero` says of parameters of `least` bytes or more.
    """

    mesh: Mesh | None = None
    zero: int = 0
    data: str = "data"
    strategy: str | tuple[tuple[int, ...], ...] = DATA_PARALLEL
    least: int = 0

    def on(self, mesh: Mesh | None) -> DeviceLayout:
        """The same on the same mesh; on another one inputs are divided by its axis "data"."""
        return self if mesh == self.mesh else DeviceLayout(mesh, self.zero)

    def of_inputs(self, count: int) -> tuple[tuple[tuple[str, ...], ...] | None, ...]:
        """The mesh axes that divide each of so many inputs, axis by axis; () for a whole one, None for the default.

        Raises GraphValueError where the strategy is for more inputs, or for other devices.
        """
        if self.mesh is None or self.strategy == DATA_PARALLEL:
            return ()
        if isinstance(self.strategy, str):
            return ((),) * count
        if len(self.strategy) > count:
            raise GraphValueError(f"The dataset_strategy is for {len(self.strategy)} inputs, and the step has {count}.")
        return tuple(self._cut(self.mesh, slices) for slices in self.strategy)

    def _cut(self, mesh: Mesh, slices: Sequence[int]) -> tuple[tuple[str, ...], ...]:
        return axes_of_slices(mesh, slices, f"The dataset_strategy {tuple(slices)}")


ONE_DEVICE = DeviceLayout()
"""A step on one device."""
