"""The number of threads of a session."""

from __future__ import annotations

import os
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
"""Where Linux tells which processors are one core."""


def threads() -> int:
    """The cores that this process may use, or 0 where it may use all, which leaves the number to the runtime.

    The runtime counts the cores of the machine, also those that `taskset`, a scheduler or `mpiexec` keep from it.
    """
    allowed: set[int] = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
    if not allowed or len(allowed) >= (os.cpu_count() or 1):
        return 0
    return len({_core(number) for number in allowed})


def _core(processor: int) -> str:
    """The processors of a core, one of which is given; by itself where the system does not tell."""
    try:
        return (CPUS / f"cpu{processor}/topology/thread_siblings_list").read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return str(processor)
