"""Slices of dimensions as axes of a mesh: which mesh axes cut a dimension into so many equal parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from graphls.base.errors import GraphValueError
from graphls.ir.sharding import STAGE, Mesh


def mesh_of_devices(count: int, stages: int = 1) -> Mesh:
    """A mesh of so many devices with an axis for each prime factor, the smallest first, which cuts as finely as can be.

    With several stages of a pipeline, the first axis is `stage`, and the others are of the devices of each stage.

    Examples:
        >>> from graphls.ir.slices import mesh_of_devices
        >>> print(mesh_of_devices(12))
        mesh(d0=2, d1=2, d2=3)
        >>> print(mesh_of_devices(12, stages=3))
        mesh(stage=3, d0=2, d1=2)
    """
    count //= stages
    factors, factor = [], 2
    while count > 1:
        while count % factor == 0:
            factors.append(factor)
            count //= factor
        factor += 1
    stage = {STAGE: stages} if stages > 1 else {}
    return Mesh(**stage, **{f"d{number}": size for number, size in enumerate(factors or [1])})


def axes_of_slices(mesh: Mesh, counts: Sequence[int], what: str = "A strategy") -> tuple[tuple[str, ...], ...]:
    """The mesh axes of dimensions that are cut into so many slices each: in order, the first free ones that do.

    Raises GraphValueError, a sentence about `what`, where the mesh has too few devices, or none of its axes fit.

    Examples:
        >>> from graphls.ir.slices import axes_of_slices, mesh_of_devices
        >>> axes_of_slices(mesh_of_devices(8), (4, 1, 2))
        (('d0', 'd1'), (), ('d2',))
    """
    grid = mesh.of_stage
    free = [name for name in grid.names if grid.sizes[name] > 1]
    result = []
    for count in counts:
        names = first_axes(grid, free, count)
        if names is None:
            text = f"{what} cuts dimensions into {' x '.join(map(str, counts))} slices"
            devices = f"{grid.size} devices{' of a stage' if mesh.stages > 1 else ''}"
            raise GraphValueError(f"{text}, which the {devices} of {mesh} cannot take.")
        free = [name for name in free if name not in names]
        result.append(names)
    return tuple(result)


def first_axes(mesh: Mesh, names: Iterable[str], count: int) -> tuple[str, ...] | None:
    """The first of these mesh axes, as few as can be, that cut a dimension into so many slices; None if none do."""
    names = tuple(names)
    chosen = (each for size in range(len(names) + 1) for each in combinations(names, size))
    return next((each for each in chosen if mesh.parts(each) == count), None)
