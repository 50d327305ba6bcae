"""Calls outside of a trace: cached steps of cells and functions, `jit`, and single operations."""

from graphls.frontend.registry import register as _register
from graphls.frontend.registry import register_compiler as _register_compiler
from graphls.step.calling import cache as _cache
from graphls.step.calling.grouped import compute_together as _compute_together
from graphls.step.calling.operators import computed_by as _computed_by

_register_compiler(_cache)
_register(computed_by=_computed_by, compute_together=_compute_together)
