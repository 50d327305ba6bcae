"""Profiles of the time and the memory of a step, by node, primitive, cell, phase and segment; see docs/profiling.md.

A plain `import graphls` does not load this package, and a step that is not profiled has no cost from it.
"""

from graphls.inspect.profile.memory import Held, Memory
from graphls.inspect.profile.profile import Profile
from graphls.inspect.profile.shares import CellTime, NodeTime, PhaseTime, PrimitiveTime
from graphls.runtime.kernels import Kernel, Run

__all__ = ["CellTime", "Held", "Kernel", "Memory", "NodeTime", "PhaseTime", "PrimitiveTime", "Profile", "Run"]
