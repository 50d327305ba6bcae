"""Host random inputs: arrays drawn by the host while the previous step still runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphMemoryError
from graphls.base.sharing.forks import renew_after_fork
from graphls.base.sharing.storage import Storage
from graphls.base.sharing.threads import Task, TaskQueue
from graphls.ir.graph import Graph, Node, Value, definers

Array = np.ndarray[Any, Any]
AHEAD = TaskQueue("graphls-random")
"""The thread that draws ahead, one for all sessions."""


class HostValues:
    """The outputs of `on_host` nodes of a graph, which depend on one int64 state: (seed, step).

    The state is read once. Then it is known without waiting for a device, as long as steps count it up.
    """

    def __init__(self, graph: Graph, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.growth = growth(graph, nodes[0].inputs[0]) if nodes else None
        self.ahead: tuple[tuple[int, ...], Task[list[Array]]] | None = None
        renew_after_fork(self)

    def draw(self, storage: Storage) -> list[Array]:
        """The arrays for the state in a storage; those for the next step are begun in the background."""
        seed, step = known(storage)
        if self.ahead is not None and self.ahead[0] == (seed, step):
            arrays = self.ahead[1].result()
        else:
            arrays = self.compute(seed, step)
        self.ahead = (seed, step + 1), AHEAD.do(self.compute, seed, step + 1)
        return arrays

    def count(self, storage: Storage, step: Callable[[], None], steps: int = 1) -> None:
        """Run what changes the state in a storage, which is known afterwards, too; unless that is interrupted."""
        before, storage.expected = known(storage), None
        step()
        storage.expected = self.after(before, steps)

    def after(self, state: Sequence[int], steps: int = 1) -> tuple[int, ...] | None:
        """The state some steps later; None where that is not known."""
        return None if self.growth is None else tuple(a + steps * b for a, b in zip(state, self.growth, strict=True))

    def renew(self) -> None:
        """In a forked process, wait for nothing that was begun in the background of the first."""
        self.ahead = None

    def compute(self, seed: int, step: int) -> list[Array]:
        """The arrays for one (seed, step)."""
        state = np.array([seed, step], np.int64)
        try:
            drawn = [(n.primitive.evaluate((state,), n.attrs, (n.output.type,))[0], n.output.type) for n in self.nodes]
            return [np.ascontiguousarray(array).reshape(type.shape) for array, type in drawn]
        except MemoryError as error:
            raise GraphMemoryError(f"The memory is too small for the random tensors of this step: {error}.") from None


def known(storage: Storage) -> tuple[int, ...]:
    """The random state in a storage, which is read where no step has noted it."""
    if storage.expected is None:
        storage.expected = tuple(map(int, storage.read()))
    state: tuple[int, ...] = storage.expected
    return state


def growth(graph: Graph, state: Value) -> tuple[int, ...] | None:
    """The increment of a state in a step of a graph; None where it does something else to it."""
    new_value = next((w.value for w in graph.writes if w.state is state), state)
    if new_value is state:
        return 0, 0
    definer = definers(graph.nodes)
    sum_node = definer.get(new_value)
    if sum_node is None or sum_node.primitive.name != "add" or sum_node.inputs[0] is not state:
        return None
    added = definer.get(sum_node.inputs[1])
    is_known = added is not None and added.primitive.is_constant
    return tuple(map(int, added.attrs["value"])) if added is not None and is_known else None
