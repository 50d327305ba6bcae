"""The parts of values of a mesh that belong to this process: those of its devices."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from graphls.distributed.peers import Peers
from graphls.ir.graph import Graph, Value
from graphls.ir.sharding import Mesh, Sharding

Region = tuple[slice, ...]


def region(shape: tuple[int, ...], sharding: Sharding | None, mesh: Mesh, devices: Iterable[int]) -> Region:
    """The smallest region of a value that has the parts of these devices, which are numbered as in the mesh."""
    axes = ((),) * len(shape) if sharding is None else sharding.axes
    grid = tuple(mesh.sizes.values())
    places = [dict(zip(mesh.names, np.unravel_index(number, grid), strict=True)) for number in devices]
    bounds = []
    for size, names in zip(shape, axes, strict=True):
        sizes, part = [mesh.sizes[name] for name in names], size // mesh.parts(names)
        numbers = [int(np.ravel_multi_index([at[n] for n in names], sizes)) if names else 0 for at in places]
        bounds.append(slice(min(numbers) * part, (max(numbers) + 1) * part))
    return tuple(bounds)


def own_region(graph: Graph, value: Value) -> Region:
    """The region of an input of a graph that the devices of this process read."""
    peers, mesh = Peers.current, graph.mesh
    if peers is None or mesh is None or mesh.size % peers.count:
        return tuple(slice(0, size) for size in value.type.shape)
    share = mesh.size // peers.count
    devices = range(peers.number * share, (peers.number + 1) * share)
    return region(value.type.shape, value.sharding, mesh, devices)


def own_shapes(graph: Graph) -> dict[Value, tuple[int, ...]]:
    """The shapes of the regions of inputs that this process may give alone; none where it is the only one."""
    if Peers.current is None or graph.mesh is None:
        return {}
    regions = {value: own_region(graph, value) for value in graph.inputs}
    return {value: tuple(part.stop - part.start for part in own) for value, own in regions.items()}
