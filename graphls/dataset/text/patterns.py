"""Regular expressions."""

from __future__ import annotations

import re
from typing import Any

from graphls.dataset.text.strings import EachString
from graphls.dataset.transforms.checks import boolean, string
from graphls.ir.errors import GraphValueError

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
