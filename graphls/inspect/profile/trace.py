"""Writes steps in Chrome's trace format: a JSON array of complete events, with times in microseconds.

The format is the "Trace Event Format" of the Chromium project: `X` is a slice with a start and a duration, and `M`
names a track.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, product
from typing import Any

from graphls.inspect.cell_tree import cell_names
from graphls.inspect.profile.texts import line_of, name_of, name_text
from graphls.inspect.summary.plan import StepPlan
from graphls.ir.graph import Node
from graphls.runtime.kernels import Kernel, Run, SegmentRun

MOST_KERNELS = 100_000
TRACKS = ("steps", "segments", "phases", "cells", "kernels", "communication")
PROCESS = 1
ROUNDING = 1e-9
"""Clocks count microseconds or more; sums of their seconds are off by far less than this."""

Event = dict[str, Any]


def trace_parts(name: str, runs: Sequence[Run], plan: StepPlan | None = None) -> Iterator[bytes]:
    """The file, an event on each line; the segments of a plan have a track of their own."""
    begin = "["
    for event in _events(name, runs, plan):
        yield f"{begin}\n{json.dumps(event)}".encode()
        begin = ","
    yield b"\n]\n"


def _events(name: str, runs: Sequence[Run], plan: StepPlan | None) -> Iterator[Event]:
    yield _names("process_name", 0, f"@{name_text(name)}")
    is_beside = any(called.waited is not None for run in runs for called in run.segments)
    used = set(TRACKS) - ({"segments"} if not plan else set()) - ({"communication"} if not is_beside else set())
    for track, title in enumerate(TRACKS, start=1):
        if title in used:
            yield _names("thread_name", track, title)
    numbers = count(1)
    for number, run in enumerate(_first(runs), start=1):
        beside = {called.number for called in run.segments if called.waited is not None}
        leaves = _leaves([k for k in run.kernels if k.segment not in beside])
        yield _slice("steps", f"step {number}", run.start, run.seconds, {"kernels": len(run.kernels)})
        yield from _merged("phases", leaves, lambda node: [node.phase])
        yield from _merged("cells", leaves, lambda node: cell_names(node.scope))
        for k in run.kernels:
            yield _kernel(k, plan.segments[k.segment].engine if plan else "", k.segment in beside)
        if plan:
            yield from _segments(run, plan)
            yield from _crossing(run, plan, numbers)


def _first(runs: Sequence[Run]) -> Iterator[Run]:
    """Runs up to the limit of kernels, one at least."""
    total = 0
    for run in runs:
        if total and total + len(run.kernels) > MOST_KERNELS:
            return
        total += len(run.kernels)
        yield run


def _names(kind: str, track: int, name: str) -> Event:
    return {"ph": "M", "name": kind, "pid": PROCESS, "tid": track, "args": {"name": name}}


def _slice(
    track: str, name: str, start: float, seconds: float, args: Mapping[str, object], category: str = ""
) -> Event:
    begin = round(1e6 * start, 3)
    return {
        "ph": "X",
        "name": name,
        "cat": category or track,
        "pid": PROCESS,
        "tid": TRACKS.index(track) + 1,
        "ts": begin,
        "dur": round(1e6 * (start + seconds) - begin, 3),
        "args": dict(args),
    }


def _segments(run: Run, plan: StepPlan) -> Iterator[Event]:
    """The segments of a step."""
    for called in run.segments:
        row = plan.segments[called.number]
        args = {"engine": row.engine, "nodes": row.nodes, "bytes read": row.reads, "bytes given": row.gives}
        yield _slice(_track(called), f"{row.name} {row.engine}", called.start, called.seconds, args)


def _track(called: SegmentRun) -> str:
    """The track of a segment: another one where it ran beside the others."""
    return "segments" if called.waited is None else "communication"


def _crossing(run: Run, plan: StepPlan, numbers: Iterator[int]) -> Iterator[Event]:
    """An arrow for each value that crosses, from the end of the segment that computed it to one that reads it."""
    ran = {called.number: called for called in run.segments}
    for row in plan.crossing:
        for source, target in product(row.made, row.read):
            if source in ran and target in ran:
                args = {"type": row.type, "bytes": row.bytes}
                common = {"name": name_text(f"%{row.value}"), "cat": "crossing", "id": next(numbers), "args": args}
                yield {**common, "ph": "s", **_track_and_time(ran[source], ran[source].seconds)}
                yield {**common, "ph": "f", "bp": "e", **_track_and_time(ran[target], 0.0)}


def _track_and_time(called: SegmentRun, after: float) -> Event:
    """The track of a segment, and the time some seconds after its start."""
    return {"pid": PROCESS, "tid": TRACKS.index(_track(called)) + 1, "ts": round(1e6 * (called.start + after), 3)}


def _kernel(kernel: Kernel, engine: str, is_beside: bool) -> Event:
    ran = {"engine": engine} if engine else {}
    track = "communication" if is_beside else "kernels"
    node = kernel.node
    if node is None:
        args = {"operator": kernel.operator, **ran}
        return _slice(track, kernel.operator, kernel.start, kernel.seconds, args)
    args = {
        "node": name_of(node),
        "operator": kernel.operator,
        "cell": name_text(node.scope, 200),
        "phase": node.phase,
        "line": line_of(node),
        "inputs": ", ".join(str(value.type) for value in node.inputs),
        "outputs": ", ".join(str(value.type) for value in node.outputs),
        **ran,
    }
    return _slice(track, node.primitive.name, kernel.start, kernel.seconds, args, node.phase)


def _leaves(kernels: Sequence[Kernel]) -> list[Kernel]:
    """The kernels in which no other one runs, and whose node is known."""
    following = [*kernels[1:], None]
    pairs = zip(kernels, following, strict=True)
    return [k for k, after in pairs if k.node and (after is None or after.start > k.start + k.seconds - ROUNDING)]


def _merged(track: str, kernels: Sequence[Kernel], path_of: Callable[[Node], list[str]]) -> Iterator[Event]:
    """Nested slices, one for each part of a path as long as kernels in a row share it."""
    active: list[tuple[str, float]] = []
    end = 0.0
    for kernel in kernels:
        assert kernel.node is not None
        path = path_of(kernel.node)
        same = next((i for i, (a, b) in enumerate(zip(active, path, strict=False)) if a[0] != b), len(path))
        yield from _closed(track, active, same, end)
        active += [(part, kernel.start) for part in path[len(active) :]]
        end = kernel.start + kernel.seconds
    yield from _closed(track, active, 0, end)


def _closed(track: str, active: list[tuple[str, float]], left: int, end: float) -> Iterator[Event]:
    while len(active) > left:
        name, start = active.pop()
        yield _slice(track, name_text(name), start, end - start, {})
