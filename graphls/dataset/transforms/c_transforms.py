"""MindSpore 1's path to the operations on columns of any kind."""

from graphls.dataset.transforms.operations import (
    Compose,
    Concatenate,
    Duplicate,
    Fill,
    Mask,
    OneHot,
    PadEnd,
    RandomApply,
    RandomChoice,
    Relational,
    Slice,
    TensorOperation,
    TypeCast,
    Unique,
)  # fmt: skip

__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "Mask", "OneHot", "PadEnd", "RandomApply", "RandomChoice",
    "Relational", "Slice", "TensorOperation", "TypeCast", "Unique",
]  # fmt: skip
