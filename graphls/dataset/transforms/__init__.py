"""Operations on columns of any kind, for `map`, as MindSpore's `dataset.transforms` has them."""

from graphls.dataset.transforms.operations import (
    Compose,
    Concatenate,
    Duplicate,
    Fill,
    Mask,
    OneHot,
    PadEnd,
    PyTensorOperation,
    RandomApply,
    RandomChoice,
    RandomOrder,
    Relational,
    Slice,
    TensorOperation,
    TypeCast,
    Unique,
)  # fmt: skip  # fmt: skip

__all__ = [
    "Compose", "Concatenate", "Duplicate", "Fill", "Mask", "OneHot", "PadEnd", "PyTensorOperation", "RandomApply",
    "RandomChoice", "RandomOrder", "Relational", "Slice", "TensorOperation", "TypeCast", "Unique",
]  # fmt: skip
