"""Pipelines: nodes that transform rows of other nodes, and their execution ahead of the training step."""

from graphls.dataset.pipeline import batch, functions, selection

__all__ = ["batch", "functions", "selection"]
