"""What the ranks of a group do together with arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphls.ranks.watch import WAITING
from graphls.ranks.world import Group

Array = np.ndarray[Any, Any]
OPERATIONS = ("sum", "max", "min", "prod")
"""How elements of several ranks become one."""


def all_reduce(group: Group, arrays: Sequence[Array], op: str) -> list[Array]:
    """The arrays of all ranks put together, each with those at its place, in one communication."""
    if group.comm is None or not arrays:
        return list(arrays)
    flat = _flat(arrays)
    talk(group, "all_reduce", lambda: group.comm.Allreduce(_in_place(), flat, _operation(op)))
    return _parts(flat, arrays)


def reduce_to(group: Group, arrays: Sequence[Array], root: int) -> list[Array]:
    """The sums over all ranks on one of them, zeros on the others."""
    if group.comm is None or not arrays:
        return list(arrays)
    flat = _flat(arrays)
    total = np.zeros_like(flat)
    talk(group, "reduce_to", lambda: group.comm.Reduce(flat, total if group.rank == root else None, root=root))
    return _parts(total, arrays)


def broadcast(group: Group, arrays: Sequence[Array], root: int) -> list[Array]:
    """The arrays of one rank, on all."""
    if group.comm is None or not arrays:
        return list(arrays)
    flat = np.concatenate([_bytes(array) for array in arrays])
    talk(group, "broadcast", lambda: group.comm.Bcast(flat, root))
    cuts = np.cumsum([array.nbytes for array in arrays])[:-1]
    parts = zip(np.split(flat, cuts), arrays, strict=True)
    return [np.frombuffer(part.tobytes(), array.dtype).reshape(array.shape) for part, array in parts]


def all_gather(group: Group, array: Array) -> Array:
    """The arrays of all ranks, one after the other along the first axis."""
    if group.comm is None:
        return array
    gathered = np.empty((group.size * array.shape[0], *array.shape[1:]), array.dtype)
    received = gathered.reshape(-1).view(np.uint8)
    talk(group, "all_gather", lambda: group.comm.Allgather(_bytes(array), received))
    return gathered


def reduce_scatter(group: Group, array: Array, op: str) -> Array:
    """This rank's part, along the first axis, of the arrays of all ranks put together."""
    if group.comm is None:
        return array
    whole = _flat([array])
    part = np.empty(whole.size // group.size, whole.dtype)
    talk(group, "reduce_scatter", lambda: group.comm.Reduce_scatter_block(whole, part, _operation(op)))
    return part.astype(array.dtype, copy=False).reshape(array.shape[0] // group.size, *array.shape[1:])


def barrier(group: Group) -> None:
    """Wait until all ranks are here."""
    if group.comm is not None:
        talk(group, "barrier", group.comm.Barrier)


def all_objects(group: Group, item: object) -> list[Any]:
    """What each rank gives, in their order."""
    if group.comm is None:
        return [item]
    found: list[Any] = []
    talk(group, "all_objects", lambda: found.extend(group.comm.allgather(item)))
    return found


def talk(group: Group, name: str, act: Callable[[], object]) -> None:
    """Communicate, seen by what watches for ranks that have left."""
    WAITING.begin(name, group.members)
    try:
        act()
    finally:
        WAITING.end()


def summed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that arrays are added in: float32 for 16-bit floats, which MPI cannot add."""
    return np.dtype(np.float32) if dtype.name in ("float16", "bfloat16") else dtype


def _flat(arrays: Sequence[Array]) -> Array:
    """The elements of all arrays in one of their own, 16-bit floats as float32, which MPI can add."""
    flat = np.empty(sum(array.size for array in arrays), summed_dtype(arrays[0].dtype))
    start = 0
    for array in arrays:
        flat[start : start + array.size] = array.reshape(-1)
        start += array.size
    return flat


def _parts(flat: Array, like: Sequence[Array]) -> list[Array]:
    """The elements in arrays of the shapes and dtypes that they came from."""
    parts, start = [], 0
    with np.errstate(over="ignore"):  # a sum that is too large is an infinity, which the overflow check finds
        for array in like:
            part = flat[start : start + array.size].reshape(array.shape)
            parts.append(part.astype(array.dtype, copy=False))
            start += array.size
    return parts


def _bytes(array: Array) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _operation(op: str) -> Any:
    from mpi4py import MPI

    return {"sum": MPI.SUM, "max": MPI.MAX, "min": MPI.MIN, "prod": MPI.PROD}[op]


def _in_place() -> Any:
    from mpi4py import MPI

    return MPI.IN_PLACE
