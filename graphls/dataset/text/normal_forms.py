"""Strings in one spelling."""

from __future__ import annotations

import unicodedata
from enum import IntEnum

from graphls.dataset.text.strings import EachString
from graphls.dataset.transforms.checks import choice


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
