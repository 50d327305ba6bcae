"""A plan segment that gathers the updated parameters of all ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from operator import setitem
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.distributed.collectives import in_place
from graphls.distributed.communication_thread import communicate
from graphls.distributed.rank_status import WAITING, call_of
from graphls.distributed.sharded_states import group_for
from graphls.distributed.world import find_group
from graphls.ir.graph import Node, Value
from graphls.ir.interpret import running
from graphls.ir.plan import Segment
from graphls.ir.types import Type
from graphls.runtime.bound import BoundStates
from graphls.runtime.lowering.types import exchanged
from graphls.runtime.torn import Torn

if TYPE_CHECKING:
    from graphls.runtime.engine import PlanContext

Array = np.ndarray[Any, Any]
Task = partial[Any]


class RanksPart(BoundStates):
    """Packs shards into one array, gathers those of all ranks, and copies the rows into the parameters.

    All of it is calls into C, one after the other.
    """

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        self.graph, self.gives, self.context = segment.graph, segment.gives, context
        self.parameters = {v.name: context.parameters[v.name] for v in self.graph.states}
        self.types = {v.name: exchanged(v.type) for v in self.graph.states}
        self.in_place = {w.state.name for w in self.graph.writes if w.in_place}
        self.swapped = {name: context.swapped[name] for name in self.types if name in context.swapped}
        self.own_results = {v: _empty(exchanged(v.type)) for v in self.graph.outputs}
        for node in self.graph.nodes:
            context.scratch.need(node.attrs["ranks"] * sum(context.boundary_buffers[v].nbytes for v in node.inputs))
        self.forget_bindings()

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """All calls of this step as one callable."""
        self.group = self.context.owner.group
        tasks = self.turn()
        for node in self.graph.nodes:
            with running(node):  # before any state is changed
                communicate(group_for(find_group(node.attrs["group"]), "gather"), node.primitive.name)
        with running(node):
            WAITING.begin(call_of(find_group(node.attrs["group"]), node.primitive.name))
        WAITING.is_updating = True
        return partial(deque, map(Task.__call__, tasks), 0)

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer."""
        WAITING.end()
        pairs = zip(self.gives, self.graph.outputs, strict=True)
        results = {value: np.array(self.own_results[v], v.type.dtype.numpy) for value, v in pairs}
        for value in self.context.boundary_buffers.keys() & results.keys():
            self.context.boundary_buffers[value][...] = results.pop(value)
        return results

    def failed(self, error: Exception) -> Exception:
        """The error itself; states that may be half written are invalidated."""
        WAITING.end()
        self.invalidate(str(error))
        return error

    def invalidate(self, reason: str) -> None:
        """Invalidate the states that are written in place."""
        for name in self.in_place:
            self.parameters[name].storage.replace(Torn(name, reason))

    # -- states -----------------------------------------------------------------------------------------------

    def _reopen(self) -> None:
        """Do nothing, as a fork closes nothing."""

    def _is_fit(self, name: str, buffer: Any) -> bool:
        return isinstance(buffer, np.ndarray) and buffer.dtype == self.types[name].dtype.numpy

    def _fit(self, name: str, array: Array) -> Any:
        return np.array(array)

    def _second(self, name: str) -> Any:
        return _empty(self.types[name])

    def _binding(self, turn: int) -> list[Task]:
        homes: dict[Value, list[Array]] = {v: [array] for v, array in self.own_results.items()}
        for write in self.graph.writes:
            homes.setdefault(write.value, []).append(self._buffers(write.state.name)[1])
        return [task for node in self.graph.nodes for task in self._tasks(node, homes)]

    def _tasks(self, node: Node, homes: Mapping[Value, Iterable[Array]]) -> Iterator[Task]:
        """The calls of one gather."""
        group = group_for(find_group(node.attrs["group"]), "gather")
        shards = [self.context.boundary_buffers[v] for v in node.inputs]
        rows = self.context.scratch.array((group.size, sum(shard.size for shard in shards)), shards[0].dtype)
        own, start = rows[group.rank], 0
        for shard in shards:
            yield partial(setitem, own, slice(start, start + shard.size), shard)
            start += shard.size
        if group.comm is not None:
            yield partial(group.comm.Allgather, in_place(), rows.reshape(-1).view(np.uint8))
        start = 0
        for shard, value in zip(shards, node.outputs[1:], strict=True):
            columns = rows[:, start : start + shard.size]
            start += shard.size
            for home in homes.get(value, ()):
                yield from _copies(columns, home.reshape(-1))


def _empty(kind: Type) -> Array:
    return np.empty(kind.shape, kind.dtype.numpy)


def _copies(rows: Array, flat: Array) -> Iterator[Task]:
    """The calls that copy rows one after the other into a flat array, until it is full."""
    length = rows.shape[1]
    full = flat.size // length
    yield partial(setitem, flat[: full * length].reshape(full, length), ..., rows[:full])
    if flat.size > full * length:
        yield partial(setitem, flat, slice(full * length, None), rows[full, : flat.size - full * length])
