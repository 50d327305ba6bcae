"""Pipelines: nodes that make rows of the rows of other nodes, and what runs them, ahead of the training step."""

from graphls.dataset.pipeline import batch, functions, selection

__all__ = ["batch", "functions", "selection"]
