"""Vocabularies, which map words to indices and back, and `Lookup`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.files.files import open_file
from graphls.dataset import checks
from graphls.dataset.checks import DTypeLike
from graphls.dataset.text.strings import Strings, TextOperation
from graphls.ir.types import int32

__all__ = ["Lookup", "Vocab"]


class Vocab:
    """Words and their indices; created by `from_list`, `from_dict`, `from_file` or `from_dataset`.

    Examples:
        >>> from graphls.dataset import text
        >>> vocab = text.Vocab.from_list(["a", "b"], special_tokens=["<pad>"])
        >>> vocab.vocab(), vocab.tokens_to_ids(["b", "a"]), vocab.ids_to_tokens(0)
        ({'<pad>': 0, 'a': 1, 'b': 2}, [2, 1], '<pad>')
    """

    def __init__(self) -> None:
        self._indices: dict[str, int] = {}
        self._words: dict[int, str] = {}

    @classmethod
    def from_list(
        cls, word_list: list[str], special_tokens: list[str] | None = None, special_first: bool = True
    ) -> Vocab:
        """A vocabulary of words with indices in order, special ones before or after the others.

        Raises GraphTypeError, or GraphValueError for a duplicate word.
        """
        words = _words("word_list", checks.instance("word_list", word_list, list, "a list of strings"))
        special = [] if special_tokens is None else special_tokens
        specials = _words("special_tokens", checks.instance("special_tokens", special, list, "a list of strings"))
        first, second = (specials, words) if checks.boolean("special_first", special_first) else (words, specials)
        for word in set(specials) & set(words):
            raise GraphValueError(f"The word {word!r} is in word_list and in special_tokens.")
        return cls.from_dict({word: index for index, word in enumerate([*first, *second])})

    @classmethod
    def from_dict(cls, word_dict: dict[str, int]) -> Vocab:
        """Words and their indices of a dict; raises GraphTypeError, or GraphValueError for an index below 0."""
        checks.instance("word_dict", word_dict, dict, "a dict of strings to integers")
        vocab = cls()
        vocab._indices = {
            checks.string("word", word): checks.integer("word_id", index, 0) for word, index in word_dict.items()
        }
        vocab._words = {index: word for word, index in vocab._indices.items()}
        return vocab

    @classmethod
    def from_file(
        cls, file_path: str, delimiter: str = "", vocab_size: int | None = None,
        special_tokens: list[str] | None = None, special_first: bool = True,
    ) -> Vocab:  # fmt: skip
        """The first `vocab_size` lines of a UTF-8 file, each up to `delimiter`, with indices in their order.

        Raises GraphTypeError, GraphValueError for a duplicate word, GraphRuntimeError for a file that cannot
        be read.
        """
        path = checks.path("file_path", file_path)
        checks.string("delimiter", delimiter)
        size = checks.optional_integer("vocab_size", vocab_size, 1)
        try:
            with open_file(path, "r", encoding="utf-8") as file:
                lines = [line.rstrip("\r\n") for line, _ in zip(file, range(size or 2**31), strict=False)]
        except (OSError, UnicodeError) as error:
            raise GraphRuntimeError(f"{path} cannot be read: {error}.") from None
        words = [line.split(delimiter)[0] if delimiter else line for line in lines]
        return cls.from_list(words, special_tokens, special_first)

    @classmethod
    def from_dataset(
        cls, dataset: Iterable[object], columns: list[str] | str | None = None,
        freq_range: tuple[int | None, int | None] | None = None, top_k: int | None = None,
        special_tokens: list[str] | None = None, special_first: bool = True,
    ) -> Vocab:  # fmt: skip
        """The words of a data set or an iterable of rows, the most frequent first, equally frequent ones by spelling.

        A row is a dict of columns, of which those named by `columns` count, or a tuple, list, string or array of
        strings. `freq_range` (min, max), None for no bound, and `top_k` leave words out. Raises GraphTypeError or
        GraphValueError.
        """
        low, high = _frequencies(freq_range)
        limit = checks.optional_integer("top_k", top_k, 1)
        names = [columns] if isinstance(columns, str) else columns
        counts = Counter(word for row in _rows(dataset) for word in _words_of(row, names))
        words = [word for word, count in counts.items() if low <= count <= high]
        words.sort(key=lambda word: (-counts[word], word.encode()))
        return cls.from_list(words[:limit], special_tokens, special_first)

    def vocab(self) -> dict[str, int]:
        """The words and their indices."""
        return dict(self._indices)

    def tokens_to_ids(self, tokens: str | Sequence[str] | Strings) -> Any:
        """The index of a word, or those of a list or array of words; -1 for an unknown word."""
        if isinstance(tokens, str):
            return self._indices.get(tokens, -1)
        if not isinstance(tokens, (list, np.ndarray)):
            raise checks.type_error("tokens", tokens, "a string or a list of strings")
        return [self._indices.get(checks.string("tokens", token), -1) for token in tokens]

    def ids_to_tokens(self, ids: int | Sequence[int] | Strings) -> Any:
        """The word of an index, or those of a list or array of indices; "" for an unknown index."""
        if isinstance(ids, (list, np.ndarray)):
            return [self.ids_to_tokens(index) for index in ids]
        return self._words.get(checks.integer("ids", ids, 0), "")

    def number(self, word: str) -> int | None:
        """The index of a word; None for an unknown one."""
        return self._indices.get(word)

    def __contains__(self, word: object) -> bool:
        return word in self._indices

    def __len__(self) -> int:
        return len(self._indices)


def _words(name: str, words: list[object]) -> list[str]:
    checked = [checks.string(name, word) for word in words]
    for word, count in Counter(checked).items():
        if count > 1:
            raise GraphValueError(f"{name} has the word {word!r} {count} times.")
    return checked


def _frequencies(value: object) -> tuple[float, float]:
    if value is None:
        return 0, float("inf")
    if not isinstance(value, tuple) or len(value) != 2:
        raise checks.type_error("freq_range", value, "a tuple (min, max)")
    low = 0 if value[0] is None else checks.integer("freq_range", value[0], 0, 2**63)
    high = float("inf") if value[1] is None else checks.integer("freq_range", value[1], 0, 2**63)
    if low > high:
        raise GraphValueError(f"freq_range should be in (min, max) format, but got {value}.")
    return low, high


def _rows(dataset: object) -> Iterator[Any]:
    iterator = getattr(dataset, "create_dict_iterator", None)
    if iterator is not None:
        return iter(iterator(num_epochs=1, output_numpy=True))
    if isinstance(dataset, (str, bytes)) or not isinstance(dataset, Iterable):
        raise checks.type_error("dataset", dataset, "a data set or an iterable of rows")
    return iter(dataset)


def _words_of(row: object, columns: list[str] | None) -> list[str]:
    if isinstance(row, dict):
        missing = [name for name in columns or [] if name not in row]
        if missing:
            raise GraphValueError(f"The data set has no column {missing[0]!r}; it has {', '.join(map(str, row))}.")
        row = [row[name] for name in (columns or row)]
    parts = row if isinstance(row, (list, tuple)) else [row]
    words = [word for part in parts for word in np.asarray(part).reshape(-1)]
    if any(not isinstance(word, str) for word in words):
        raise GraphTypeError("A vocabulary consists of strings; name its columns of strings.")
    return [str(word) for word in words]


class Lookup(TextOperation):
    """The indices of words in a vocabulary, in `data_type`, of the same shape.

    An unknown word has the index of `unknown_token`. Raises GraphTypeError, GraphValueError for an `unknown_token` that
    is not in the vocabulary, GraphRuntimeError for an unknown word without one.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import text
        >>> vocab = text.Vocab.from_list(["a", "b"], special_tokens=["<unk>"])
        >>> text.Lookup(vocab, "<unk>")(np.array(["b", "c"]))
        array([2, 0], dtype=int32)
    """

    def __init__(self, vocab: Vocab, unknown_token: str | None = None, data_type: DTypeLike = int32) -> None:
        self.vocab = checks.instance("vocab", vocab, Vocab, "a Vocab")
        self.unknown_token = None if unknown_token is None else checks.string("unknown_token", unknown_token)
        if unknown_token is not None and unknown_token not in vocab:
            raise GraphValueError(f"unknown_token {unknown_token!r} is not in the vocabulary.")
        self.data_type = checks.number_dtype("data_type", data_type)

    def apply(self, column: Strings) -> Any:
        indices = [self._index(str(word)) for word in column.reshape(-1)]
        return np.array(indices, self.data_type).reshape(column.shape)

    def _index(self, word: str) -> int:
        index = self.vocab.number(word)
        if index is None and self.unknown_token is not None:
            index = self.vocab.number(self.unknown_token)
        if index is None:
            raise GraphRuntimeError(f"The word {word!r} is not in the vocabulary; give Lookup an unknown_token.")
        return int(index)
