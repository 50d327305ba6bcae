"""Calls outside of a trace: cached steps of cells and functions, `jit`, and single operations."""

from graphls.frontend.tensors.vocabulary import register as _register_functions
from graphls.frontend.trace.compiler import register as _register
from graphls.step.calling import cache as _cache
from graphls.step.calling.grouped import compute_together as _compute_together
from graphls.step.calling.operators import computed_by as _computed_by

_register(_cache)
_register_functions(computed_by=_computed_by, compute_together=_compute_together)
