"""Labels as vectors, and comparisons."""

from __future__ import annotations

import operator as operators
from enum import IntEnum
from typing import Any

import numpy as np

from graphls.dataset.transforms.arrays import checked_value, does_not_fit, is_text
from graphls.dataset.transforms.checks import choice, integer, number
from graphls.dataset.transforms.checks import dtype as checked_dtype
from graphls.dataset.transforms.operation import TensorOperation


class OneHot(TensorOperation):
    """Labels (), (N,) or (N, 1) as vectors of `num_classes`: (num_classes,) or (N, num_classes), of the labels' dtype.

    With a `smoothing_rate` above 0 a label's class has 1 - rate and every class rate / num_classes more, in float64.
    Raises GraphTypeError, GraphValueError, or GraphRuntimeError for labels that are no integers or no class.
    """

    def __init__(self, num_classes: int, smoothing_rate: float = 0.0) -> None:
        self.num_classes = integer("num_classes", num_classes, 1)
        self.smoothing_rate = number("smoothing_rate", smoothing_rate, 0, 1)

    def apply(self, column: Any) -> Any:
        if column.dtype.kind not in "iu" or column.ndim > 2 or (column.ndim == 2 and column.shape[1] != 1):
            raise does_not_fit(self, f"takes integers of (), (N,) or (N, 1), not {column.dtype} of {column.shape}")
        labels = column.reshape(-1) if column.ndim else column
        if labels.size and not 0 <= labels.min() <= labels.max() < self.num_classes:
            raise does_not_fit(self, f"of {self.num_classes} classes takes no label {labels.tolist()}")
        chosen = np.arange(self.num_classes) == labels[..., None]
        if self.smoothing_rate == 0:
            return chosen.astype(column.dtype)
        return chosen * (1 - self.smoothing_rate) + self.smoothing_rate / self.num_classes


class Relational(IntEnum):
    """A comparison."""

    EQ = 0
    NE = 1
    GT = 2
    GE = 3
    LT = 4
    LE = 5


class Mask(TensorOperation):
    """Whether each element of a column compares to `constant` as `operator` says, in `dtype`.

    The constant is taken in the column's dtype. Raises GraphTypeError, or GraphRuntimeError for a string in a column of
    numbers, or a number in one of strings.
    """

    def __init__(self, operator: Relational, constant: Any, dtype: Any = np.bool_) -> None:
        self.operator = choice("operator", operator, Relational)
        self.constant = checked_value("constant", constant)
        self.dtype = checked_dtype("dtype", dtype)

    def apply(self, column: Any) -> Any:
        if is_text(column.dtype) != isinstance(self.constant, (str, bytes)):
            raise does_not_fit(self, f"compares no {self.constant!r} to a column of {column.dtype}")
        constant = self.constant if is_text(column.dtype) else np.array(self.constant).astype(column.dtype)
        return getattr(operators, self.operator.name.lower())(column, constant).astype(self.dtype)
