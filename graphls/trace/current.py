"""The tracer that is running, as rooms from here up know it; those below know less of it (`tensors/executor.py`)."""

from __future__ import annotations

from graphls.tensors.executor import executor
from graphls.trace.tracer import Tracer


def current_tracer() -> Tracer | None:
    """The tracer that is running in this thread, if one is."""
    here = executor()
    return here if isinstance(here, Tracer) else None
