"""Sequences of tokens: cut, extended, joined in windows; and strings as numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.dataset.checks import boolean, integer, number_dtype, string
from graphls.dataset.text.strings import Strings, TextOperation
from graphls.dataset.transforms.columns import does_not_fit
from graphls.dataset.transforms.operation import TensorOperation, as_column
from graphls.ir.errors import GraphValueError


class Truncate(TensorOperation):
    """The first `max_seq_len` elements of the last axis, of one or two; raises GraphTypeError, GraphValueError or
    GraphRuntimeError."""

    def __init__(self, max_seq_len: int) -> None:
        self.max_seq_len = integer("max_seq_len", max_seq_len, 1)

    def apply(self, column: Any) -> Any:
        if column.ndim not in (1, 2):
            raise does_not_fit(self, f"takes a column of one or two axes, not of {column.shape}")
        return column[..., : self.max_seq_len]


class TruncateSequencePair:
    """Two sequences cut so that together they have at most `max_length` elements; the longer one is cut first, of two
    equal ones the second.

    Raises GraphTypeError, GraphValueError or, for columns of another number of axes, GraphRuntimeError.
    """

    def __init__(self, max_length: int) -> None:
        self.max_length = integer("max_length", max_length, 0)

    def __call__(self, first: Any, second: Any) -> tuple[Strings, Strings]:
        first, second = as_column(first), as_column(second)
        if first.ndim != 1 or second.ndim != 1:
            raise does_not_fit(self, f"takes two columns of one axis, not of {first.shape} and {second.shape}")
        shorter = min(len(first), len(second))
        half = self.max_length // 2
        if shorter <= half:
            longest = self.max_length - shorter
            return first[:longest], second[:longest]
        return first[: self.max_length - half], second[:half]


class AddToken(TextOperation):
    """A token before or behind the strings of the last of one or two axes.

    Raises GraphTypeError, or GraphRuntimeError for a column of other axes.
    """

    def __init__(self, token: str, begin: bool = True) -> None:
        self.token, self.begin = string("token", token), boolean("begin", begin)

    def apply(self, column: Any) -> Any:
        if column.ndim not in (1, 2):
            raise does_not_fit(self, f"takes a column of one or two axes, not of {column.shape}")
        tokens = np.full((*column.shape[:-1], 1), self.token)
        return np.concatenate([tokens, column] if self.begin else [column, tokens], -1)


class Ngram(TextOperation):
    """Each `n` strings of one axis that follow each other, joined by `separator`; for each n of a list.

    `left_pad` and `right_pad` are (string, count): as many strings before and behind, at most n - 1. Where there are
    too few strings, the only one is "". Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, n: Any, left_pad: Any = ("", 0), right_pad: Any = ("", 0), separator: str = " ") -> None:
        sizes = n if isinstance(n, (list, tuple)) else [n]
        if isinstance(n, str) or not sizes:
            raise GraphValueError(f"n is an integer of 1 or more or a list of them, not {n!r}.")
        self.n = [integer("n", size, 1) for size in sizes]
        self.left_pad, self.right_pad = _pad("left_pad", left_pad), _pad("right_pad", right_pad)
        self.separator = string("separator", separator)

    def apply(self, column: Any) -> Any:
        if column.ndim != 1:
            raise does_not_fit(self, f"takes strings of one axis, not of {column.shape}")
        words = [str(word) for word in column]
        return np.array([gram for size in self.n for gram in self._grams(words, size)], np.str_)

    def _grams(self, words: list[str], size: int) -> list[str]:
        (left, before), (right, behind) = self.left_pad, self.right_pad
        wide = [left] * min(before, size - 1) + words + [right] * min(behind, size - 1)
        grams = [self.separator.join(wide[start : start + size]) for start in range(len(wide) - size + 1)]
        return grams or [""]


def _pad(name: str, value: Any) -> tuple[str, int]:
    if not isinstance(value, tuple) or [type(part) for part in value] != [str, int]:
        raise GraphValueError(f"{name} is a tuple of a string and a number of times, not {value!r}.")
    return value[0], integer(name, value[1], 0)


class SlidingWindow(TensorOperation):
    """Each `width` elements of the only axis that follow each other: (N,) becomes (N - width + 1, width).

    Gives (0, width) where there are fewer. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, width: int, axis: int = 0) -> None:
        self.width, self.axis = integer("width", width, 1), integer("axis", axis)

    def apply(self, column: Any) -> Any:
        if column.ndim != 1 or self.axis not in (0, -1):
            raise does_not_fit(self, f"along the axis {self.axis} takes a column of one axis, not of {column.shape}")
        if len(column) < self.width:
            return np.empty((0, self.width), column.dtype)
        return np.lib.stride_tricks.sliding_window_view(column, self.width).copy()


class ToNumber(TextOperation):
    """Strings as numbers of `data_type`.

    Raises GraphTypeError for a dtype of no numbers, GraphRuntimeError for a string that is no number, or one that the
    dtype does not have.
    """

    def __init__(self, data_type: Any) -> None:
        self.data_type = number_dtype("data_type", data_type)

    def apply(self, column: Any) -> Any:
        numbers = [self._number(str(text)) for text in column.reshape(-1)]
        return np.array(numbers, self.data_type).reshape(column.shape)

    def _number(self, text: str) -> Any:
        try:
            number: Any = float(text) if self.data_type.kind == "f" else int(text)
        except ValueError:
            raise does_not_fit(self, f"makes no {self.data_type} of {text!r}") from None
        is_float = self.data_type.kind == "f"
        largest = float(np.finfo(self.data_type).max) if is_float else int(np.iinfo(self.data_type).max)
        least = -largest if is_float else int(np.iinfo(self.data_type).min)
        if abs(number) != float("inf") and not math.isnan(number) and not least <= number <= largest:
            raise does_not_fit(self, f"finds that {text!r} is outside of {self.data_type}")
        return number
