"""The exception classes: every one is a GraphlsError and also the fitting builtin exception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from graphls.base.location import Location, user_location

Self = TypeVar("Self", bound="GraphlsError")


def visible(text: str) -> str:
    r"""The text with control characters, marks of direction and single surrogates as escapes; lines and tabs stay.

    Examples:
        >>> from graphls.ir.errors import visible
        >>> print(visible("bell\a"))
        bell\x07
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


class GraphlsError(Exception):
    """An error message of one sentence: the fault, the user's file and line if any, and advice.

    `location` is the user's line of the fault: the explicit one, or the running one, or None where no code of a user
    runs. The text of an object in a message, such as an array, is joined into one line, and control characters are
    escaped. `has_text` is for messages of several lines, which contain the position of the fault themselves.
    """

    has_text: ClassVar[bool] = False
    path: str | None = None
    cell: str = ""

    def __init__(self, message: str, location: Location | None = None) -> None:
        self.is_found = location is None
        self.location = location if location or self.has_text else user_location()
        self.message = message if self.has_text else " ".join(message.split())
        if self.location and not self.has_text:  # an error within may have said the line already
            self.message = self.message.replace(f" ({self.location})", "")
        super().__init__(self._shown())

    def within(self, path: str, cell: str = "") -> None:
        """Add to the message the cell that raised it: `cell`, on a `path` that each enclosing cell makes longer.

        Without a cell it comes from code of the user, whose line is enough.
        """
        if self.path is None:
            self.path, self.cell = path if cell else "", cell
        elif self.path:
            self.message = self.message.removeprefix(f"{self.path} {self.cell}: ")
            self.path = f"{path}.{self.path}".strip(".")
        if self.path:
            self.message = f"{self.path} {self.cell}: {self.message}"
            self.args = (self._shown(),)

    def _shown(self) -> str:
        return visible(f"{self.message} ({self.location})" if self.location else self.message)

    def at(self: Self, location: Location | None) -> Self:
        """The same error at another line, unless it has an explicit one already or the new one is None."""
        if not self.is_found or location is None:
            return self
        moved = type(self)(self.message, location)
        moved.path, moved.cell = self.path, self.cell
        return moved

    def __reduce__(self) -> tuple[Any, ...]:
        """Keep the location when the error is pickled for another process."""
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[GraphlsError], args: tuple[object, ...], state: Mapping[str, object]) -> GraphlsError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(state)
    return error


class GraphTypeError(GraphlsError, TypeError):
    """A dtype, an argument or an object of the wrong kind."""


class GraphValueError(GraphlsError, ValueError):
    """A shape, a value or a name that does not fit."""


class GraphKeyError(GraphlsError, KeyError):
    """A key that is not known."""

    def __str__(self) -> str:
        return str(self.args[0])


class GraphIndexError(GraphlsError, IndexError):
    """An index outside its range."""


class GraphAttributeError(GraphlsError, AttributeError):
    """An attribute that is missing or cannot be used yet."""


class GraphImportError(GraphlsError, ModuleNotFoundError):
    """A module, or a name of one, that is not offered."""


class GraphRuntimeError(GraphlsError, RuntimeError):
    """The process lacks something that the request needs, such as a runtime or a device."""


class GraphMemoryError(GraphlsError, MemoryError):
    """A tensor that memory does not hold."""


class GraphRecursionError(GraphlsError, RecursionError):
    """Code that calls itself without end, or deeper than Python's limit allows."""


class GraphFileError(GraphlsError, OSError):
    """A file or directory that cannot be read or written."""

    def __str__(self) -> str:
        return str(self.args[0])


class GraphSyntaxError(GraphlsError, SyntaxError):
    """IR text that does not parse; the message names the text's line and column."""

    has_text = True

    def __str__(self) -> str:
        return str(self.args[0])


class VerifyError(GraphValueError):
    """A graph that breaks a rule of the IR; the message prints it with the fault marked."""

    has_text = True


class GraphNameError(GraphlsError, UnboundLocalError):
    """A variable that has no value on every path that leads to where it is read."""


class TraceError(GraphTypeError):
    """Python code that cannot become part of a static graph."""
