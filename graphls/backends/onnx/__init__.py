"""Graphs as ONNX models: `lower(graph)`."""

from graphls.backends.onnx.lowering import Lowered, lower

__all__ = ["Lowered", "lower"]
