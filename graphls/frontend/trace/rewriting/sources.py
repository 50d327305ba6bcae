"""Finds the syntax tree of a function in its source file."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from graphls.frontend.trace.rewriting.names import FUNCTIONS

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class ScopedDefinition(NamedTuple):
    """A definition with the name of its class, for names that begin with two underscores."""

    node: Definition
    owner: str


Index = dict[tuple[int, str], list[ScopedDefinition]]
_MOST_FILES = 32
_files: dict[str, tuple[list[str], Index]] = {}


def definition_of(function: FunctionType) -> ScopedDefinition | None:
    """The definition of a function; None where its source is missing or several definitions match."""
    code = function.__code__
    definitions = [f for f in _index(function).get((code.co_firstlineno, code.co_name), ()) if _fits(f.node, code)]
    return definitions[0] if len(definitions) == 1 else _innermost(definitions, code)


def _innermost(definitions: list[ScopedDefinition], code: CodeType) -> ScopedDefinition | None:
    """The innermost of several lambdas of one line that spans all columns of the code; None before Python 3.11."""
    positions: Iterable[tuple[Any, ...]] = getattr(code, "co_positions", tuple)()
    spans = [
        ((line, start), (last, end))
        for line, last, start, end in positions
        if None not in (line, last, start, end) and end
    ]
    holding = [f for f in definitions if all(_start(f.node) <= first and last <= _end(f.node) for first, last in spans)]
    if not spans or not holding:
        return None
    innermost = max(holding, key=lambda f: _start(f.node))
    return innermost if all(_end(innermost.node) <= _end(f.node) for f in holding) else None


def _start(node: Definition) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: Definition) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


def _index(function: FunctionType) -> Index:
    name = function.__code__.co_filename
    lines = linecache.getlines(name, function.__globals__)
    known = _files.get(name)
    if known is not None and known[0] is lines:
        return known[1]
    try:
        tree = ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = ast.Module([], [])
    index: Index = {}
    for definition in _definitions(tree, ""):
        node = definition.node
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        index.setdefault((first, getattr(node, "name", "<lambda>")), []).append(definition)
    while len(_files) >= _MOST_FILES:
        del _files[next(iter(_files))]
    _files[name] = lines, index
    return index


def _definitions(node: ast.AST, owner: str) -> Iterator[ScopedDefinition]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*FUNCTIONS, ast.Lambda)):
            yield ScopedDefinition(child, owner)
        yield from _definitions(child, child.name if isinstance(child, ast.ClassDef) else owner)


def _fits(node: Definition, code: CodeType) -> bool:
    """Whether a definition has the parameters of the code and contains the names that it reads."""
    a = node.args
    names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    names += [p.arg for p in (a.vararg, a.kwarg) if p is not None]
    if len(names) > code.co_nlocals or not all(map(_same_name, names, code.co_varnames)):
        return False
    known = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    known |= {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return all(name in known or name.startswith(("__", "_", "@")) for name in code.co_freevars)


def _same_name(written: str, compiled: str) -> bool:
    return written == compiled or compiled.endswith(written)
