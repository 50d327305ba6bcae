"""The lexer of the text form, with errors that point into the text."""

from __future__ import annotations

import re
from typing import NamedTuple

from graphls.base.errors import GraphSyntaxError, visible
from graphls.ir.text import Metadata, parse_metadata

_TOKENS = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<comment>//[^\n]*)
    |(?P<value>[%@](?:[A-Za-z0-9_.]+|"(?:[^"\\\n]|\\.)*"))
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|-(?:inf|nan)\b)
    |(?P<type>[a-z]+\d*(?:e\dm\d[a-z]*)?\[(?:[\d,?]|/[A-Za-z_]\w*(?:\+[A-Za-z_]\w*)*(?=[,\]]))*\])
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<punctuation><-|[(){}\[\]=:,])""",
    re.VERBOSE | re.ASCII,
)
SHOWN = 160
"""The most characters of a line that an error message shows."""


class Token(NamedTuple):
    """A word of the text, of one of the kinds of the pattern above or "end", and where it begins."""

    kind: str
    text: str
    position: int


class Cursor:
    """A text in tokens, and the position of the next one.

    `comments` holds the phase, scope, line, stage and part that a comment gives to the token before it, under the
    index of the token after it.
    """

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.comments: dict[int, Metadata] = {}
        self.tokens: list[Token] = []
        self.at = 0
        self._position = self._end = 0

    def look(self, ahead: int = 0) -> Token:
        """The next token, or one after it; the text is split only as far as it is read."""
        while len(self.tokens) <= self.at + ahead:
            if self.tokens and self.tokens[-1].kind == "end":
                return self.tokens[-1]
            self._split()
        return self.tokens[self.at + ahead]

    def _split(self) -> None:
        """Read the text up to the next token, or to its end."""
        while self._position < len(self.text):
            match = _TOKENS.match(self.text, self._position)
            if match is None:
                raise self.error(f"{self.text[self._position]!r} was not expected here", self._position)
            self._position = match.end()
            if match.lastgroup == "comment":
                self._keep_metadata(len(self.tokens), self._end, match)
            elif match.lastgroup != "space":
                self.tokens.append(Token(str(match.lastgroup), match[0], match.start()))
                self._end = self._position
                return
        self.tokens.append(Token("end", "the end of the text", self._position))

    def _keep_metadata(self, index: int, end: int, match: re.Match[str]) -> None:
        """A comment counts for the token that stands before it on its line; else it is a remark."""
        if index and "\n" not in self.text[end : match.start()]:
            metadata = parse_metadata(match[0].rstrip())
            if metadata:
                self.comments[index] = metadata

    def error(self, message: str, position: int | None = None) -> GraphSyntaxError:
        position = self.look().position if position is None else position
        number = self.text.count("\n", 0, position) + 1
        start = self.text.rfind("\n", 0, position) + 1
        end = self.text.find("\n", start)
        column = position - start
        shown = self.text[start : end if end >= 0 else None]
        cut = max(0, column - SHOWN // 2) if len(shown) > SHOWN else 0
        excerpt = f"{shown[cut : cut + SHOWN]}\n{' ' * len(visible(shown[cut:column]))}^"
        error = GraphSyntaxError(f"{self.file}:{number}:{column + 1}: {message}.\n{excerpt}")
        error.filename, error.lineno, error.offset = self.file, number, column + 1
        return error

    def peek(self, text: str) -> bool:
        return self.look().text == text

    def take(self, text: str) -> bool:
        if self.peek(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise self.error(f"expected {text!r} and found {self.next_token()}")

    def next_token(self) -> str:
        token = self.look()
        return token.text if token.kind == "end" else repr(token.text[:SHOWN])

    def token(self, kind: str) -> Token:
        token = self.look()
        if token.kind != kind:
            article = "the" if kind == "end" else "a"
            raise self.error(f"expected {article} {kind} and found {self.next_token()}")
        self.at += 1
        return token
