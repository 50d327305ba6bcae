"""Proofs about plans: in-place writes of their segments, and equivalence to the original graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from graphls.ir.engines import Interprets, find_engine, runs_python
from graphls.ir.graph import Graph, Value, needs, uses, walk
from graphls.ir.indices import early_states, is_small, takes_indices
from graphls.ir.plan import Plan, Segment, plan_of
from graphls.ir.verify import fault
from graphls.passes.schedule.order import read_before_write

Paths = tuple[tuple[Segment, ...], ...]
"""The possible runs of a step: the sequence of segments for each branch."""


def proven(graph: Graph) -> Graph:
    """The graph of a plan whose writes are marked in place where that is proven.

    A state is written in place by a segment after the flag that the host reads and after all calls of Python, so that
    a Ctrl-C or a failure there leaves states of one step; where no later segment reads the old value nor, for a small
    state, takes indices, and where the order inside of the segment is proven, too; whichever branch runs.
    """
    marks = _proofs(plan_of(graph))
    safe = {state for state in marks[0] if all(marks_of_path.get(state) for marks_of_path in marks)}
    return graph.replace(writes=tuple(replace(w, in_place=w.state in safe) for w in graph.writes))


def paths(plan: Plan) -> Paths:
    """The segments of a step in their order, for each value of the flag."""
    if plan.flag is None:
        return ((*plan.before, *plan.after),)
    return tuple((*plan.before, *branch, *plan.after) for branch in plan.branches)


def _flag_after(plan: Plan) -> int:
    """The number of segments that run before the host reads the flag."""
    return 0 if plan.flag is None else len(plan.before)


class _Proof(NamedTuple):
    """Facts about one segment: the states that it may write in place by itself, and whose old values it reads.

    `checks_indices` says whether an index out of range ends it.
    """

    safe: frozenset[Value]
    read: frozenset[Value]
    checks_indices: bool


def _proofs(plan: Plan) -> list[dict[Value, bool]]:
    """For each value of the flag, whether the states that are written then may be written in place."""
    known = {
        segment: _Proof(_safe(segment), frozenset(_read(segment)), takes_indices(segment.graph))
        for segment in plan.segments
    }
    return [_marks(path, _flag_after(plan), known) for path in paths(plan)]


def _safe(segment: Segment) -> frozenset[Value]:
    """The states whose old values all nodes of a segment read before it makes the new ones."""
    engine = find_engine(segment.engine)
    if not engine.writes_in_place:
        return frozenset()
    if isinstance(engine, Interprets):
        return frozenset(write.state for write in segment.graph.writes)
    safe, _ = read_before_write(segment.graph)
    early = early_states(segment.graph)
    return frozenset(state for state in safe if state.name not in early)


def _marks(path: Sequence[Segment], first: int, proofs: Mapping[Segment, _Proof]) -> dict[Value, bool]:
    """Whether each state may be written in place, by a segment from the index `first` on."""
    marks: dict[Value, bool] = {}
    read_later: set[Value] = set()
    is_behind_all, indices_later = True, False
    for number, segment in reversed(list(enumerate(path))):
        is_behind_all &= number >= first and not find_engine(segment.engine).runs_python
        safe, read, checks_indices = proofs[segment]
        for write in segment.graph.writes:
            stays = not (indices_later and is_small(write.state))
            is_unchanged = write.value is write.state
            may = is_unchanged or (is_behind_all and write.state in safe and stays)
            marks[write.state] = marks.get(write.state, True) and may and write.state not in read_later
        # Python that computes some nodes of a segment runs before this overwrites a state, but behind earlier segments.
        is_behind_all &= not runs_python(segment)
        read_later.update(read)
        indices_later |= checks_indices
    return marks


def _read(segment: Segment) -> Iterator[Value]:
    """The states whose old values a segment reads; to pass one on as the new value is not a reading."""
    yield from (v for node in segment.graph.nodes for v in needs(node) if v.is_state)
    yield from (v for v in segment.graph.outputs if v.is_state)
    yield from (w.value for w in segment.graph.writes if w.value.is_state and w.value is not w.state)


def verify_plan(graph: Graph, partitioned: Graph) -> None:
    """Raise VerifyError unless a graph of segments computes the same as the original graph, in an order that it allows.

    Data and control edges between all nodes hold in the plan, also between segments, so that effects keep their order,
    and a state is overwritten only after the last segment that reads its old value. `verify` checks that each value is
    defined before its use inside of the plan.
    """
    order = _positions(partitioned)
    for node in walk(graph):
        if not node.outputs or node.outputs[0] not in order:
            continue  # constants and tokens, which are copied into segments
        for value in uses(node) if node.primitive.on_host else needs(node):  # a plan draws random numbers first
            if order.get(value, -1) > order[node.outputs[0]]:
                raise fault(graph, node, f"the plan runs this before %{value.name}, which it waits for")
    verify_writes(partitioned)


def _positions(partitioned: Graph) -> dict[Value, int]:
    """The position of each value in the order in which segments, and the nodes in them, run."""
    return {value: i for i, node in enumerate(walk(partitioned)) for value in node.outputs}


def verify_writes(partitioned: Graph) -> None:
    """Raise VerifyError where a plan overwrites a state too early: before its last reader or a possible failure."""
    if not any(write.in_place for write in partitioned.writes):
        return
    marks = _proofs(plan_of(partitioned))
    for write in partitioned.writes:
        # A branch in which a state stays as it is, in its own buffer, does not write it.
        if write.in_place and not all(marks_of_path.get(write.state, True) for marks_of_path in marks):
            reason = "before a segment has read its old value, or before a segment that may fail"
            raise fault(partitioned, write, f"@{write.state.name} is overwritten {reason}")
