"""`if` on a traced bool: both branches are traced and merged into one `cond`."""

from __future__ import annotations

import opcode
from collections.abc import Callable
from typing import Any

from graphls.base.errors import GraphlsError, TraceError
from graphls.base.location import Location, is_own
from graphls.frontend.trace.branch_merge import BranchResult, merge_branches
from graphls.frontend.trace.calls import Fork, Frame
from graphls.frontend.trace.tracer import Tracer
from graphls.ir.graph import Value

MOST_PATHS = 64


def explore(
    tracer: Tracer, run: Callable[[], object], frame: Frame | None = None, count: list[int] | None = None
) -> Any:
    """The results of `run()`, with the branches of every condition on a traced bool merged into a `cond`."""
    frame = frame or Frame()
    count = count if count is not None else [1]
    start, records = len(tracer.writes), tracer.here.records[-1]
    known = len(records)
    try:
        with tracer.inside(frame=frame):
            results = run()
            _refuse_swallowed(tracer)
            return results
    except Fork as fork:
        tracer.fork = None
        count[0] += 1
        if count[0] > MOST_PATHS:
            raise TraceError(
                f"This construct takes more than {MOST_PATHS} paths through its conditions on tensors; "
                "use ops.where, ops.cond or ops.while_loop, or move conditions into cells of their own.",
                fork.loc,
            ) from None
        # Both branches start where this construct did; its actions before the condition are replayed from the record.
        tracer.forget_writes(start)
        inner_records = records[known:]
        del records[known:]
        results = _both(tracer, run, frame, fork, count)
        records += inner_records
        return results


def _refuse_swallowed(tracer: Tracer) -> None:
    """Raise TraceError where user code has caught the Fork and continued without a branch."""
    if tracer.fork is not None:
        fork, tracer.fork = tracer.fork, None
        text = "An `except` without a type catches what this condition raises while it is traced; name the exceptions."
        raise TraceError(text, fork.loc)


def _both(tracer: Tracer, run: Callable[[], object], frame: Frame, fork: Fork, count: list[int]) -> Any:
    def one(answer: bool) -> BranchResult:
        replay = frame.branch()
        return trace_branch(tracer, fork.condition, answer, fork.loc, lambda: explore(tracer, run, replay, count))

    return merge_branches(tracer, fork.condition, fork.loc, one(True), one(False))


def trace_branch(
    tracer: Tracer, condition: Value, answer: bool, loc: Location | None, run: Callable[[], object]
) -> BranchResult:
    """Trace one branch to its end, in a region of its own."""
    start = len(tracer.writes)
    try:
        with tracer.region(decided={**tracer.here.decided, condition: answer}, in_branch=True, shown=[]) as region:
            results = run()
            return BranchResult(region.builder, results, dict(tracer.writes[start:]), region.shown)
    except GraphlsError:
        raise
    except Exception as error:
        if _is_raised_by_user(error):
            raise _conditional(error, answer, loc) from error
        raise
    finally:
        tracer.forget_writes(start)


def _is_raised_by_user(error: Exception) -> bool:
    """Whether an error comes from a `raise` or an `assert` of the user, not from a fault in their code."""
    traceback: Any = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    code = traceback.tb_frame.f_code
    return not is_own(code.co_filename) and code.co_code[traceback.tb_lasti] == opcode.opmap["RAISE_VARARGS"]


def _conditional(error: Exception, answer: bool, loc: Location | None) -> TraceError:
    text = str(error)
    return TraceError(
        f"{type(error).__name__}{f' ({text})' if text else ''} is raised only where this condition on a tensor is "
        f"{answer}, and a compiled step cannot raise by what a tensor holds; return the condition and raise after the "
        "step.",
        loc,
    )
