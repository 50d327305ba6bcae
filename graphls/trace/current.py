"""The tracer that is running, as rooms from here up know it; those below know less of it (`tensors/executor.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from graphls.tensors import executor

if TYPE_CHECKING:
    from graphls.trace.tracer import Tracer

current_tracer = cast("Callable[[], Tracer | None]", executor.current_tracer)
"""The tracer that is running in this thread, if one is."""
