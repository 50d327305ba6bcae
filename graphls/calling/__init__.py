"""Calls outside of a trace: the steps that are kept for a cell or function, and `jit`."""

from graphls.calling import cache as _cache
from graphls.trace.compiler import register as _register

_register(_cache)
