"""`mindspore.mint.linalg`: norms, inverses and factors of matrices, in the manner of PyTorch."""

from __future__ import annotations

from graphls.compat.torch_names import offering
from graphls.ir.reporting import guard_functions

__getattr__, __all__ = offering("mint.linalg")


guard_functions(globals())
