"""The memory arena shared by the sessions of plans, which run one after the other."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def has_common_arena(runtime: Any) -> bool:
    """Whether sessions can share an arena, which is made at the first call; it stays as long as the process.

    A session keeps what it once took, so that each segment of a plan would hold its own peak.
    """
    native = runtime.capi._pybind_state
    try:
        kind = native.OrtAllocatorType.ORT_ARENA_ALLOCATOR
        place = native.OrtMemoryInfo("Cpu", kind, 0, native.OrtMemType.DEFAULT)
        runtime.create_and_register_allocator(place, native.OrtArenaCfg(0, -1, -1, -1))
    except (AttributeError, RuntimeError):  # a build without it, or one in which a script has registered its own
        return False
    return True
