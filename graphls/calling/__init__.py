"""Calls outside of a trace: the steps that are kept for a cell or function, `jit`, and single operations."""

from graphls.calling import cache as _cache
from graphls.calling.operators import computed_by as _computed_by
from graphls.calling.together import compute_together as _compute_together
from graphls.tensors.vocabulary import register as _register_functions
from graphls.trace.compiler import register as _register

_register(_cache)
_register_functions(computed_by=_computed_by, compute_together=_compute_together)
