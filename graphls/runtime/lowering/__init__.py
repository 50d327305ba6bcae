"""Graphs as ONNX models: `lower(graph)`."""

from graphls.runtime.lowering.lowering import Lowered, lower

__all__ = ["Lowered", "lower"]
