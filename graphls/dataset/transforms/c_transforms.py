"""MindSpore 1's path to the operations on columns of any kind."""

from graphls.dataset.transforms.columns import (
    Concatenate,
    Duplicate,
    Fill,
    Mask,
    OneHot,
    PadEnd,
    Relational,
    Slice,
    TypeCast,
    Unique,
)  # fmt: skip
from graphls.dataset.transforms.operation import Compose, RandomApply, RandomChoice, TensorOperation

__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "Mask", "OneHot", "PadEnd", "RandomApply", "RandomChoice",
    "Relational", "Slice", "TensorOperation", "TypeCast", "Unique",
]  # fmt: skip
