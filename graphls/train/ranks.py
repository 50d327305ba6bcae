"""Agreement of the ranks of a training: joint metrics, numbers to decide by, and which rank writes checkpoints."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from graphls.distributed.collectives import all_objects, all_reduce
from graphls.distributed.world import devices_driven, devices_of_stage, world
from graphls.nn.grad_reducer import is_data_parallel
from graphls.train.callbacks.checkpoint_config import CheckpointConfig


class Writer(Protocol):
    """A callback that writes files, with its directory, prefix, and whether this rank, or all together, write them."""

    _config: CheckpointConfig
    _directory: Any
    _prefix: Any
    _writes: bool
    _is_joint: bool


def mean_over_ranks(value: float | None) -> float | None:
    """The mean of a number over the ranks that train together, so that all of them decide alike."""
    if value is None or not is_data_parallel():
        return value
    group = world()
    (total,) = all_reduce(group, [np.array([value], np.float64)], "sum")
    return float(total[0]) / group.size


def agree_on_writers(callbacks: Iterable[Any]) -> None:
    """Let one rank alone write the checkpoints that several would write into one directory, under its names.

    Where all ranks have a callback of the same number, they write after the same steps, independent of their clocks.
    """
    if not is_data_parallel():
        return
    own: list[Writer] = [each for each in callbacks if hasattr(each, "_writes")]
    group = world()
    everyone = all_objects(group, [_destination(writer) for writer in own])
    for number, writer in enumerate(own):
        destination = _destination(writer)
        before = [each[number] for each in everyone[: group.rank] if len(each) > number]
        earlier = [each for each in before if each[0] is not None and each[0] == destination[0]]
        writer._writes = not earlier
        if earlier and isinstance(writer._prefix, str):
            writer._prefix = earlier[0][1]
        writer._is_joint = all(len(each) > number and each[number][2] == destination[2] for each in everyone)


def flag_of_first_rank(flag: bool) -> bool:
    """The flag of the first rank, on all ranks."""
    return bool(all_objects(world(), flag)[0])


def _destination(writer: Writer) -> tuple[str | None, str | None, int | None]:
    """The directory, the prefix and the seconds of a callback; None for those that are computed by a function."""
    directory = str(writer._directory) if isinstance(writer._directory, Path) else None
    prefix = writer._prefix if isinstance(writer._prefix, str) else None
    return directory, prefix, writer._config.save_checkpoint_seconds


@contextmanager
def joint_shards(dataset: object) -> Iterator[bool]:
    """Remove the rows that pad shards to equal sizes, in a block; yields whether a dataset is a shard of this rank.

    One of all ranks, whose devices this process drives, is none.
    """
    ranks = {world().size * count for count in (devices_driven(), devices_of_stage())} - {1}
    samplers = list(_shard_samplers(dataset, ranks)) if ranks else []
    before = [sampler.offset for sampler in samplers]
    for sampler in samplers:
        sampler.offset = max(sampler.offset, 0)  # the shard begins with the same rows, and ends with the last one
    try:
        yield bool(samplers) and world().size > 1
    finally:
        for sampler, offset in zip(samplers, before, strict=True):
            sampler.offset = offset


def _shard_samplers(node: Any, ranks: Container[int]) -> Iterator[Any]:
    """The samplers of a dataset and its children that select each rank's shard."""
    sampler = getattr(node, "sampler", None)
    while sampler is not None:
        if getattr(sampler, "num_shards", None) in ranks and hasattr(sampler, "offset"):
            yield sampler
        sampler = getattr(sampler, "child_sampler", None)
    for child in getattr(node, "children", ()):
        yield from _shard_samplers(child, ranks)


def of_all_ranks(outputs: Sequence[Any] | None, stops: bool) -> tuple[list[Sequence[Any]], bool]:
    """The outputs of the ranks that have some, in order, and whether any rank stops."""
    everyone = all_objects(world(), (outputs, stops))
    return [result for result, _ in everyone if result is not None], any(stop for _, stop in everyone)
