"""Where the time and the memory of a step go; see docs/profiling.md.

A plain `import graphls` leaves this package alone, and a step that is not profiled pays nothing for it.
"""

from graphls.inspect.profile.memory import Held, Memory
from graphls.inspect.profile.profile import Profile
from graphls.inspect.profile.shares import CellTime, NodeTime, PhaseTime, PrimitiveTime
from graphls.runtime.kernels import Kernel, Run

__all__ = ["CellTime", "Held", "Kernel", "Memory", "NodeTime", "PhaseTime", "PrimitiveTime", "Profile", "Run"]
