"""Values that cross between the stages of a pipeline, in arrays of JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphls.ir.graph import Value
from graphls.ir.plan import Plan, Segment
from graphls.runtime.xla.buffers import XlaBuffer
from graphls.runtime.xla.placement import Placement


class Crossing(XlaBuffer):
    """A value that one task of a pipeline computes and others read, with its copies on the devices of other stages.

    `place` is its sharding on the devices of its own stage, as XLA chooses it for the program of the task.
    """

    __slots__ = ("copies", "place")

    def __init__(self) -> None:
        super().__init__()
        self.copies: dict[Any, Any] = {}
        self.place: Any = None

    def at(self, jax: Any, place: Any) -> Any:
        """The value on the devices of a stage; it is copied to them once."""
        if place == self.place:
            return self.array
        if place not in self.copies:
            with jax.enable_x64(True):
                self.copies[place] = _moved(jax, self.array, place)
        return self.copies[place]


def _moved(jax: Any, array: Any, place: Any) -> Any:
    """An array on the devices of another stage; of several processes each moves the parts that it has."""
    if array.is_fully_addressable:
        return jax.device_put(array, place)
    partners = dict(zip(array.sharding.mesh.devices.flat, place.mesh.devices.flat, strict=True))
    parts = [jax.device_put(shard.data, partners[shard.device]) for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(array.shape, place, parts)


Cells = Mapping[Value, Crossing]


def cells_of(segment: Segment, plan: Plan, private: dict[Value, Any]) -> tuple[Cells, list[Crossing]]:
    """The cells of the crossing values of a task, and those among them that nothing reads after it."""
    crossing = plan.crossing_stages
    own = (v for v in (*segment.graph.inputs, *segment.gives) if v in crossing)
    cells = {v: private.setdefault(v, Crossing()) for v in own}
    return cells, [cells[v] for v in spent_values(segment, plan)]


def spent_values(segment: Segment, plan: Plan) -> list[Value]:
    """The crossing values that a task is the last to read, and that the step does not return."""
    return [v for v in segment.graph.inputs if plan.crossing_stages.get(v) is segment and v not in plan.graph.outputs]


def crossing_ends(
    segment: Segment, plan: Plan, placement: Placement, places: Mapping[Value, Any]
) -> dict[Value, Any]:
    """The inputs of a task that cross, with their places on its devices, and its results, whose places XLA chooses.

    `places` are those of values on the devices of their own stages.
    """
    inputs = {v: placement.moved(places[v]) for v in segment.graph.inputs if v in plan.crossing_stages}
    pairs = zip(segment.graph.outputs, segment.gives, strict=True)
    return inputs | dict.fromkeys(own for own, value in pairs if value in plan.crossing_stages)
