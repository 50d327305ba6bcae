"""Words of the old vocabulary name no module, class, function or value; the glossary has the terms instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import graphls

GONE = {
    "asides": "background segments",
    "asking": "import intent",
    "bench": "plan context",
    "doubt": "inconclusive bound",
    "drawn_nodes": "host random nodes",
    "held_as": "fitted array",
    "held_here": "local array",
    "if_rounds": "if iterations",
    "in_waves": "communication overlap",
    "joined_by_all": "gathered by all",
    "looks": "exact check",
    "misfits": "check of graph types",
    "shelf": "cache entry",
    "slots_of": "boundary buffers",
    "soon": "list scheduling",
    "spoil": "invalidate",
    "take_back": "remove since",
    "tells": "exact check",
    "waves": "communication overlap",
}
"""Names in lower case, without underscores around them, and the term that stands in the place of each."""


VAGUE = {"asked", "found", "given", "kept", "made", "needed", "said", "taken", "told", "wanted", "whole"}
"""Words that name no value either, as they say how a value came about and not what it is."""

PUBLIC = {
    "inspect/diagnosis/recording.py": {"found"},
    "inspect/summary/plan.py": {"made"},
    "inspect/summary/summary.py": {"made", "kept"},
    "ir/build.py": {"taken"},
    "passes/distributed/shard.py": {"whole"},
}
"""Fields that users read by such a name."""


def _names(file: Path) -> Iterator[tuple[str, int]]:
    """The name of a module and those of its classes and functions, each with its line."""
    yield file.stem, 1
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name, node.lineno


def test_words_that_are_gone_name_nothing() -> None:
    root = Path(graphls.__file__).parent
    named = ((file, name, line) for file in sorted(root.rglob("*.py")) for name, line in _names(file))
    found = [
        f"{file.relative_to(root)}:{line}: {name}, write {GONE[word]}"
        for file, name, line in named
        if (word := name.strip("_").lower()) in GONE
    ]
    assert found == []


def _values(file: Path) -> Iterator[tuple[str, int]]:
    """The names of variables, arguments, functions and attributes that a file defines, each with its line."""
    yield from _names(file)
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def test_values_are_named_after_what_they_are() -> None:
    root = Path(graphls.__file__).parent
    vague = [
        f"{file.relative_to(root)}:{line}: {name}"
        for file in sorted(root.rglob("*.py"))
        for name, line in _values(file)
        if name.strip("_").lower() in VAGUE - PUBLIC.get(file.relative_to(root).as_posix(), set())
    ]
    assert vague == []
