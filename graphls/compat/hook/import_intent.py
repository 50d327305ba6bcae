"""Classifies the use of a name by the caller's byte code and source: statement or call, in a `try`, in a decorator.

A call (`hasattr`, `getattr`, `import_module`, `find_spec`), or a `try` that catches the error, tests whether a name
exists. Any other statement only names an object that may be used later.
"""

from __future__ import annotations

import ast
import dis
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import FrameType

STAR = ("IMPORT_STAR", "CALL_INTRINSIC_1")
"""The byte code of `from module import *`, before and since Python 3.12."""

STATEMENTS = ("IMPORT_FROM", "IMPORT_NAME", "LOAD_ATTR", "LOAD_METHOD", *STAR)
"""Byte codes that read a name, as imports and attributes do; calls of functions such as `hasattr` have others."""

IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
ATTRIBUTE_ERRORS = frozenset({"AttributeError", "Exception", "BaseException"})

DECORATED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def frame_of_importer(frame: FrameType | None) -> FrameType | None:
    """The frame of the import: the first one, from `frame` outwards, that is not of `importlib`."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib."):
        frame = frame.f_back
    return frame


def is_statement(frame: FrameType | None) -> bool:
    """Tells whether a frame reads a name by a statement, not by a call."""
    return _byte_code(frame) in STATEMENTS


def is_import_from(frame: FrameType | None) -> bool:
    """Tells whether a frame is in `from module import name`, after the import of the module."""
    return _byte_code(frame) == "IMPORT_FROM"


def is_star(frame: FrameType | None) -> bool:
    """Tells whether a frame is in `from module import *`."""
    return _byte_code(frame) in STAR


def is_guarded(frame: FrameType | None, errors: frozenset[str]) -> bool:
    """Tells whether the line of a frame is inside of a `try`, in the same function, that catches one of these errors.

    A `with` that names such an error, as `suppress(ImportError)` does, counts as well. Code without a source does not.
    """
    if frame is None:
        return False
    start = _start_of_function(frame)
    guards = (guard for guard in _guards(frame.f_code.co_filename) if guard[0] >= start)
    return any(first <= frame.f_lineno <= last and caught & errors for first, last, caught in guards)


def is_decorator(frame: FrameType | None) -> bool:
    """Tells whether the line of a frame is in a decorator of a function or class."""
    if frame is None:
        return False
    return any(first <= frame.f_lineno <= last for first, last in _decorators(frame.f_code.co_filename))


def is_loading(frame: FrameType) -> bool:
    """Tells whether a frame runs the body of an imported module."""
    return frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__", "__main__") != "__main__"


def _byte_code(frame: FrameType | None) -> str:
    if frame is None or frame.f_lasti < 0:
        return ""
    code, position = frame.f_code.co_code, frame.f_lasti
    while code[position] == dis.EXTENDED_ARG:
        position += 2
    return dis.opname[code[position]]


def _start_of_function(frame: FrameType) -> int:
    """The first line of the function that a frame runs; 0 for the body of a module or class."""
    is_function = bool(frame.f_code.co_flags & 2)  # CO_NEWLOCALS, which classes and modules lack
    return frame.f_code.co_firstlineno if is_function else 0


@lru_cache(maxsize=256)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


@lru_cache(maxsize=256)
def _guards(file: str) -> list[tuple[int, int, frozenset[str]]]:
    """The statements of a file that catch errors: first and last line of the block, and the names of the errors."""
    tree = _tree(file)
    return [guard for node in ast.walk(tree) if (guard := _guard(node))] if tree else []


def _guard(node: ast.AST) -> tuple[int, int, frozenset[str]] | None:
    if isinstance(node, (ast.With, ast.AsyncWith)):
        caught = [name for item in node.items for name in _names(item.context_expr)]
    elif isinstance(node, ast.Try) and node.handlers:
        caught = [name for handler in node.handlers for name in _names(handler.type)]
    else:
        return None
    return node.lineno, node.body[-1].end_lineno or 0, frozenset(caught)


def _names(expression: ast.expr | None) -> Iterator[str]:
    """The names in an expression; BaseException for None, as in a bare `except:`."""
    if expression is None:
        yield "BaseException"
        return
    for node in ast.walk(expression):
        if isinstance(node, (ast.Name, ast.Attribute)):
            yield node.id if isinstance(node, ast.Name) else node.attr


@lru_cache(maxsize=256)
def _decorators(file: str) -> list[tuple[int, int]]:
    tree = _tree(file)
    nodes = [node for node in ast.walk(tree) if isinstance(node, DECORATED)] if tree else []
    return [(d.lineno, d.end_lineno or d.lineno) for node in nodes for d in node.decorator_list]
