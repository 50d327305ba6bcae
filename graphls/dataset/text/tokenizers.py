"""Tokenizers: by whitespace, characters, regular expressions and scripts, and those of BERT (Devlin et al. 2019)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache, lru_cache
from itertools import accumulate, groupby
from typing import Any

import numpy as np

from graphls.dataset.checks import boolean, choice, instance, integer, string, type_error
from graphls.dataset.text import strings
from graphls.dataset.text.strings import NormalizeForm, Span, Strings, TextOperation, Token, Tokenizer
from graphls.dataset.text.vocab import Vocab
from graphls.dataset.transforms.operations import does_not_fit

__all__ = [
    "BasicTokenizer", "BertTokenizer", "PythonTokenizer", "RegexTokenizer", "UnicodeCharTokenizer",
    "UnicodeScriptTokenizer", "WhitespaceTokenizer", "WordpieceTokenizer",
]  # fmt: skip


class WhitespaceTokenizer(Tokenizer):
    """The parts of a string between whitespace.

    Examples:
        >>> from graphls.dataset import text
        >>> text.WhitespaceTokenizer()("a fine day")
        array(['a', 'fine', 'day'], dtype='<U4')
    """

    def apply(self, column: Strings) -> Any:
        if self.with_offsets:
            return super().apply(column)
        return np.array(str(strings.one_string(self, column)).split() or [""], np.str_)

    def spans(self, text: str) -> list[Span]:
        return [match.span() for match in re.finditer(r"\S+", text)]


class UnicodeCharTokenizer(Tokenizer):
    """The characters of a string.

    Examples:
        >>> from graphls.dataset import text
        >>> text.UnicodeCharTokenizer()("day")
        array(['d', 'a', 'y'], dtype='<U1')
    """

    def spans(self, text: str) -> list[Span]:
        return [(i, i + 1) for i in range(len(text))]


class UnicodeScriptTokenizer(Tokenizer):
    """The parts of a string between changes of writing systems, punctuation and whitespace.

    `keep_whitespace` retains parts of whitespace. The writing system of a letter is the first word of its Unicode name,
    so Chinese characters are one part, and Latin letters another; digits and signs such as + are one.

    Examples:
        >>> from graphls.dataset import text
        >>> text.UnicodeScriptTokenizer()("MNIST数字")
        array(['MNIST', '数字'], dtype='<U5')
    """

    def __init__(self, keep_whitespace: bool = False, with_offsets: bool = False) -> None:
        super().__init__(with_offsets)
        self.keep_whitespace = boolean("keep_whitespace", keep_whitespace)

    def spans(self, text: str) -> list[Span]:
        runs = _runs(text, _script)
        return [span for kind, span in runs if self.keep_whitespace or kind != "whitespace"]


def _runs(text: str, kind_of: Callable[[str], str]) -> list[tuple[str, Span]]:
    """The longest parts of one kind each."""
    runs, start = [], 0
    for kind, group in groupby(text, kind_of):
        end = start + len(list(group))
        runs.append((kind, (start, end)))
        start = end
    return runs


_SHARED = {*range(0x250), *range(0x2000, 0x2E80), *range(0x3000, 0x3040), *range(0xFE10, 0x10000)}
"""Codes whose punctuation belongs to no writing system."""


@lru_cache(maxsize=2**14)
def _script(character: str) -> str:
    if character.isspace():
        return "whitespace"
    category = unicodedata.category(character)
    if category[0] in "PC" and ord(character) in _SHARED:
        return "common"
    if category[0] in "PC":
        return "punctuation"
    if category[0] == "L":
        words = unicodedata.name(character, "letter").split()
        return words[words[0] in ("FULLWIDTH", "HALFWIDTH")]
    return "inherited" if category[0] == "M" else "common"


class RegexTokenizer(Tokenizer):
    """The parts of a string between matches of a pattern; a match that `keep_delim_pattern` matches is a part too.

    Raises GraphTypeError, or GraphValueError for an invalid pattern.

    Examples:
        >>> from graphls.dataset import text
        >>> text.RegexTokenizer("[ ,]+")("a, b c")
        array(['a', 'b', 'c'], dtype='<U1')
    """

    def __init__(self, delim_pattern: str, keep_delim_pattern: str = "", with_offsets: bool = False) -> None:
        super().__init__(with_offsets)
        self._delimiter = strings.compiled("delim_pattern", delim_pattern)
        self._retained_delimiter = strings.compiled("keep_delim_pattern", keep_delim_pattern)

    def spans(self, text: str) -> list[Span]:
        return _between(self._delimiter, text, self._is_retained)

    def _is_retained(self, delimiter: re.Match[str]) -> bool:
        return bool(self._retained_delimiter.pattern and self._retained_delimiter.fullmatch(delimiter.group()))


def _between(pattern: re.Pattern[str], text: str, is_retained: Callable[[re.Match[str]], bool]) -> list[Span]:
    """The parts of a string between matches of a pattern, and the retained matches; none is empty."""
    spans, start = [], 0
    for match in pattern.finditer(text):
        spans.append((start, match.start()))
        if is_retained(match):
            spans.append(match.span())
        start = match.end()
    spans.append((start, len(text)))
    return [span for span in spans if span[0] < span[1]]


class PythonTokenizer(TextOperation):
    """The result of a function of a string, an iterable of strings, for one string ().

    Raises GraphTypeError for anything but a function, GraphRuntimeError for a column of another shape.

    Examples:
        >>> from graphls.dataset import text
        >>> text.PythonTokenizer(lambda line: line.split(","))("a,b")
        array(['a', 'b'], dtype='<U1')
    """

    def __init__(self, tokenizer: Callable[[str], Iterable[str]]) -> None:
        if not callable(tokenizer):
            raise type_error("tokenizer", tokenizer, "a function")
        self.tokenizer = tokenizer

    def apply(self, column: Strings) -> Any:
        return np.array(list(self.tokenizer(str(strings.one_string(self, column)))), np.str_)


class _WithoutMarks(dict[int, "int | None"]):
    """The table of `str.translate` that removes nonspacing marks (Mn)."""

    def __missing__(self, code: int) -> int | None:
        self[code] = None if unicodedata.category(chr(code)) == "Mn" else code
        return self[code]


_WITHOUT_MARKS = _WithoutMarks()
_SPECIAL = re.compile(r"(\[CLS\]|\[SEP\]|\[UNK\]|\[PAD\]|\[MASK\]|\[unused\d+\])")
_CHINESE = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_CHINESE_BEYOND = (
    "\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f"
)
_PLANE, _LAST = 0xFFFF, 0xE007F  # the end of the basic plane; the last punctuation or control character


def _last_character(text: str) -> int:
    """The last character that the classes of a pattern must cover: Python searches smaller classes faster."""
    return 0x7F if text.isascii() else _PLANE if ord(max(text)) <= _PLANE else _LAST


def _characters(categories: str, reach: int) -> str:
    """The characters of some categories of Unicode, escaped for a class of a pattern."""
    characters = (
        character for character in map(chr, range(reach + 1)) if unicodedata.category(character) in categories
    )
    return re.escape("".join(characters))


@cache
def _token_pattern(with_spaces: bool, reach: int) -> re.Pattern[str]:
    marks = "!-/:-@\\[-`{-~" + _characters("Pc Pd Pe Pf Pi Po Ps", reach)
    marks += _CHINESE if reach > 0x7F else ""
    marks += _CHINESE_BEYOND if reach > _PLANE else ""
    return re.compile(rf"[{marks}]|[^\s{marks}]+" + (r"|\s+" if with_spaces else ""))


@cache
def _control_pattern(reach: int) -> re.Pattern[str]:
    return re.compile(f"[{_characters('Cc Cf', reach)}]")


class BasicTokenizer(TextOperation):
    """The words, punctuation marks and Chinese characters of one string (), as strings (N,).

    Whitespace is dropped, or with `keep_whitespace` retained as parts of spaces, into which control characters are
    turned. `lower_case` folds cases and drops accents; otherwise the string is brought to `normalization_form`. [CLS],
    [SEP], [UNK], [PAD], [MASK] and [unused1] stay as they are with `preserve_unused_token`. `with_offsets` is that of a
    Tokenizer, on the string after these steps. Raises GraphTypeError or, for other columns, GraphRuntimeError.

    Examples:
        >>> from graphls.dataset import text
        >>> text.BasicTokenizer(lower_case=True)("Welcome, all!")
        array(['welcome', ',', 'all', '!'], dtype='<U7')
    """

    def __init__(
        self, lower_case: bool = False, keep_whitespace: bool = False,
        normalization_form: NormalizeForm = NormalizeForm.NONE, preserve_unused_token: bool = True,
        with_offsets: bool = False,
    ) -> None:  # fmt: skip
        self.lower_case = boolean("lower_case", lower_case)
        self.keep_whitespace = boolean("keep_whitespace", keep_whitespace)
        self.normalization_form = choice("normalization_form", normalization_form, NormalizeForm)
        self.preserve_unused_token = boolean("preserve_unused_token", preserve_unused_token)
        self.with_offsets = boolean("with_offsets", with_offsets)

    def apply(self, column: Strings) -> Any:
        text = str(strings.one_string(self, column))
        return strings.token_columns(self.tokens(text)) if self.with_offsets else np.array(self.words(text), np.str_)

    def words(self, text: str) -> list[str]:
        """The tokens of a string."""
        words: list[str] = []
        for i, piece in enumerate(self._cleaned(text)):
            words += [piece] if i % 2 else self._pattern(piece).findall(piece)
        return words or [""]

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a string, with the offsets in UTF-8 where they start and end."""
        cleaned = self._cleaned(text)
        spans: list[Span] = []
        start = 0
        for i, piece in enumerate(cleaned):
            matches = [(0, len(piece))] if i % 2 else [match.span() for match in self._pattern(piece).finditer(piece)]
            spans += [(start + first, start + last) for first, last in matches]
            start += len(piece)
        return strings.tokens_at("".join(cleaned), spans)

    def _cleaned(self, text: str) -> list[str]:
        """Parts of a string, of which every second one is a special token that stays unchanged."""
        pieces = _SPECIAL.split(text) if self.preserve_unused_token else [text]
        return [piece if i % 2 else self._clean(piece) for i, piece in enumerate(pieces)]

    def _clean(self, text: str) -> str:
        if self.lower_case:
            text = strings.normalized(strings.folded(text), NormalizeForm.NFD).translate(_WITHOUT_MARKS)
        else:
            text = strings.normalized(text, self.normalization_form)
        return _control_pattern(_last_character(text)).sub(" ", text)

    def _pattern(self, text: str) -> re.Pattern[str]:
        return _token_pattern(self.keep_whitespace, _last_character(text))


class WordpieceTokenizer(TextOperation):
    """Each word of a string () or strings (N,) as the longest pieces of a vocabulary, as strings (M,).

    A piece after the first one starts with `suffix_indicator` in the vocabulary. A word of more bytes than
    `max_bytes_per_token`, or without pieces, becomes `unknown_token`, or stays where that is "". `with_offsets` gives a
    tuple with the offsets in UTF-8 of the pieces in their words. Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> vocab = text.Vocab.from_list(["play", "##ing", "[UNK]"])
        >>> text.WordpieceTokenizer(vocab)(np.array(["playing"]))
        array(['play', '##ing'], dtype='<U5')
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
        words = column.reshape(-1).tolist()
        return self.with_offsets_of([(word, 0) for word in words]) if self.with_offsets else self.of(words)

    def of(self, words: list[str]) -> Strings:
        """The pieces of words."""
        pieces: list[str] = []
        for word in words:
            pieces += self._pieces(word)
        return np.array(pieces, np.str_)

    def with_offsets_of(self, words: list[tuple[str, int]]) -> Any:
        """The pieces of words that start at these offsets, and the offsets where they start and end."""
        return strings.token_columns([token for word, start in words for token in self._tokens(word, start)])

    def _tokens(self, word: str, start: int) -> list[Token]:
        pieces, offsets, mark = self._pieces(word), strings.byte_offsets(word), len(self.suffix_indicator)
        if len(pieces) == 1:
            return [(pieces[0], start, start + offsets[-1])]
        ends = list(accumulate((len(piece) - mark for piece in pieces[1:]), initial=len(pieces[0])))
        return [
            (piece, start + offsets[first], start + offsets[last])
            for piece, first, last in zip(pieces, [0, *ends], ends, strict=False)
        ]

    def _pieces(self, word: str) -> list[str]:
        if len(word.encode("utf-8", "surrogatepass")) > self.max_bytes_per_token:
            return [self.unknown_token or word]
        pieces, start, mark = [], 0, ""
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = mark + word[start:end]
                if piece in self.vocab:
                    break
            else:
                return [self.unknown_token or word]
            pieces.append(piece)
            start, mark = end, self.suffix_indicator
        return pieces or [""]


class BertTokenizer(TextOperation):
    """`BasicTokenizer`, then `WordpieceTokenizer`, for one string (); parameters and errors are theirs.

    Examples:
        >>> from graphls.dataset import text
        >>> vocab = text.Vocab.from_list(["wel", "##come", "all", "[UNK]"])
        >>> text.BertTokenizer(vocab, lower_case=True)("Welcome all")
        array(['wel', '##come', 'all'], dtype='<U6')
    """

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
        text = str(strings.one_string(self, column))
        if not self._wordpiece.with_offsets:
            return self._wordpiece.of(self._basic.words(text))
        return self._wordpiece.with_offsets_of([(token, start) for token, start, _ in self._basic.tokens(text)])
