"""Where the time and the memory of a step go; see docs/profiling.md.

A plain `import graphls` leaves this package alone, and a step that is not profiled pays nothing for it.
"""

from graphls.backends.kernels import Kernel, Run
from graphls.profile.memory import Held, Memory
from graphls.profile.profile import Profile
from graphls.profile.shares import CellTime, NodeTime, PhaseTime, PrimitiveTime

__all__ = ["CellTime", "Held", "Kernel", "Memory", "NodeTime", "PhaseTime", "PrimitiveTime", "Profile", "Run"]
