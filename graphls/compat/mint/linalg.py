"""`mindspore.mint.linalg`: norms, inverses and factorisations of matrices, with the arguments of PyTorch."""

from __future__ import annotations

from graphls.base.reporting import guard_functions
from graphls.compat.argument_names import offering

__getattr__, __all__ = offering("mint.linalg")


guard_functions(globals())
