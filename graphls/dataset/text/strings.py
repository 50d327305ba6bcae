"""Operations on strings and sequences of them: normal forms, regular expressions, truncation, n-grams, numbers."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from enum import IntEnum
from itertools import accumulate
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.dataset.checks import DTypeLike, boolean, choice, integer, number_dtype, string
from graphls.dataset.transforms.operations import TensorOperation, as_column, does_not_fit

__all__ = [
    "AddToken", "CaseFold", "Ngram", "NormalizeForm", "NormalizeUTF8", "RegexReplace", "SlidingWindow", "ToNumber",
    "Truncate", "TruncateSequencePair", "to_bytes", "to_str",
]  # fmt: skip

Strings = np.ndarray[Any, Any]
Span = tuple[int, int]  # of characters, the second one excluded
Token = tuple[str, int, int]  # its text, and the offsets in UTF-8 of its first byte and after its last one


class TextOperation(TensorOperation):
    """An operation on a column of strings; raises GraphRuntimeError for other columns."""

    def prepare(self, column: object) -> Any:
        array = super().prepare(column)
        if array.dtype.kind != "U":
            raise does_not_fit(self, f"takes strings, not {array.dtype}; use text.to_str for bytes")
        return array


class EachString(TextOperation):
    """An operation on each string of a column by itself; subclasses define `of(text)`."""

    def apply(self, column: Strings) -> Any:
        texts = [self.of(str(text)) for text in column.reshape(-1)]
        return np.array(texts, np.str_).reshape(column.shape)

    def of(self, text: str) -> str:
        """The result for one string."""
        raise NotImplementedError


class Tokenizer(TextOperation):
    """An operation that splits one string () into tokens; subclasses define `spans(text)`.

    Returns strings (N,), N at least 1: an empty string has one empty token. With `with_offsets` returns a tuple with
    the offsets of the first byte of each token in UTF-8 and of the byte after its last one, uint32 of (N,).
    """

    def __init__(self, with_offsets: bool = False) -> None:
        self.with_offsets = boolean("with_offsets", with_offsets)

    def apply(self, column: Strings) -> Any:
        text = str(one_string(self, column))
        if not self.with_offsets:
            return np.array([text[start:end] for start, end in self.spans(text)] or [""], np.str_)
        return token_columns(tokens_at(text, self.spans(text)))

    def spans(self, text: str) -> list[Span]:
        """The spans of the tokens in a string."""
        raise NotImplementedError


def one_string(operation: object, column: Strings) -> Any:
    """The only string of a column of (); raises GraphRuntimeError for others."""
    if column.ndim:
        raise does_not_fit(operation, f"takes one string, not a column of shape {column.shape}")
    return column.item()


def byte_offsets(text: str) -> list[int]:
    """The offset in UTF-8 of each character, and of the end."""
    return list(accumulate((len(character.encode("utf-8", "surrogatepass")) for character in text), initial=0))


def tokens_at(text: str, spans: Sequence[Span]) -> list[Token]:
    """The tokens at some spans of a string, with their offsets in UTF-8; an empty one without spans."""
    offsets = range(len(text) + 1) if text.isascii() else byte_offsets(text)
    return [(text[start:end], offsets[start], offsets[end]) for start, end in spans or [(0, 0)]]


def token_columns(tokens: Sequence[Token]) -> Any:
    """A tuple of strings (N,) and the offsets where they start and end, uint32 of (N,)."""
    strings = np.array([token[0] for token in tokens], np.str_)
    return strings, *(np.array([token[side] for token in tokens], np.uint32) for side in (1, 2))


def to_str(array: object, encoding: str = "utf8") -> Strings:
    """An array of bytes as strings; strings stay.

    Raises GraphTypeError for anything but an array of them, GraphValueError for bytes that are invalid in the encoding.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> text.to_str(np.array([b"day"]))
        array(['day'], dtype='<U3')
    """
    return _coded(array, encoding, "U", np.char.decode)


def to_bytes(array: object, encoding: str = "utf8") -> Strings:
    """An array of strings as bytes; bytes stay.

    Raises GraphTypeError for anything but an array of them, GraphValueError for characters that the encoding lacks.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> text.to_bytes(np.array(["day"]))
        array([b'day'], dtype='|S3')
    """
    return _coded(array, encoding, "S", np.char.encode)


def _coded(array: object, encoding: str, kind: str, convert: Callable[[Strings, str], Strings]) -> Strings:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "SU":
        raise GraphTypeError("to_str and to_bytes take an array of strings or bytes.")
    string("encoding", encoding)
    try:
        return np.asarray(array if array.dtype.kind == kind else convert(array, encoding))
    except (UnicodeError, LookupError) as error:
        raise GraphValueError(f"The text cannot be converted: {error}.") from None


class NormalizeForm(IntEnum):
    """A normal form of Unicode.

    Examples:
        >>> from graphls.dataset import text
        >>> text.NormalizeForm.NFC
        <NormalizeForm.NFC: 1>
    """

    NONE = 0
    NFC = 1
    NFKC = 2
    NFD = 3
    NFKD = 4


def normalized(text: str, form: NormalizeForm) -> str:
    """A string in a normal form."""
    if form == NormalizeForm.NONE:
        return text
    return unicodedata.normalize(form.name, text)  # type: ignore[arg-type]


def folded(text: str) -> str:
    """A string in lower case for comparisons, in NFKC, without invisible characters (NFKC_Casefold)."""
    if text.isascii():
        return text.lower()
    return _UNSEEN.sub("", normalized(normalized(text, NormalizeForm.NFKC).casefold(), NormalizeForm.NFKC))


_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""The characters that Unicode calls default ignorable."""


class CaseFold(EachString):
    """Each string in lower case as Unicode folds cases, which is more than ASCII: ẞ becomes ss.

    Examples:
        >>> from graphls.dataset import text
        >>> str(text.CaseFold()("Straße"))
        'strasse'
    """

    def of(self, text: str) -> str:
        return folded(text)


class NormalizeUTF8(EachString):
    """Each string in a normal form; raises GraphTypeError for anything but a NormalizeForm.

    Examples:
        >>> from graphls.dataset import text
        >>> str(text.NormalizeUTF8()("ﬁne"))
        'fine'
    """

    def __init__(self, normalize_form: NormalizeForm = NormalizeForm.NFKC) -> None:
        self.normalize_form = choice("normalize_form", normalize_form, NormalizeForm)

    def of(self, text: str) -> str:
        return normalized(text, self.normalize_form)


HAN = "\u2e80-\u2fd5\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"


def compiled(name: str, value: object) -> re.Pattern[str]:
    r"""A pattern of Python's `re`, where `\p{Han}` is a Chinese character; raises GraphValueError for others."""
    text = string(name, value).replace(r"\p{Han}", f"[{HAN}]")
    try:
        return re.compile(text)
    except re.error as error:
        raise GraphValueError(f"{name} {value!r} is not a regular expression: {error}.") from None


class RegexReplace(EachString):
    """Each string with the matches of a pattern replaced, all or the first one; $1 is the first group.

    Raises GraphTypeError, or GraphValueError for an invalid pattern or replacement.

    Examples:
        >>> from graphls.dataset import text
        >>> str(text.RegexReplace("[0-9]+", "#")("room 101"))
        'room #'
    """

    def __init__(self, pattern: str, replace: str, replace_all: bool = True) -> None:
        self._pattern = compiled("pattern", pattern)
        self._replacement = re.sub(r"\$(\d+)", r"\\g<\1>", string("replace", replace).replace("\\", r"\\"))
        self.replace_all = boolean("replace_all", replace_all)

    def of(self, text: str) -> str:
        try:
            return self._pattern.sub(self._replacement, text, 0 if self.replace_all else 1)
        except re.error as error:
            raise GraphValueError(f"The replacement does not fit the pattern: {error}.") from None


class Truncate(TensorOperation):
    """The first `max_seq_len` elements of the last axis, of one or two.

    Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> text.Truncate(2)(np.array([1, 2, 3]))
        array([1, 2])
    """

    def __init__(self, max_seq_len: int) -> None:
        self.max_seq_len = integer("max_seq_len", max_seq_len, 1)

    def apply(self, column: Strings) -> Any:
        if column.ndim not in (1, 2):
            raise does_not_fit(self, f"takes a column of one or two axes, not of {column.shape}")
        return column[..., : self.max_seq_len]


class TruncateSequencePair:
    """Two sequences cut so that together they have at most `max_length` elements.

    The longer one is cut first, of two equal ones the second. Raises GraphTypeError, GraphValueError or, for columns of
    another number of axes, GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> text.TruncateSequencePair(4)(np.array([1, 2, 3, 4]), np.array([5, 6]))
        (array([1, 2]), array([5, 6]))
    """

    def __init__(self, max_length: int) -> None:
        self.max_length = integer("max_length", max_length, 0)

    def __call__(self, first: object, second: object) -> tuple[Strings, Strings]:
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
    """A token before or after the strings of the last of one or two axes.

    Raises GraphTypeError, or GraphRuntimeError for a column of other axes.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> text.AddToken("[CLS]")(np.array(["no", "way"]))
        array(['[CLS]', 'no', 'way'], dtype='<U5')
    """

    def __init__(self, token: str, begin: bool = True) -> None:
        self.token, self.begin = string("token", token), boolean("begin", begin)

    def apply(self, column: Strings) -> Any:
        if column.ndim not in (1, 2):
            raise does_not_fit(self, f"takes a column of one or two axes, not of {column.shape}")
        tokens = np.full((*column.shape[:-1], 1), self.token)
        return np.concatenate([tokens, column] if self.begin else [column, tokens], -1)


class Ngram(TextOperation):
    """Each `n` strings of one axis that follow each other, joined by `separator`; for each n of a list.

    `left_pad` and `right_pad` are (string, count): as many strings before and after, at most n - 1. Where there are
    too few strings, the only one is "". Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> text.Ngram(2)(np.array(["a", "fine", "day"]))
        array(['a fine', 'fine day'], dtype='<U8')
    """

    def __init__(
        self, n: int | Sequence[int], left_pad: tuple[str, int] = ("", 0), right_pad: tuple[str, int] = ("", 0),
        separator: str = " ",
    ) -> None:  # fmt: skip
        sizes = n if isinstance(n, (list, tuple)) else [n]
        if isinstance(n, str) or not sizes:
            raise GraphValueError(f"n is an integer of 1 or more or a list of them, not {n!r}.")
        self.n = [integer("n", size, 1) for size in sizes]
        self.left_pad, self.right_pad = _pad("left_pad", left_pad), _pad("right_pad", right_pad)
        self.separator = string("separator", separator)

    def apply(self, column: Strings) -> Any:
        if column.ndim != 1:
            raise does_not_fit(self, f"takes strings of one axis, not of {column.shape}")
        words = [str(word) for word in column]
        return np.array([gram for size in self.n for gram in self._grams(words, size)], np.str_)

    def _grams(self, words: list[str], size: int) -> list[str]:
        (left, before), (right, after) = self.left_pad, self.right_pad
        wide = [left] * min(before, size - 1) + words + [right] * min(after, size - 1)
        grams = [self.separator.join(wide[start : start + size]) for start in range(len(wide) - size + 1)]
        return grams or [""]


def _pad(name: str, value: object) -> tuple[str, int]:
    if not isinstance(value, tuple) or [type(part) for part in value] != [str, int]:
        raise GraphValueError(f"{name} is a tuple of a string and a count, not {value!r}.")
    return value[0], integer(name, value[1], 0)


class SlidingWindow(TensorOperation):
    """Each `width` elements of the only axis that follow each other: (N,) becomes (N - width + 1, width).

    Returns (0, width) where there are fewer. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> text.SlidingWindow(2)(np.array([1, 2, 3]))
        array([[1, 2],
               [2, 3]])
    """

    def __init__(self, width: int, axis: int = 0) -> None:
        self.width, self.axis = integer("width", width, 1), integer("axis", axis)

    def apply(self, column: Strings) -> Any:
        if column.ndim != 1 or self.axis not in (0, -1):
            raise does_not_fit(self, f"along the axis {self.axis} takes a column of one axis, not of {column.shape}")
        if len(column) < self.width:
            return np.empty((0, self.width), column.dtype)
        return np.lib.stride_tricks.sliding_window_view(column, self.width).copy()


class ToNumber(TextOperation):
    """Strings as numbers of `data_type`.

    Raises GraphTypeError for a dtype that is not numeric, GraphRuntimeError for a string that is not a number, or not
    in the range of the dtype.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> text.ToNumber(np.int32)(np.array(["1", "20"]))
        array([ 1, 20], dtype=int32)
    """

    def __init__(self, data_type: DTypeLike) -> None:
        self.data_type = number_dtype("data_type", data_type)

    def apply(self, column: Strings) -> Any:
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
