"""Strings taken apart: at whitespace, characters, patterns, scripts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import numpy as np

from graphls.dataset.text.patterns import compiled
from graphls.dataset.text.strings import Span, TextOperation, Tokenizer, one_string
from graphls.dataset.transforms.checks import boolean, type_error


class WhitespaceTokenizer(Tokenizer):
    """The parts of a string between whitespace."""

    def spans(self, text: str) -> list[Span]:
        return [match.span() for match in re.finditer(r"\S+", text)]


class UnicodeCharTokenizer(Tokenizer):
    """The characters of a string."""

    def spans(self, text: str) -> list[Span]:
        return [(place, place + 1) for place in range(len(text))]


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
        spans, start = [], 0
        for match in self._delimiter.finditer(text):
            spans.append((start, match.start()))
            if self._kept.pattern and self._kept.fullmatch(match.group()):
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

    def apply(self, column: Any) -> Any:
        return np.array(list(self.tokenizer(str(one_string(self, column)))), np.str_)


