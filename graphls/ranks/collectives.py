"""What the ranks of a group do together with arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.ranks.talk import talk
from graphls.ranks.world import Group

Array = np.ndarray[Any, Any]
OPERATIONS = ("sum", "max", "min", "prod")
"""How elements of several ranks become one."""
_COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


def all_reduce(group: Group, arrays: Sequence[Array], op: str) -> list[Array]:
    """The arrays of all ranks put together, each with those at its place, in one communication."""
    if group.comm is None or not arrays:
        return list(arrays)
    flat = _flat(arrays)
    all_reduce_into(group, flat, flat, op)
    return _parts(flat, arrays)


def all_reduce_into(group: Group, given: Array, result: Array, op: str) -> None:
    """Put the flat arrays of all ranks together; the result may be the same array, and has its dtype."""
    if is_half(given):
        _half_reduce_into(group, given, result, op)
    else:
        sent = in_place() if given is result else given
        talk(group, "all_reduce", lambda: group.comm.Iallreduce(sent, result, _operation(op)))


def _half_reduce_into(group: Group, given: Array, result: Array, op: str) -> None:
    """Put 16-bit floats together in float32: each rank a part, which it rounds and gives to all others."""
    rows = np.zeros((group.size, -(-given.size // group.size)), given.dtype)
    rows.reshape(-1)[: given.size] = given
    own = half_sums(group, "all_reduce", rows, op)
    talk(group, "all_reduce", lambda: group.comm.Iallgather(_bytes(own), _bytes(rows)))
    result[...] = rows.reshape(-1)[: given.size]


def half_sums(group: Group, name: str, rows: Array, op: str) -> Array:
    """Of a row of 16-bit floats for each rank, that of this one, put together in float32 and rounded once."""
    received = np.empty_like(rows)
    talk(group, name, lambda: group.comm.Ialltoall(_bytes(rows), _bytes(received)))
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is an infinity, which a check finds
        found: Array = _COMBINE[op].reduce(received.astype(np.float32), axis=0).astype(rows.dtype)
    return found


def reduce_to(group: Group, arrays: Sequence[Array], root: int) -> list[Array]:
    """The sums over all ranks on one of them, zeros on the others."""
    if group.comm is None or not arrays:
        return list(arrays)
    flat = _wide(_flat(arrays))
    total = np.zeros_like(flat)
    received = total if group.rank == root else None
    talk(group, "reduce_to", lambda: group.comm.Ireduce(flat, received, root=root))
    return _parts(total, arrays)


def broadcast(group: Group, arrays: Sequence[Array], root: int) -> list[Array]:
    """The arrays of one rank, on all."""
    if group.comm is None or not arrays:
        return list(arrays)
    flat = np.concatenate([_bytes(array) for array in arrays])
    talk(group, "broadcast", lambda: group.comm.Ibcast(flat, root))
    cuts = np.cumsum([array.nbytes for array in arrays])[:-1]
    parts = zip(np.split(flat, cuts), arrays, strict=True)
    return [np.frombuffer(part.tobytes(), array.dtype).reshape(array.shape) for part, array in parts]


def all_gather(group: Group, array: Array) -> Array:
    """The arrays of all ranks, one after the other along the first axis."""
    if group.comm is None:
        return array
    gathered = np.empty((group.size * array.shape[0], *array.shape[1:]), array.dtype)
    received = gathered.reshape(-1).view(np.uint8)
    talk(group, "all_gather", lambda: group.comm.Iallgather(_bytes(array), received))
    return gathered


def reduce_scatter(group: Group, array: Array, op: str) -> Array:
    """This rank's part, along the first axis, of the arrays of all ranks put together."""
    if group.comm is None:
        return array
    whole = _wide(_flat([array]))
    part = np.empty(whole.size // group.size, whole.dtype)
    act = lambda: group.comm.Ireduce_scatter_block(whole, part, _operation(op))  # noqa: E731
    talk(group, "reduce_scatter", act)
    return _parts(part, [array[: array.shape[0] // group.size]])[0]


def all_to_all(group: Group, array: Array) -> Array:
    """The parts, along the first axis, that all ranks have for this one."""
    if group.comm is None:
        return array
    received = np.empty_like(array)
    parts = received.reshape(-1).view(np.uint8)
    talk(group, "all_to_all", lambda: group.comm.Ialltoall(_bytes(array), parts))
    return received


Kind = tuple[tuple[int, ...], Any]


def exchange(
    group: Group, arrays: Sequence[Array], kinds: Sequence[Kind], send: Sequence[int], receive: Sequence[int], tag: int
) -> list[Array]:
    """Send arrays to some ranks; what comes from others, of these shapes and dtypes."""
    if group.comm is None:
        return list(arrays)
    found = [np.empty(shape, dtype) for shape, dtype in kinds]
    given = list(map(_bytes, arrays))

    def act() -> _All:
        pending = [
            group.comm.Irecv(array.reshape(-1).view(np.uint8), rank, tag)
            for array, rank in zip(found, receive, strict=True)
        ]
        pending += [group.comm.Isend(array, rank, tag) for array, rank in zip(given, send, strict=True)]
        return _All(pending)

    talk(group, "neighbor_exchange", act)
    return found


@dataclass(frozen=True)
class _All:
    """Several requests as one."""

    pending: list[Any]

    def Test(self) -> bool:
        """Whether all have ended."""
        return all([request.Test() for request in self.pending])


def barrier(group: Group) -> None:
    """Wait until all ranks are here."""
    if group.comm is not None:
        talk(group, "barrier", group.comm.Ibarrier)


def all_objects(group: Group, item: object) -> list[Any]:
    """What each rank gives, in their order."""
    if group.comm is None:
        return [item]
    found: list[Any] = []
    talk(group, "all_objects", group.comm.Ibarrier)  # waits without a load, as one rank may compile longer than others
    talk(group, "all_objects", lambda: found.extend(group.comm.allgather(item)))
    return found


def is_half(array: Array) -> bool:
    """Whether an array has 16-bit floats, which MPI cannot add."""
    return array.dtype.name in ("float16", "bfloat16")


def _wide(array: Array) -> Array:
    """16-bit floats as float32, which MPI can add."""
    return array.astype(np.float32) if is_half(array) else array


def _flat(arrays: Sequence[Array]) -> Array:
    """The elements of all arrays in one of their own."""
    return np.concatenate([array.reshape(-1) for array in arrays])


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


def in_place() -> Any:
    """What MPI takes for the array to send where that lies in the one to receive into."""
    from mpi4py import MPI

    return MPI.IN_PLACE
