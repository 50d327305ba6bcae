"""`mindspore.mint.special`: special functions with the arguments of PyTorch, over those of `graphls.ops`."""

from __future__ import annotations

from graphls.base.reporting import guard_functions
from graphls.compat.argument_names import offering

__getattr__, __all__ = offering("mint.special")


guard_functions(globals())
