"""A segment that calls Python, on the clock."""

from __future__ import annotations

from graphls.backends.host.part import HostPart
from graphls.backends.numpy.timed import TimedPart


class TimedHostPart(TimedPart, HostPart):
    """A segment whose calls are timed, one by one."""
