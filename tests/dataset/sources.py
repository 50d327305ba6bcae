"""Sources and helpers that the tests of datasets share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import graphls.dataset as ds
from graphls.dataset import randomness


class Numbers:
    """The numbers from 0 on, each with an image that tells it; counts what is read."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> tuple[np.ndarray[Any, Any], int]:
        self.read.append(index)
        return np.full((1, 2, 2), index, np.float32), index


def numbers(size: int, **arguments: Any) -> ds.GeneratorDataset:
    return ds.GeneratorDataset(Numbers(size), ["image", "label"], **arguments)


def plain(size: int, **arguments: Any) -> ds.GeneratorDataset:
    """One column of numbers, in their order unless told otherwise."""
    if not {"sampler", "num_shards", "batch_sampler"} & set(arguments):
        arguments.setdefault("shuffle", False)
    return ds.GeneratorDataset(list(range(size)), "x", **arguments)


def streamed(size: int) -> ds.GeneratorDataset:
    """One column of numbers from a generator function."""

    def rows() -> Iterator[tuple[int]]:
        for number in range(size):
            yield (number,)

    return ds.GeneratorDataset(rows, "x")


def rows_of(iterator: Any) -> list[Any]:
    """The rows of one pass as nested lists, a row of one column as that column."""
    found = [[np.asarray(column).tolist() for column in row] for row in iterator]
    return [row[0] if len(row) == 1 else row for row in found]


def passes(dataset: ds.Dataset, count: int = 1, init_step: int = 0) -> list[list[Any]]:
    """The rows of several passes of one iterator."""
    dataset.set_init_step(init_step)
    iterator = dataset.create_tuple_iterator(num_epochs=count, output_numpy=True)
    return [rows_of(iterator) for _ in range(count)]


def values(dataset: ds.Dataset) -> list[Any]:
    """The rows of the first pass."""
    return passes(dataset)[0]


def noisy(x: Any) -> Any:
    """A random transform, as those of graphls.dataset.transforms draw."""
    return x + randomness.generator().random()


def wait_until(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    """Whether a condition comes to hold; the time is only how long a broken one is waited for."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
