"""`mindspore.mint.special`: special functions in the manner of PyTorch, over those of `graphls.ops`."""

from __future__ import annotations

from graphls.compat.torch_names import offering
from graphls.ir.reporting import guard_functions

__getattr__, __all__ = offering("mint.special")


guard_functions(globals())
