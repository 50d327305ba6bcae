"""Proofs about plans: in-place writes of their segments, and equivalence to the whole graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from graphls.ir.engines import find_engine
from graphls.ir.graph import Graph, Value, needs, walk
from graphls.ir.indices import early_states, is_small, takes_indices
from graphls.ir.plan import Plan, Segment, plan_of
from graphls.ir.verify import fault
from graphls.passes.schedule.order import read_before_write

Paths = tuple[tuple[Segment, ...], ...]
"""What may run in a step: every segment, with each of the branches."""


def proven(graph: Graph) -> Graph:
    """The graph of a plan whose writes are marked in place where that is proven.

    A state is written in place by a segment behind the flag that the host reads and behind all calls of Python, so that
    a Ctrl-C or a failure there leaves states of one step; where no later segment reads the old value nor, for a small
    state, takes indices, and where the order inside of the segment is proven, too; whichever branch runs.
    """
    marks = _proofs(plan_of(graph))
    safe = {state for state in marks[0] if all(found.get(state) for found in marks)}
    return graph.replace(writes=tuple(replace(w, in_place=w.state in safe) for w in graph.writes))


def paths(plan: Plan) -> Paths:
    """The segments of a step in their order, for each answer to the flag."""
    if plan.flag is None:
        return ((*plan.before, *plan.after),)
    return tuple((*plan.before, *branch, *plan.after) for branch in plan.branches)


def _flag_after(plan: Plan) -> int:
    """How many segments run before the host reads the flag."""
    return 0 if plan.flag is None else len(plan.before)


class _Proof(NamedTuple):
    """Facts about one segment: the states that it may write in place by itself, and whose old values it reads.

    `looks` says whether an index that is out of range ends it.
    """

    safe: frozenset[Value]
    read: frozenset[Value]
    looks: bool


def _proofs(plan: Plan) -> list[dict[Value, bool]]:
    """For each answer to the flag, whether the states that are written then may be written in place."""
    known = {
        segment: _Proof(_safe(segment), frozenset(_read(segment)), takes_indices(segment.graph))
        for segment in plan.segments
    }
    return [_marks(path, _flag_after(plan), known) for path in paths(plan)]


def _safe(segment: Segment) -> frozenset[Value]:
    """The states whose old values all nodes of a segment read before it makes the new ones."""
    if not find_engine(segment.engine).writes_in_place:
        return frozenset()
    safe, _ = read_before_write(segment.graph)
    early = early_states(segment.graph)
    return frozenset(state for state in safe if state.name not in early)


def _marks(path: Sequence[Segment], first: int, proofs: Mapping[Segment, _Proof]) -> dict[Value, bool]:
    """Whether the old value of each state may be overwritten where the new one is made, from the segment `first` on."""
    found: dict[Value, bool] = {}
    read_later: set[Value] = set()
    is_behind_all, looks_later = True, False
    for number, segment in reversed(list(enumerate(path))):
        is_behind_all &= number >= first and not find_engine(segment.engine).runs_python
        safe, read, looks = proofs[segment]
        for write in segment.graph.writes:
            stays = not (looks_later and is_small(write.state))
            may = write.value is write.state or (is_behind_all and write.state in safe and stays)  # it may be passed on
            found[write.state] = found.get(write.state, True) and may and write.state not in read_later
        read_later.update(read)
        looks_later |= looks
    return found


def _read(segment: Segment) -> Iterator[Value]:
    """The states whose old values a segment reads; to pass one on as the new value is no reading."""
    yield from (v for node in segment.graph.nodes for v in needs(node) if v.is_state)
    yield from (v for v in segment.graph.outputs if v.is_state)
    yield from (w.value for w in segment.graph.writes if w.value.is_state and w.value is not w.state)


def verify_plan(graph: Graph, made: Graph) -> None:
    """Raise VerifyError unless a graph of segments does what the whole graph does, in an order that this allows.

    Every node is there, values are made before they are read and control edges, by which calls with effects keep their
    order, are kept, also between segments, and a state is overwritten only after the last segment that reads its old
    value. That each value is defined before its use inside of the plan is for `verify`.
    """
    order = _positions(made)
    for node in walk(graph):
        if not node.outputs or node.outputs[0] not in order:
            continue  # constants and tokens, of which each segment has its own
        for value in needs(node):
            if order.get(value, -1) > order[node.outputs[0]]:
                raise fault(graph, node, f"the plan runs this before %{value.name}, which it waits for")
    verify_writes(made)


def _positions(made: Graph) -> dict[Value, int]:
    """The place of each value in the order in which segments, and the nodes in them, run."""
    return {value: i for i, node in enumerate(walk(made)) for value in node.outputs}


def verify_writes(made: Graph) -> None:
    """Raise VerifyError where a plan overwrites a state that a segment still reads, or before what may fail."""
    if not any(write.in_place for write in made.writes):
        return
    marks = _proofs(plan_of(made))
    for write in made.writes:
        # A branch in which a state stays as it is, in its own buffer, does not write it.
        if write.in_place and not all(found.get(write.state, True) for found in marks):
            reason = "before a segment has read its old value, or before what may fail"
            raise fault(made, write, f"@{write.state.name} is overwritten {reason}")
