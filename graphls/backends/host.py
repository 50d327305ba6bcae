"""Values that the host makes for a step: random tensors, drawn while the step before still runs."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from graphls.ir.graph import Node

Array = np.ndarray[Any, Any]
_pool: ThreadPoolExecutor | None = None


class HostValues:
    """The outputs of `on_host` nodes, which depend on one int64 state: (seed, step)."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.ahead: tuple[tuple[int, int], Future[list[Array]]] | None = None

    def draw(self, state: Array) -> list[Array]:
        """The arrays for this state; those for the next step are begun in the background."""
        seed, step = int(state[0]), int(state[1])
        if self.ahead is not None and self.ahead[0] == (seed, step):
            arrays = self.ahead[1].result()
        else:
            arrays = self.compute(seed, step)
        self.ahead = (seed, step + 1), _executor().submit(self.compute, seed, step + 1)
        return arrays

    def compute(self, seed: int, step: int) -> list[Array]:
        """The arrays for one (seed, step)."""
        state = np.array([seed, step], np.int64)
        return [
            np.ascontiguousarray(n.primitive.evaluate((state,), n.attrs, (n.output.type,))[0]) for n in self.nodes
        ]


def _executor() -> ThreadPoolExecutor:
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(1, thread_name_prefix="graphls-random")
    return _pool
