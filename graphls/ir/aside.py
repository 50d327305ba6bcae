"""Which segments of a plan communicate while others compute."""

from __future__ import annotations

from graphls.ir.plan import Plan, Segment


def asides(plan: Plan) -> dict[int, int]:
    """The numbers of the segments that run beside those behind them, each with that of the first one that waits for it.

    Such a segment only communicates. What waits is what reads a result of it, and any other call of Python, as these
    keep their order. Where nothing would be computed meanwhile, a segment runs in its turn. All stand before the flag
    of the plan; where nothing before it waits for one, the number is that of the segments there.
    """
    found: dict[int, int] = {}
    for number, segment in enumerate(plan.before):
        if _communicates(segment):
            first = next((i for i in range(number + 1, len(plan.before)) if _waits(plan.before[i], segment)), None)
            end = len(plan.before) if first is None else first
            if not all(map(_communicates, plan.before[number + 1 : end])):
                found[number] = end
    return found


def _communicates(segment: Segment) -> bool:
    nodes = [node for node in segment.graph.nodes if not node.primitive.is_constant]
    return bool(nodes) and not segment.graph.states and all(node.primitive.is_collective for node in nodes)


def _waits(segment: Segment, earlier: Segment) -> bool:
    calls_python = any(node.primitive.calls_python for node in segment.graph.nodes)
    reads = not set(segment.graph.inputs).isdisjoint(earlier.gives)
    return reads or (calls_python and not _communicates(segment))
