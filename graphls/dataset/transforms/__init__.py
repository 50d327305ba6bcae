"""Operations on columns of any kind, for `map`, as MindSpore's `dataset.transforms` has them."""

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
from graphls.dataset.transforms.operation import (
    Compose,
    PyTensorOperation,
    RandomApply,
    RandomChoice,
    RandomOrder,
    TensorOperation,
)  # fmt: skip

__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "Mask", "OneHot", "PadEnd", "PyTensorOperation", "RandomApply",
    "RandomChoice", "RandomOrder", "Relational", "Slice", "TensorOperation", "TypeCast", "Unique",
]  # fmt: skip
