"""`mindspore.mint.linalg`: norms, inverses and factors of matrices, in the manner of PyTorch."""

from __future__ import annotations

from graphls.compat.torch_names import offering

__getattr__, __all__ = offering("mint.linalg")
