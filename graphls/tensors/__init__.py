"""Tensors and parameters: what they hold, and where an operation on them goes."""
