"""MindSpore 1's path to the operations on columns of any kind."""

from graphls.dataset.transforms.arrays import Concatenate, Duplicate, Fill, PadEnd, Slice, Unique
from graphls.dataset.transforms.choices import Compose, RandomApply, RandomChoice
from graphls.dataset.transforms.labels import Mask, OneHot, Relational
from graphls.dataset.transforms.operation import TensorOperation
from graphls.dataset.transforms.type_cast import TypeCast

__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "Mask", "OneHot", "PadEnd", "RandomApply", "RandomChoice",
    "Relational", "Slice", "TensorOperation", "TypeCast", "Unique",
]  # fmt: skip
