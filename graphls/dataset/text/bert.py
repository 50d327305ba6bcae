"""The tokenizers of BERT (Devlin et al. 2019)."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

import numpy as np

from graphls.dataset.text.normal_forms import NormalizeForm, folded, normalized
from graphls.dataset.text.patterns import HAN
from graphls.dataset.text.strings import Span, TextOperation, byte_places, one_string
from graphls.dataset.text.vocab import Vocab
from graphls.dataset.transforms.arrays import does_not_fit
from graphls.dataset.transforms.checks import boolean, choice, instance, integer, string

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

    def apply(self, column: Any) -> Any:
        tokens, starts, ends = self.tokens(str(one_string(self, column)))
        array = np.array(tokens, np.str_)
        return (array, _places(starts), _places(ends)) if self.with_offsets else array

    def tokens(self, text: str) -> tuple[list[str], list[int], list[int]]:
        """The tokens of a string, and where they start and end in UTF-8."""
        pieces = re.split(f"({_SPECIAL})", text) if self.preserve_unused_token else [text]
        cleaned = [piece if place % 2 else self._clean(piece) for place, piece in enumerate(pieces)]
        spans: list[Span] = []
        start = 0
        for place, piece in enumerate(cleaned):
            found = [(0, len(piece))] if place % 2 else _split(piece, self.keep_whitespace)
            spans += [(start + first, start + last) for first, last in found]
            start += len(piece)
        whole, spans = "".join(cleaned), spans or [(0, 0)]
        places = byte_places(whole)
        tokens = [whole[first:last] for first, last in spans]
        return tokens, [places[first] for first, _ in spans], [places[last] for _, last in spans]

    def _clean(self, text: str) -> str:
        if self.lower_case:
            parts = normalized(folded(text), NormalizeForm.NFD)
            text = "".join(character for character in parts if unicodedata.category(character) != "Mn")
        else:
            text = normalized(text, self.normalization_form)
        return _CONTROL.sub("", re.sub(r"[\t\n\r]", " ", text))


def _split(text: str, keep_whitespace: bool) -> list[Span]:
    spans, start = [], 0
    for match in _DELIMITERS.finditer(text):
        spans.append((start, match.start()))
        if keep_whitespace or not match["space"]:
            spans.append(match.span())
        start = match.end()
    spans.append((start, len(text)))
    return [span for span in spans if span[0] < span[1]]



def _places(values: list[int]) -> Any:
    return np.array(values, np.uint32)


class WordpieceTokenizer(TextOperation):
    """Each word of a string () or strings (N,) as the longest pieces of a vocabulary, as strings (M,).

    A piece behind the first one starts with `suffix_indicator` in the vocabulary. A word of more bytes than
    `max_bytes_per_token`, or without pieces, becomes `unknown_token`, or stays where that is "". `with_offsets` gives a
    tuple with the places in UTF-8 of the pieces in their words. Raises GraphTypeError, GraphValueError or
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

    def apply(self, column: Any) -> Any:
        if column.ndim > 1:
            raise does_not_fit(self, f"takes strings of () or (N,), not of {column.shape}")
        words = [str(word) for word in column.reshape(-1)]
        return self.result([(word, 0) for word in words])

    def result(self, words: list[tuple[str, int]]) -> Any:
        """The pieces of words that start at these places."""
        found = [
            (piece, start + first, start + last) for word, start in words for piece, first, last in self._pieces(word)
        ]
        tokens, starts, ends = (list(part) for part in zip(*found, strict=True)) if found else ([], [], [])
        array = np.array(tokens, np.str_)
        return (array, _places(starts), _places(ends)) if self.with_offsets else array

    def _pieces(self, word: str) -> list[tuple[str, int, int]]:
        places = byte_places(word)
        unknown = [(self.unknown_token or word, 0, places[-1])]
        if places[-1] > self.max_bytes_per_token:
            return unknown
        pieces, start = [], 0
        while start < len(word):
            mark = self.suffix_indicator if start else ""
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self.vocab), None)
            if end is None:
                return unknown
            pieces.append((mark + word[start:end], places[start], places[end]))
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

    def apply(self, column: Any) -> Any:
        tokens, starts, _ = self._basic.tokens(str(one_string(self, column)))
        return self._wordpiece.result(list(zip(tokens, starts, strict=True)))
