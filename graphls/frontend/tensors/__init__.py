"""Tensors and parameters: their data, and the dispatch of operations on them."""

from graphls.frontend.tensors.dispatch import apply

__all__ = ["apply"]
