"""The tracer that is running, as rooms from here up know it; those below know less of it (`tensors/executor.py`)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from graphls.tensors.executor import executor
from graphls.trace.tracer import Tracer


def current_tracer() -> Tracer | None:
    """The tracer that is running in this thread, if one is."""
    here = executor()
    return here if isinstance(here, Tracer) else None


def in_phase(name: str) -> AbstractContextManager[Any]:
    """What is traced inside belongs to a phase of the step."""
    tracer = current_tracer()
    return tracer.phase(name) if tracer is not None else nullcontext()
