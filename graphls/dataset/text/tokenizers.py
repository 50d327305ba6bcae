"""Strings taken apart: at whitespace, characters, patterns, scripts, and as BERT does (Devlin et al. 2019)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import numpy as np

from graphls.dataset.checks import boolean, choice, instance, integer, string, type_error
from graphls.dataset.text.strings import (
    HAN,
    NormalizeForm,
    Span,
    Strings,
    TextOperation,
    Token,
    Tokenizer,
    byte_offsets,
    compiled,
    folded,
    normalized,
    one_string,
    token_columns,
    tokens_at,
)
from graphls.dataset.text.vocab import Vocab
from graphls.dataset.transforms.operations import does_not_fit

__all__ = [
    "BasicTokenizer", "BertTokenizer", "PythonTokenizer", "RegexTokenizer", "UnicodeCharTokenizer",
    "UnicodeScriptTokenizer", "WhitespaceTokenizer", "WordpieceTokenizer",
]  # fmt: skip


class WhitespaceTokenizer(Tokenizer):
    """The parts of a string between whitespace."""

    def spans(self, text: str) -> list[Span]:
        return [match.span() for match in re.finditer(r"\S+", text)]


class UnicodeCharTokenizer(Tokenizer):
    """The characters of a string."""

    def spans(self, text: str) -> list[Span]:
        return [(i, i + 1) for i in range(len(text))]


class UnicodeScriptTokenizer(Tokenizer):
    """The parts of a string at every change between writing systems, punctuation and whitespace.

    `keep_whitespace` keeps the last ones. The writing system of a letter is the first word of its Unicode name, so
    Chinese characters are one part, and Latin letters another; digits and signs such as + are one.
    """

    def __init__(self, keep_whitespace: bool = False, with_offsets: bool = False) -> None:
        super().__init__(with_offsets)
        self.keep_whitespace = boolean("keep_whitespace", keep_whitespace)

    def spans(self, text: str) -> list[Span]:
        found = _runs(text, _script)
        return [span for kind, span in found if self.keep_whitespace or kind != "whitespace"]


def _runs(text: str, kind_of: Callable[[str], str]) -> list[tuple[str, Span]]:
    """The longest parts of one kind each."""
    runs, start = [], 0
    for kind, group in groupby(text, kind_of):
        end = start + len(list(group))
        runs.append((kind, (start, end)))
        start = end
    return runs


def _script(character: str) -> str:
    if character.isspace():
        return "whitespace"
    category = unicodedata.category(character)
    if (category[0] == "P" and character != "!") or category[0] == "C":
        return "punctuation"
    if category[0] == "L":
        return unicodedata.name(character, "letter").split()[0]
    return "inherited" if category[0] == "M" else "common"


class RegexTokenizer(Tokenizer):
    """The parts of a string between what a pattern matches; a match that `keep_delim_pattern` matches is a part too.

    Raises GraphTypeError, or GraphValueError for a pattern that is none.
    """

    def __init__(self, delim_pattern: str, keep_delim_pattern: str = "", with_offsets: bool = False) -> None:
        super().__init__(with_offsets)
        self._delimiter = compiled("delim_pattern", delim_pattern)
        self._kept = compiled("keep_delim_pattern", keep_delim_pattern)

    def spans(self, text: str) -> list[Span]:
        return _between(self._delimiter, text, self._is_kept)

    def _is_kept(self, delimiter: re.Match[str]) -> bool:
        return bool(self._kept.pattern and self._kept.fullmatch(delimiter.group()))


def _between(pattern: re.Pattern[str], text: str, is_kept: Callable[[re.Match[str]], bool]) -> list[Span]:
    """The parts of a string between what a pattern matches, and the matches that are kept; none is empty."""
    spans, start = [], 0
    for match in pattern.finditer(text):
        spans.append((start, match.start()))
        if is_kept(match):
            spans.append(match.span())
        start = match.end()
    spans.append((start, len(text)))
    return [span for span in spans if span[0] < span[1]]


class PythonTokenizer(TextOperation):
    """What a function of a string gives, an iterable of strings, for one string ().

    Raises GraphTypeError for what is no function, GraphRuntimeError for a column of another shape.
    """

    def __init__(self, tokenizer: Callable[[str], Iterable[str]]) -> None:
        if not callable(tokenizer):
            raise type_error("tokenizer", tokenizer, "a function")
        self.tokenizer = tokenizer

    def apply(self, column: Strings) -> Any:
        return np.array(list(self.tokenizer(str(one_string(self, column)))), np.str_)


_SPECIAL = r"\[CLS\]|\[SEP\]|\[UNK\]|\[PAD\]|\[MASK\]|\[unused\d+\]"
_MARKS = r"!-/:-@\[-`{-~\u00a1\u00a7\u00ab\u00b6\u00b7\u00bb\u00bf\u2010-\u2027\u2030-\u205e\u3001-\u3003\u3008-\u3011"
_WIDE_MARKS = r"\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_DELIMITERS = re.compile(rf"(?P<space>\s+)|[{HAN}{_MARKS}{_WIDE_MARKS}]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u200b-\u200f\ufeff\ufffd]")


class BasicTokenizer(TextOperation):
    """The words, punctuation marks and Chinese characters of one string (), as strings (N,).

    Whitespace is dropped, or with `keep_whitespace` kept as parts of spaces; control characters always go. `lower_case`
    folds cases and drops accents; otherwise the string is brought to `normalization_form`. [CLS], [SEP], [UNK], [PAD],
    [MASK] and [unused1] stay as they are with `preserve_unused_token`. `with_offsets` is that of a Tokenizer, on the
    string after these steps. Raises GraphTypeError or, for other columns, GraphRuntimeError.
    """

    def __init__(
        self,
        lower_case: bool = False,
        keep_whitespace: bool = False,
        normalization_form: NormalizeForm = NormalizeForm.NONE,
        preserve_unused_token: bool = True,
        with_offsets: bool = False,
    ) -> None:
        self.lower_case = boolean("lower_case", lower_case)
        self.keep_whitespace = boolean("keep_whitespace", keep_whitespace)
        self.normalization_form = choice("normalization_form", normalization_form, NormalizeForm)
        self.preserve_unused_token = boolean("preserve_unused_token", preserve_unused_token)
        self.with_offsets = boolean("with_offsets", with_offsets)

    def apply(self, column: Strings) -> Any:
        return token_columns(self.tokens(str(one_string(self, column))), self.with_offsets)

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a string, and where they start and end in UTF-8."""
        pieces = re.split(f"({_SPECIAL})", text) if self.preserve_unused_token else [text]
        cleaned = [piece if i % 2 else self._clean(piece) for i, piece in enumerate(pieces)]
        spans: list[Span] = []
        start = 0
        for i, piece in enumerate(cleaned):
            found = [(0, len(piece))] if i % 2 else _between(_DELIMITERS, piece, self._is_kept)
            spans += [(start + first, start + last) for first, last in found]
            start += len(piece)
        return tokens_at("".join(cleaned), spans)

    def _is_kept(self, delimiter: re.Match[str]) -> bool:
        return self.keep_whitespace or not delimiter["space"]

    def _clean(self, text: str) -> str:
        if self.lower_case:
            parts = normalized(folded(text), NormalizeForm.NFD)
            text = "".join(character for character in parts if unicodedata.category(character) != "Mn")
        else:
            text = normalized(text, self.normalization_form)
        return _CONTROL.sub("", re.sub(r"[\t\n\r]", " ", text))


class WordpieceTokenizer(TextOperation):
    """Each word of a string () or strings (N,) as the longest pieces of a vocabulary, as strings (M,).

    A piece behind the first one starts with `suffix_indicator` in the vocabulary. A word of more bytes than
    `max_bytes_per_token`, or without pieces, becomes `unknown_token`, or stays where that is "". `with_offsets` gives a
    tuple with the offsets in UTF-8 of the pieces in their words. Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.
    """

    def __init__(
        self,
        vocab: Vocab,
        suffix_indicator: str = "##",
        max_bytes_per_token: int = 100,
        unknown_token: str = "[UNK]",
        with_offsets: bool = False,
    ) -> None:
        self.vocab: Vocab = instance("vocab", vocab, Vocab, "a Vocab")
        self.suffix_indicator = string("suffix_indicator", suffix_indicator)
        self.max_bytes_per_token = integer("max_bytes_per_token", max_bytes_per_token, 0, 2**32 - 1)
        self.unknown_token = string("unknown_token", unknown_token)
        self.with_offsets = boolean("with_offsets", with_offsets)

    def apply(self, column: Strings) -> Any:
        if column.ndim > 1:
            raise does_not_fit(self, f"takes strings of () or (N,), not of {column.shape}")
        words = [str(word) for word in column.reshape(-1)]
        return self.result([(word, 0) for word in words])

    def result(self, words: list[tuple[str, int]]) -> Any:
        """The pieces of words that start at these offsets."""
        found = [
            (piece, start + first, start + last) for word, start in words for piece, first, last in self._pieces(word)
        ]
        return token_columns(found, self.with_offsets)

    def _pieces(self, word: str) -> list[Token]:
        offsets = byte_offsets(word)
        unknown = [(self.unknown_token or word, 0, offsets[-1])]
        if offsets[-1] > self.max_bytes_per_token:
            return unknown
        pieces, start = [], 0
        while start < len(word):
            mark = self.suffix_indicator if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self.vocab), None)
            if end is None:
                return unknown
            pieces.append((mark + word[start:end], offsets[start], offsets[end]))
            start = end
        return pieces or [("", 0, 0)]


class BertTokenizer(TextOperation):
    """`BasicTokenizer`, then `WordpieceTokenizer`, for one string (); parameters and errors are theirs."""

    def __init__(
        self,
        vocab: Vocab,
        suffix_indicator: str = "##",
        max_bytes_per_token: int = 100,
        unknown_token: str = "[UNK]",
        lower_case: bool = False,
        keep_whitespace: bool = False,
        normalization_form: NormalizeForm = NormalizeForm.NONE,
        preserve_unused_token: bool = True,
        with_offsets: bool = False,
    ) -> None:
        self._basic = BasicTokenizer(lower_case, keep_whitespace, normalization_form, preserve_unused_token)
        self._wordpiece = WordpieceTokenizer(vocab, suffix_indicator, max_bytes_per_token, unknown_token, with_offsets)

    def apply(self, column: Strings) -> Any:
        tokens = self._basic.tokens(str(one_string(self, column)))
        return self._wordpiece.result([(token, start) for token, start, _ in tokens])
