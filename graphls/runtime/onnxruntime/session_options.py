"""Options of ONNX Runtime sessions: the number of threads, and the memory arena that sessions on a CPU share."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from graphls.runtime.threads import thread_limit

CPUS = Path("/sys/devices/system/cpu")
"""The folder in which Linux lists the processors of each core."""


def threads() -> int:
    """The number of cores that this process may use, or 0 where it may use all, which leaves it to the runtime.

    The runtime counts all cores of the machine, even those that `taskset`, a scheduler or `mpiexec` exclude. The
    context may limit the number further.
    """
    processors, limit = set(range(os.cpu_count() or 1)), thread_limit()
    allowed: set[int] = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else processors
    if len(allowed) >= len(processors) and not limit:
        return 0
    count = len(set(map(_core, allowed)))
    return min(count, limit or count)


def _core(processor: int) -> str:
    """The processors of the core of a processor, as text; the processor alone where the system lists none."""
    try:
        return (CPUS / f"cpu{processor}/topology/thread_siblings_list").read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return str(processor)


SPIN_MICROSECONDS = 200
"""The time for which threads look for more work after a run: longer than from step to step, shorter than a decoding."""


def release_cores(options: Any) -> None:
    """Let threads of a session sleep soon after a run, where the runtime can do that (1.32); else this has no effect.

    By default they look for work for many milliseconds. In a loop that waits for data, these are the cores that decode
    the data: with two cores, one worker and JPEG files, an epoch took 1.7 times as long.
    """
    options.add_session_config_entry("session.intra_op.spin_duration_us", str(SPIN_MICROSECONDS))


@cache
def has_common_arena(runtime: Any) -> bool:
    """Whether sessions can share an arena, which the first call creates; it lives as long as the process.

    A session keeps all memory that it has allocated, so that each segment of a plan would keep its own peak.
    """
    native = runtime.capi._pybind_state
    try:
        kind = native.OrtAllocatorType.ORT_ARENA_ALLOCATOR
        memory = native.OrtMemoryInfo("Cpu", kind, 0, native.OrtMemType.DEFAULT)
        runtime.create_and_register_allocator(memory, native.OrtArenaCfg(0, -1, -1, -1))
    except (AttributeError, RuntimeError):  # a build without it, or one in which a script has registered its own
        return False
    return True


def take_turns(options: Any, runtime: Any, is_cpu: bool = True) -> None:
    """Set the options of a session that runs in turn with others: it shares the arena, and its threads do not spin.

    Threads that look for work after the end of a run would take the cores of the next session.
    """
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if is_cpu and has_common_arena(runtime):
        options.add_session_config_entry("session.use_env_allocators", "1")
