"""Sharding of arrays over the ranks of a group; the last shards are padded with zeros."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from threading import local
from typing import Any

import numpy as np

from graphls.distributed.collectives import Array, half_sums, is_half
from graphls.distributed.talk import talk
from graphls.distributed.waiting import described
from graphls.distributed.world import Group


def shard_size(size: int, ranks: int) -> int:
    """How many elements each rank has of so many."""
    return -(-size // ranks)


def shard_range(size: int, rank: int, ranks: int) -> tuple[int, int]:
    """The elements that a rank has, from the first up to the one behind the last; it may have none."""
    length = shard_size(size, ranks)
    return min(rank * length, size), min((rank + 1) * length, size)


def shard_of(array: Array, rank: int, ranks: int) -> Array:
    """A copy of the elements that a rank has, with zeros behind them."""
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
    talk(group, described("reduce_shards", [rows]), lambda: group.comm.Ireduce_scatter_block(rows.reshape(-1), own))
    return own


_kept = local()


def _scratch(shape: tuple[int, int], dtype: Any) -> Array:
    """An array of this thread for one communication: pages of a new one each time take as long as what is sent."""
    size = prod(shape) * np.dtype(dtype).itemsize
    if getattr(_kept, "buffer", np.empty(0)).size < size:
        _kept.buffer = np.empty(size, np.uint8)
    found: Array = _kept.buffer[:size].view(dtype).reshape(shape)
    return found


def spread(flat: Array, rows: Array) -> None:
    """Put elements into rows, one for each rank, one row after the other, and zeros behind them."""
    whole, length = flat.size // rows.shape[1] if rows.shape[1] else 0, rows.shape[1]
    rows[:whole] = flat[: whole * length].reshape(whole, length)
    if whole < len(rows):
        rest = flat.size - whole * length
        rows[whole, :rest] = flat[whole * length :]
        rows[whole, rest:] = rows[whole + 1 :] = 0


def gather_shards(group: Group, shards: Sequence[Array], shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """The whole arrays of these shapes, of shards of one dtype, in one communication."""
    own = np.concatenate(shards)
    rows = np.empty((group.size, own.size), own.dtype)
    rows[:] = own
    if group.comm is not None:
        received = rows.reshape(-1).view(np.uint8)
        talk(group, described("gather_shards", shards), lambda: group.comm.Iallgather(own.view(np.uint8), received))
    ends = np.cumsum([shard.size for shard in shards])
    parts = np.split(rows, ends[:-1], axis=1)
    return [part.reshape(-1)[: prod(shape)].reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def whole_of(shards: Sequence[Array], shape: tuple[int, ...]) -> Array:
    """The array of this shape that the shards of all ranks are."""
    return np.concatenate(shards)[: prod(shape)].reshape(shape)
