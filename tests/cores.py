"""Processes that tests start on one core: threads that wait for each other there take what other tests need.

Small steps take twice the processor's time where a runtime has a thread for each of two cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

NUMBER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
"""Which of the processes that test this is, so that their children are on different cores."""


@contextmanager
def one_core() -> Iterator[None]:
    """Let processes that the block starts run on one core, where the system can, and so compute on one thread."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {allowed[NUMBER % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
