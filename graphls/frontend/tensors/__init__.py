"""Tensors and parameters: what they hold, and where an operation on them goes."""

from graphls.frontend.tensors.dispatch import apply

__all__ = ["apply"]
