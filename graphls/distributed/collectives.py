"""Collective operations on arrays: all-reduce, all-gather, reduce-scatter, broadcast and exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.distributed.communication_thread import communicate
from graphls.distributed.rank_status import call_of, described
from graphls.distributed.world import Group

Array = np.ndarray[Any, Any]
OPERATIONS = ("sum", "max", "min", "prod")
"""The reductions of elements over ranks."""
_COMBINE = {"sum": np.add, "max": np.maximum, "min": np.minimum, "prod": np.multiply}


def all_reduce(group: Group, arrays: Sequence[Array], op: str) -> list[Array]:
    """The arrays reduced over all ranks, each with those of its position, in one communication."""
    if group.comm is None or not arrays:
        return list(arrays)
    flat = _flat(arrays)
    all_reduce_into(group, flat, flat, op, arrays)
    return _parts(flat, arrays)


def all_reduce_into(group: Group, flat: Array, result: Array, op: str, arrays: Sequence[Array] = ()) -> None:
    """Reduce the flat arrays of all ranks; the result may be the same array, and has its dtype.

    `arrays` are the arrays that the flat one concatenates, for messages.
    """
    what = described("all_reduce", arrays or [flat], _by(op))
    if is_half(flat):
        _half_reduce_into(group, flat, result, op, what)
    elif op in ("max", "min") and flat.dtype.kind == "f":
        keys = _keys(flat, op)
        communicate(group, what, lambda: group.comm.Iallreduce(in_place(), keys, _operation(op)))
        result[...] = _turned(keys).view(flat.dtype)
    else:
        sent = in_place() if flat is result else flat
        communicate(group, what, lambda: group.comm.Iallreduce(sent, result, _operation(op)))


def _keys(flat: Array, op: str) -> Array:
    """Integers in the order of floats, with nan beyond all others, as MPI loses those by the order of ranks."""
    beyond = np.copysign(np.array(np.nan, flat.dtype), 1 if op == "max" else -1)
    return _turned(np.where(np.isnan(flat), beyond, flat).view(f"i{flat.itemsize}"))


def _turned(keys: Array) -> Array:
    """Bits of floats as integers in their order, or the other way: all but the sign of negative ones are inverted."""
    turned: Array = keys ^ (keys >> keys.itemsize * 8 - 1 & np.iinfo(keys.dtype).max)
    return turned


def _by(op: str) -> str:
    return "" if op == "sum" else f" op {op}"


def _half_reduce_into(group: Group, flat: Array, result: Array, op: str, what: str) -> None:
    """Reduce 16-bit floats in float32: each rank reduces and rounds one part, then all parts are gathered."""
    rows = np.zeros((group.size, -(-flat.size // group.size)), flat.dtype)
    rows.reshape(-1)[: flat.size] = flat
    own = half_sums(group, what, rows, op)
    communicate(group, what, lambda: group.comm.Iallgather(_bytes(own), _bytes(rows)))
    result[...] = rows.reshape(-1)[: flat.size]


def half_sums(group: Group, what: str, rows: Array, op: str) -> Array:
    """This rank's row of the 16-bit floats that each rank has for all others, reduced in float32 and rounded once."""
    received = np.empty_like(rows)
    communicate(group, what, lambda: group.comm.Ialltoall(_bytes(rows), _bytes(received)))
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is an infinity, which a check finds
        combined: Array = _COMBINE[op].reduce(received.astype(np.float32), axis=0).astype(rows.dtype)
    return combined


def reduce_to(group: Group, arrays: Sequence[Array], root: int) -> list[Array]:
    """The sums over all ranks on one of them, zeros on the others."""
    if group.comm is None or not arrays:
        return list(arrays)
    flat = _wide(_flat(arrays))
    total = np.zeros_like(flat)
    received = total if group.rank == root else None
    what = described("reduce_to", arrays, f" root {root}")
    communicate(group, what, lambda: group.comm.Ireduce(flat, received, root=root))
    return _parts(total, arrays)


def broadcast(group: Group, arrays: Sequence[Array], root: int) -> list[Array]:
    """The arrays of the rank `root`, on all ranks."""
    if group.comm is None or not arrays:
        return list(arrays)
    flat = np.concatenate([_bytes(array) for array in arrays])
    communicate(group, described("broadcast", arrays, f" root {root}"), lambda: group.comm.Ibcast(flat, root))
    cuts = np.cumsum([array.nbytes for array in arrays])[:-1]
    parts = zip(np.split(flat, cuts), arrays, strict=True)
    return [np.frombuffer(part.tobytes(), array.dtype).reshape(array.shape) for part, array in parts]


def all_gather(group: Group, array: Array) -> Array:
    """The arrays of all ranks, one after the other along the first axis."""
    if group.comm is None:
        return array
    gathered = np.empty((group.size * array.shape[0], *array.shape[1:]), array.dtype)
    received = gathered.reshape(-1).view(np.uint8)
    communicate(group, described("all_gather", [array]), lambda: group.comm.Iallgather(_bytes(array), received))
    return gathered


def reduce_scatter(group: Group, array: Array, op: str) -> Array:
    """This rank's part, along the first axis, of the arrays of all ranks reduced."""
    if group.comm is None:
        return array
    flat = _wide(_flat([array]))
    part = np.empty(flat.size // group.size, flat.dtype)
    act = lambda: group.comm.Ireduce_scatter_block(flat, part, _operation(op))  # noqa: E731
    communicate(group, described("reduce_scatter", [array], _by(op)), act)
    return _parts(part, [array[: array.shape[0] // group.size]])[0]


def all_to_all(group: Group, array: Array) -> Array:
    """The parts, along the first axis, that all ranks have for this one."""
    if group.comm is None:
        return array
    received = np.empty_like(array)
    parts = received.reshape(-1).view(np.uint8)
    communicate(group, described("all_to_all", [array]), lambda: group.comm.Ialltoall(_bytes(array), parts))
    return received


Kind = tuple[tuple[int, ...], Any]


def exchange(
    group: Group, arrays: Sequence[Array], kinds: Sequence[Kind], send: Sequence[int], receive: Sequence[int], tag: int
) -> list[Array]:
    """Send arrays to some ranks, and receive arrays of these shapes and dtypes from others."""
    if group.comm is None:
        return list(arrays)
    received = [np.empty(shape, dtype) for shape, dtype in kinds]
    what = described("neighbor_exchange", [*arrays, *received])
    where = call_of(group, what).where
    messages = [(rank, _head(array, where), _bytes(array)) for rank, array in zip(send, arrays, strict=True)]
    heads = [(rank, np.zeros(HEAD, np.uint8)) for rank in receive]
    sending: list[Any] = []

    def exchange_heads() -> _Requests:
        for rank, head, body in messages:
            sending.extend((group.comm.Isend(head, rank, 2 * tag + 1), group.comm.Isend(body, rank, 2 * tag)))
        return _Requests([group.comm.Irecv(head, rank, 2 * tag + 1) for rank, head in heads])

    communicate(group, what, exchange_heads, lambda: [rank for rank, head in heads if not head[0]])
    parts = [(rank, np.empty(int(_parts_of(head)[0]), np.uint8)) for rank, head in heads]
    act = lambda: _Requests([*sending, *(group.comm.Irecv(part, rank, 2 * tag) for rank, part in parts)])  # noqa: E731
    communicate(group, what, act, lambda: sorted({*send, *receive}), moves=True)
    for (rank, head), (_, part), array in zip(heads, parts, received, strict=True):
        _require_announced(group, rank, head, _head(array, where))
        array.reshape(-1).view(np.uint8)[:] = part
    return received


HEAD = 256
"""Bytes of the header of a message between ranks: its size, dtype, type and line, padded with zeros."""


def _head(array: Array, where: str) -> Array:
    text = f"{array.nbytes}\0{array.dtype}\0{described('message', [array])}{f' at {where}' if where else ''}"
    return np.frombuffer(text.encode()[: HEAD - 1].ljust(HEAD, b"\0"), np.uint8)


def _parts_of(head: Array) -> list[str]:
    """The bytes, the dtype, and the type and line that a rank announces."""
    return head.tobytes().decode(errors="replace").split("\0")[:3]


def _require_announced(group: Group, rank: int, head: Array, expected_head: Array) -> None:
    """Raise GraphRuntimeError where a rank has sent something else than this one receives."""
    (*kind, sent), (*expected, requested) = map(_parts_of, (head, expected_head))
    if kind != expected:
        one, other = (text.removeprefix("message of ") for text in (sent, requested))
        text = f"Rank {group.members[rank]} sends {one} while rank {group.members[group.rank]} receives {other}"
        raise GraphRuntimeError(f"{text}; receive what is sent.")


@dataclass(frozen=True)
class _Requests:
    """Several requests as one."""

    pending: list[Any]

    def Test(self) -> bool:
        """Whether all requests are complete."""
        return all([request.Test() for request in self.pending])


def barrier(group: Group) -> None:
    """Wait until all ranks are here."""
    if group.comm is not None:
        communicate(group, "barrier")


def all_objects(group: Group, item: object, what: str = "an exchange of objects") -> list[Any]:
    """The objects of all ranks, in their order; `what` names them in messages."""
    if group.comm is None:
        return [item]
    objects: list[Any] = []
    communicate(group, what, lambda: objects.extend(group.comm.allgather(item)))
    return objects


def is_half(array: Array) -> bool:
    """Whether an array has 16-bit floats, which MPI cannot reduce."""
    return array.dtype.name in ("float16", "bfloat16")


def _wide(array: Array) -> Array:
    """16-bit floats as float32, which MPI can add."""
    return array.astype(np.float32) if is_half(array) else array


def _flat(arrays: Sequence[Array]) -> Array:
    """The elements of all arrays in one new array."""
    return np.concatenate([array.reshape(-1) for array in arrays])


def _parts(flat: Array, like: Sequence[Array]) -> list[Array]:
    """The elements split into arrays of these shapes and dtypes."""
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
    """MPI's marker for sending from the receive buffer."""
    from mpi4py import MPI

    return MPI.IN_PLACE
