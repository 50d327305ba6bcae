"""Calls outside of a trace: the steps that are kept for a cell or function, `jit`, and single operations."""

from graphls.calling import cache as _cache
from graphls.calling.operators import compute as _compute
from graphls.tensors.vocabulary import register as _register_functions
from graphls.trace.compiler import register as _register

_register(_cache)
_register_functions(compute=_compute)
