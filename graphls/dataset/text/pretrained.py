"""Tokenizers of the packages `tokenizers` and `transformers` as operations on columns of strings."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.dataset.checks import DTypeLike, boolean, names, number_dtype, optional_integer, string
from graphls.dataset.text.strings import TextOperation
from graphls.dataset.transforms.operations import does_not_fit

__all__ = ["PretrainedTokenizer"]

ATTRIBUTES = {
    "input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids",
    "special_tokens_mask": "special_tokens_mask",
}  # fmt: skip
"""The columns of an encoded text, with their names in the package `tokenizers`."""

PAD_TOKENS = ("[PAD]", "<pad>", "<|pad|>", "<|endoftext|>")


def is_pretrained(item: object) -> bool:
    """Whether an object is a tokenizer of the packages `tokenizers` or `transformers`."""
    return package_of(item) in ("tokenizers", "transformers")


def package_of(item: object) -> str:
    """The package that defines the class of a tokenizer or a base of it; "" for other objects."""
    packages = [kind.__module__.partition(".")[0] for kind in type(item).__mro__]
    return next((package for package in packages if package in ("tokenizers", "transformers")), "")


class PretrainedTokenizer(TextOperation):
    """The ids of the tokens of texts, by a `tokenizers.Tokenizer` or a tokenizer of `transformers`.

    A string () results in arrays of (length,), a batch of strings (N,) in arrays of (N, length), encoded together;
    a second column of strings is encoded as the pair of the first. The results are `columns`, among `input_ids`,
    `attention_mask`, `token_type_ids` and `special_tokens_mask`, of `dtype`.

    - `max_length`: longer texts are truncated with `truncation`, shorter ones padded with `padding`; without it, a
      batch is padded to its longest text.
    - `pad_token`: the token to pad with, by default that of the tokenizer's own settings or a usual one.

    The tokenizer itself does not change: a copy has these settings, and threads may share the operation.

    Raises GraphTypeError and GraphValueError for wrong arguments and where no token to pad with is known, and
    GraphRuntimeError for columns that are not strings and for texts of different lengths in a batch without padding.

    Examples:
        >>> from graphls.dataset import text
        >>> import tokenizers
        >>> words = tokenizers.models.WordLevel({"[UNK]": 0, "[PAD]": 1, "a": 2, "fine": 3, "day": 4}, "[UNK]")
        >>> tokenizer = tokenizers.Tokenizer(words)
        >>> tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        >>> text.PretrainedTokenizer(tokenizer, max_length=4)("a fine day")
        (array([2, 3, 4, 1]), array([1, 1, 1, 0]))
    """

    def __init__(
        self, tokenizer: Any, max_length: int | None = None, *,
        columns: Sequence[str] | str = ("input_ids", "attention_mask"), padding: bool = True, truncation: bool = True,
        pad_token: str | None = None, add_special_tokens: bool = True, dtype: DTypeLike = "int64",
    ) -> None:  # fmt: skip
        self.max_length = optional_integer("max_length", max_length, 1)
        self.columns = names("columns", columns)
        for name in self.columns:
            if name not in ATTRIBUTES:
                raise GraphValueError(f"columns are among {', '.join(ATTRIBUTES)}, not {name!r}.")
        self.padding, self.truncation = boolean("padding", padding), boolean("truncation", truncation)
        self.adds_special_tokens = boolean("add_special_tokens", add_special_tokens)
        self.dtype = number_dtype("dtype", dtype)
        pad_token = None if pad_token is None else string("pad_token", pad_token)
        self.encoder = self._encoder(tokenizer, pad_token)

    def __call__(self, *columns: object) -> Any:
        if len(columns) not in (1, 2):
            raise GraphValueError(f"PretrainedTokenizer takes a column of texts, or two for pairs, not {len(columns)}.")
        texts = [self.prepare(column) for column in columns]
        if any(column.ndim > 1 or column.shape != texts[0].shape for column in texts):
            shapes = " and ".join(str(column.shape) for column in texts)
            raise does_not_fit(self, f"takes strings () or batches of them (N,), not {shapes}")
        rows = self._encoded([column.reshape(-1).tolist() for column in texts])
        results = [self._array(row) for row in rows]
        results = results if texts[0].ndim else [result[0] for result in results]
        return tuple(results) if len(results) > 1 else results[0]

    def _array(self, rows: list[list[int]]) -> Any:
        if len(set(map(len, rows))) > 1:
            raise does_not_fit(self, "has texts of different lengths; give max_length, or leave padding on")
        return np.array(rows, self.dtype).reshape(len(rows), -1)

    def _encoded(self, texts: list[list[str]]) -> list[list[list[int]]]:
        """Each of the columns for all texts."""
        pairs = texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))
        if package_of(self.encoder) == "tokenizers":
            encodings = self.encoder.encode_batch(pairs, add_special_tokens=self.adds_special_tokens)
            return [[getattr(one, ATTRIBUTES[name]) for one in encodings] for name in self.columns]
        padding = ("max_length" if self.max_length else True) if self.padding else False
        fields = self.encoder(
            *texts, padding=padding, truncation=self.truncation and self.max_length is not None,
            max_length=self.max_length, add_special_tokens=self.adds_special_tokens,
            return_token_type_ids="token_type_ids" in self.columns, return_attention_mask=True,
            return_special_tokens_mask="special_tokens_mask" in self.columns,
        )  # fmt: skip
        return [fields[name] for name in self.columns]

    def _encoder(self, tokenizer: Any, pad_token: str | None) -> Any:
        """A copy of the tokenizer, with the settings of this operation where it is one of `tokenizers`."""
        package, settings = package_of(tokenizer), {}
        if not package:
            text = "PretrainedTokenizer takes a tokenizer of the packages tokenizers or transformers"
            advice = "; load it first, as by Tokenizer.from_file or AutoTokenizer.from_pretrained"
            raise GraphTypeError(f"{text}, not {type(tokenizer).__name__}{advice * isinstance(tokenizer, str)}.")
        pad_token = pad_token or getattr(tokenizer, "pad_token", None)
        if package == "transformers":
            settings = {"direction": tokenizer.padding_side, "pad_type_id": tokenizer.pad_token_type_id}
            truncation = {"direction": tokenizer.truncation_side}
            backend = getattr(tokenizer, "backend_tokenizer", None)  # of which calls in several threads may not change
            if backend is None:
                return self._with_pad_token(copy.deepcopy(tokenizer), pad_token)
        else:
            backend, truncation = getattr(tokenizer, "_tokenizer", tokenizer), {}
        encoder = copy.deepcopy(backend)
        own, cut = encoder.padding or {}, encoder.truncation or {}
        encoder.no_padding()
        encoder.no_truncation()
        if self.truncation and self.max_length is not None:
            cutting = {name: cut[name] for name in ("stride", "strategy", "direction") if name in cut}
            encoder.enable_truncation(self.max_length, **{**cutting, **truncation})
        if self.padding:
            filling = {name: own[name] for name in ("direction", "pad_type_id") if name in own}
            token = pad_token or own.get("pad_token") or _usual(encoder)
            encoder.enable_padding(
                length=self.max_length, pad_token=token, pad_id=_id_of(encoder, token), **{**filling, **settings}
            )
        return encoder

    def _with_pad_token(self, tokenizer: Any, pad_token: str | None) -> Any:
        if self.padding and pad_token is None:
            raise GraphValueError(NO_PAD_TOKEN)
        tokenizer.pad_token = pad_token
        return tokenizer


NO_PAD_TOKEN = "The tokenizer has no token to pad with; name one of its tokens by pad_token=, or give padding=False."


def _usual(encoder: Any) -> str:
    token = next((token for token in PAD_TOKENS if encoder.token_to_id(token) is not None), None)
    if token is None:
        raise GraphValueError(NO_PAD_TOKEN)
    return token


def _id_of(encoder: Any, token: str) -> int:
    index = encoder.token_to_id(token)
    if index is None:
        raise GraphValueError(f"The tokenizer has no token {token!r} to pad with; name another one by pad_token=.")
    return int(index)
