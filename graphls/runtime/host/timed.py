"""A profiled segment of Python calls."""

from __future__ import annotations

from graphls.runtime.host.part import HostPart
from graphls.runtime.numpy.timed import TimedPart


class TimedHostPart(TimedPart, HostPart):
    """A segment whose calls are timed, one by one."""
