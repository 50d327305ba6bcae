"""Arrays of strings: what operations on text take, strings in one spelling, and regular expressions."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate
from typing import Any

import numpy as np

from graphls.dataset.checks import boolean, choice, string
from graphls.dataset.transforms.columns import does_not_fit
from graphls.dataset.transforms.operation import TensorOperation
from graphls.ir.errors import GraphTypeError, GraphValueError

Strings = np.ndarray[Any, Any]
Span = tuple[int, int]  # of characters, the second one excluded
Token = tuple[str, int, int]  # the places in UTF-8 of its first byte, and behind its last one


class TextOperation(TensorOperation):
    """An operation on a column of strings; raises GraphRuntimeError for other columns."""

    def prepare(self, column: Any) -> Any:
        array = super().prepare(column)
        if array.dtype.kind != "U":
            raise does_not_fit(self, f"takes strings, not {array.dtype}; use text.to_str for bytes")
        return array


class EachString(TextOperation):
    """An operation on each string of a column by itself; subclasses define `of(text)`."""

    def apply(self, column: Any) -> Any:
        texts = [self.of(str(text)) for text in column.reshape(-1)]
        return np.array(texts, np.str_).reshape(column.shape)

    def of(self, text: str) -> str:
        """What becomes of one string."""
        raise NotImplementedError


class Tokenizer(TextOperation):
    """An operation that takes one string () apart; subclasses define `spans(text)`.

    Gives strings (N,), N at least 1: an empty string has one empty token. With `with_offsets` gives a tuple with the
    places of the first byte of each token in UTF-8 and of the byte behind its last one, uint32 of (N,).
    """

    def __init__(self, with_offsets: bool = False) -> None:
        self.with_offsets = boolean("with_offsets", with_offsets)

    def apply(self, column: Any) -> Any:
        text = str(one_string(self, column))
        return token_columns(tokens_at(text, self.spans(text), self.with_offsets), self.with_offsets)

    def spans(self, text: str) -> list[Span]:
        """The places of the tokens in a string."""
        raise NotImplementedError


def one_string(operation: object, column: Strings) -> Any:
    """The only string of a column of (); raises GraphRuntimeError for others."""
    if column.ndim:
        raise does_not_fit(operation, f"takes one string, not a column of shape {column.shape}")
    return column.item()


def byte_places(text: str) -> list[int]:
    """The place in UTF-8 of each character, and behind the last one."""
    return list(accumulate((len(character.encode("utf-8", "surrogatepass")) for character in text), initial=0))


def tokens_at(text: str, spans: Sequence[Span], with_offsets: bool = True) -> list[Token]:
    """The tokens at some places of a string, with their places in UTF-8; an empty one where there is none."""
    places: Sequence[int] = byte_places(text) if with_offsets else range(len(text) + 1)
    return [(text[start:end], places[start], places[end]) for start, end in spans or [(0, 0)]]


def token_columns(tokens: Sequence[Token], with_offsets: bool) -> Any:
    """Strings (N,), or with offsets a tuple of these and the places where they start and end, uint32 of (N,)."""
    array = np.array([token[0] for token in tokens], np.str_)
    if not with_offsets:
        return array
    return array, *(np.array([token[side] for token in tokens], np.uint32) for side in (1, 2))


def to_str(array: Any, encoding: str = "utf8") -> Strings:
    """An array of bytes as strings; strings stay.

    Raises GraphTypeError for what is no array of them, GraphValueError for bytes that are none in that encoding.
    """
    return _coded(array, encoding, "U", np.char.decode)


def to_bytes(array: Any, encoding: str = "utf8") -> Strings:
    """An array of strings as bytes; bytes stay.

    Raises GraphTypeError for what is no array of them, GraphValueError for characters that the encoding lacks.
    """
    return _coded(array, encoding, "S", np.char.encode)


def _coded(array: Any, encoding: str, kind: str, convert: Any) -> Strings:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "SU":
        raise GraphTypeError("to_str and to_bytes take an array of strings or bytes.")
    string("encoding", encoding)
    try:
        return np.asarray(array if array.dtype.kind == kind else convert(array, encoding))
    except (UnicodeError, LookupError) as error:
        raise GraphValueError(f"The text cannot be converted: {error}.") from None


class NormalizeForm(IntEnum):
    """A normal form of Unicode."""

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
    """A string in lower case for comparisons, in NFKC, without characters that are not seen (NFKC_Casefold)."""
    return normalized(normalized(text, NormalizeForm.NFKC).casefold(), NormalizeForm.NFKC)


class CaseFold(EachString):
    """Each string in lower case as Unicode folds cases, which is more than ASCII: ẞ becomes ss."""

    def of(self, text: str) -> str:
        return folded(text)


class NormalizeUTF8(EachString):
    """Each string in a normal form; raises GraphTypeError for what is none."""

    def __init__(self, normalize_form: NormalizeForm = NormalizeForm.NFKC) -> None:
        self.normalize_form = choice("normalize_form", normalize_form, NormalizeForm)

    def of(self, text: str) -> str:
        return normalized(text, self.normalize_form)


HAN = "\u2e80-\u2fd5\u3005\u3007\u3021-\u3029\u3038-\u303b\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"


def compiled(name: str, value: Any) -> re.Pattern[str]:
    r"""A pattern of Python's `re`, where `\p{Han}` is a Chinese character; raises GraphValueError for what is none."""
    text = string(name, value).replace(r"\p{Han}", f"[{HAN}]")
    try:
        return re.compile(text)
    except re.error as error:
        raise GraphValueError(f"{name} {value!r} is no regular expression: {error}.") from None


class RegexReplace(EachString):
    """Each string with what a pattern matches replaced, all of it or the first match; $1 stands for the first group.

    Raises GraphTypeError, or GraphValueError for a pattern or a replacement that is none.
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
