"""Sharding of arrays over the ranks of a group; the last shards are padded with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from threading import local
from typing import Any

import numpy as np

from graphls.distributed.collectives import Array, half_sums, is_half
from graphls.distributed.communication_thread import communicate
from graphls.distributed.rank_status import described
from graphls.distributed.world import Group

BLOCK = 256
"""The elements that share a number, such as the maximum of a block of moments in 8 bits, which large shards keep
together."""


def shard_size(size: int, ranks: int) -> int:
    """The number of elements of each shard of an array of so many elements.

    From 16 blocks on it is a number of complete blocks, as many as the shard of an array with a number for each block
    has elements.
    """
    length = -(-size // ranks)
    return length if length < 16 * BLOCK else BLOCK * shard_size(-(-size // BLOCK), ranks)


def shard_range(size: int, rank: int, ranks: int) -> tuple[int, int]:
    """The start and the end of a rank's elements; the range may be empty."""
    length = shard_size(size, ranks)
    return min(rank * length, size), min((rank + 1) * length, size)


def shard_of(array: Array, rank: int, ranks: int) -> Array:
    """A copy of a rank's elements, padded with zeros."""
    start, stop = shard_range(array.size, rank, ranks)
    shard = np.zeros(shard_size(array.size, ranks), array.dtype)
    shard[: stop - start] = array.reshape(-1)[start:stop]
    return shard


def reduce_shards(group: Group, arrays: Sequence[Array]) -> list[Array]:
    """This rank's shards of the sums of arrays of one dtype over all ranks, in one communication.

    16-bit floats travel as they are, and are added in float32.
    """
    lengths = [shard_size(array.size, group.size) for array in arrays]
    starts = np.cumsum([0, *lengths])
    packed = _scratch((group.size, int(starts[-1])), arrays[0].dtype)
    for array, start, length in zip(arrays, starts, lengths, strict=False):
        spread(array.reshape(-1), packed[:, start : start + length])
    own = _own_sums(group, packed)
    return [own[a:b] for a, b in pairwise(starts)]


def _own_sums(group: Group, rows: Array) -> Array:
    """The sums over all ranks of the row that belongs to this one."""
    if group.comm is None:
        return np.array(rows[0])
    if is_half(rows):
        return half_sums(group, described("reduce_shards", [rows]), rows, "sum")
    own = np.empty(rows.shape[1], rows.dtype)
    act = lambda: group.comm.Ireduce_scatter_block(rows.reshape(-1), own)  # noqa: E731
    communicate(group, described("reduce_shards", [rows]), act)
    return own


_scratch_memory = local()


def _scratch(shape: tuple[int, int], dtype: Any) -> Array:
    """A reused array of this thread for one communication, as fresh pages cost as much as the communication."""
    size = prod(shape) * np.dtype(dtype).itemsize
    if getattr(_scratch_memory, "buffer", np.empty(0)).size < size:
        _scratch_memory.buffer = np.empty(size, np.uint8)
    view: Array = _scratch_memory.buffer[:size].view(dtype).reshape(shape)
    return view


def spread(flat: Array, rows: Array) -> None:
    """Fill rows, one for each rank, with elements in order, and pad the rest with zeros."""
    full, length = flat.size // rows.shape[1] if rows.shape[1] else 0, rows.shape[1]
    rows[:full] = flat[: full * length].reshape(full, length)
    if full < len(rows):
        remaining = flat.size - full * length
        rows[full, :remaining] = flat[full * length :]
        rows[full, remaining:] = rows[full + 1 :] = 0


def gather_shards(group: Group, shards: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """The complete arrays of these shapes, from shards of one dtype, in one communication."""
    own = np.concatenate(shards)
    rows = np.empty((group.size, own.size), own.dtype)
    rows[:] = own
    if group.comm is not None:
        received = rows.reshape(-1).view(np.uint8)
        act = lambda: group.comm.Iallgather(own.view(np.uint8), received)  # noqa: E731
        communicate(group, described("gather_shards", shards), act)
    ends = np.cumsum([shard.size for shard in shards])
    parts = np.split(rows, ends[:-1], axis=1)
    return [part.reshape(-1)[: prod(shape)].reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def join_shards(shards: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The array of this shape, joined from the shards of all ranks."""
    return np.concatenate(shards)[: prod(shape)].reshape(shape)
