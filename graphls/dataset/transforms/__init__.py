"""Operations on columns of any kind, for `map`, as MindSpore's `dataset.transforms` has them."""

from graphls.dataset.transforms.arrays import Concatenate, Duplicate, Fill, PadEnd, Slice, Unique
from graphls.dataset.transforms.choices import Compose, RandomApply, RandomChoice, RandomOrder
from graphls.dataset.transforms.labels import Mask, OneHot, Relational
from graphls.dataset.transforms.operation import PyTensorOperation, TensorOperation
from graphls.dataset.transforms.type_cast import TypeCast

__all__ = [
    "Compose",
    "Concatenate",
    "Duplicate",
    "Fill",
    "Mask",
    "OneHot",
    "PadEnd",
    "PyTensorOperation",
    "RandomApply",
    "RandomChoice",
    "RandomOrder",
    "Relational",
    "Slice",
    "TensorOperation",
    "TypeCast",
    "Unique",
]
