"""Random numbers of datasets: pure functions of the seed, the node, the pass over it and the row."""

from __future__ import annotations

import random
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.base.sharing.forks import Guard
from graphls.base.sharing.settings import Settings
from graphls.frontend.tensors.random import generator as random_of_set_seed
from graphls.frontend.tensors.random import random_state

MAXIMUM = 2**64 - 1
DATASETS = 0x67726170686C73
"""Half of the key of Philox, which separates these numbers from others of the same seed."""
WHOLE_PASS = MAXIMUM
"""The row number of a pass as a whole, from which its order is drawn."""
SEED = Settings({"value": None, "setting": None})
"""The seed of `config.set_seed`, None without a call, and an object of each call."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key of the random numbers of one pass over one node; the row completes it."""

    seed: int
    node: int
    epoch: int

    def generator(self, row: int = WHOLE_PASS) -> np.random.Generator:
        """The generator of a row; each row has a range of Philox's counter of its own."""
        key = np.array([self.seed & MAXIMUM, DATASETS], np.uint64)
        counter = np.array([0, row, self.epoch & MAXIMUM, self.node], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=counter))


class RowDraws:
    """The generator of the current row of a stream.

    One object serves all rows, and is moved to the start of a row on first use: creating another one takes NumPy ten
    times as long.
    """

    __slots__ = ("_begun", "_generator", "_key", "_row", "_start")

    def __init__(self, key: Key) -> None:
        self._key, self._row, self._begun = key, WHOLE_PASS, False
        self._generator: np.random.Generator | None = None
        self._start: dict[str, Any] = {}

    def enter(self, row: int) -> None:
        """Move to a row; code that runs in this thread from now on draws from its generator."""
        self._row, self._begun = row, False
        _current.set(self)

    def generator(self) -> np.random.Generator:
        """The generator of the row, the same one for all code that works on it."""
        if self._generator is None:
            self._generator = self._key.generator(self._row)
            self._start = dict(self._generator.bit_generator.state)
        elif not self._begun:
            self._start["state"]["counter"][1] = self._row
            self._generator.bit_generator.state = self._start
        self._begun = True
        return self._generator

    def seed_globals(self) -> None:
        """Seed the generators of `random` and `numpy.random` for the row, for code that draws from them."""
        key = self._key
        words = [part & 0xFFFFFFFF for part in (key.seed, key.node, key.epoch, self._row)]
        np.random.seed(words)
        random.seed(repr(words))


_current: ContextVar[RowDraws | None] = ContextVar("row_draws", default=None)
_OUTSIDE = Guard()
_outside: tuple[object, np.random.Generator] | None = None
"""The generator for draws outside of pipelines, with the seeds it was created for; all threads share it."""


def generator() -> np.random.Generator:
    """The generator that random transforms draw from.

    While a pipeline works on a row, it is seeded for that row, so that the draws depend on the seed, the node, the pass
    and the index of the row, and neither on the number of workers nor on their timing. Elsewhere it restarts when
    `ds.config.set_seed` or `graphls.set_seed` is called.
    """
    draws = _current.get()
    return draws.generator() if draws is not None else _generator_outside()


def between(draw: np.random.Generator, low: float, high: float) -> float:
    """A uniform number from low to high, as of `draw.uniform`, in half the time."""
    return low + (high - low) * draw.random()


def _generator_outside() -> np.random.Generator:
    global _outside
    seeds = (current_seed(), SEED["setting"], random_of_set_seed())
    with _OUTSIDE.lock:
        if _outside is None or _outside[0] != seeds:
            _outside = (seeds, np.random.default_rng(seeds[0]))
        return _outside[1]


def current_seed() -> int:
    """The seed of `config.set_seed`, else that of `graphls.set_seed`, which a loaded checkpoint restores."""
    seed = SEED["value"]
    return int(random_state().asnumpy()[0] if seed is None else seed)
