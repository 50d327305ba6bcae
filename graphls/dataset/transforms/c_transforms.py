"""MindSpore 1's import path of the operations on columns of any kind."""

# ruff: noqa: F403, F405
from graphls.dataset.transforms.operations import *

__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "Mask", "OneHot", "PadEnd", "RandomApply", "RandomChoice",
    "Relational", "Slice", "TensorOperation", "TypeCast", "Unique",
]  # fmt: skip
