"""Words of the old vocabulary name no module, class, function or value; the glossary has the terms instead."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import graphls
from tests.sources import parsed

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


@cache
def _definitions() -> list[tuple[str, int, str, bool]]:
    """Each name that a file of graphls defines: the file, the line, the name, and whether it is one of a value."""
    root = Path(graphls.__file__).parent
    definitions = []
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root).as_posix()
        definitions.append((path, 1, file.stem, False))
        for node in ast.walk(parsed(file)):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                definitions.append((path, node.lineno, node.name, False))
            elif isinstance(node, ast.arg):
                definitions.append((path, node.lineno, node.arg, True))
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                definitions.append((path, node.lineno, node.id, True))
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                definitions.append((path, node.lineno, node.attr, True))
    return definitions


def test_words_that_are_gone_name_nothing() -> None:
    gone = [
        f"{file}:{line}: {name}, write {GONE[word]}"
        for file, line, name, is_value in _definitions()
        if not is_value and (word := name.strip("_").lower()) in GONE
    ]
    assert gone == []


def test_values_are_named_after_what_they_are() -> None:
    vague = [
        f"{file}:{line}: {name}"
        for file, line, name, _ in _definitions()
        if name.strip("_").lower() in VAGUE - PUBLIC.get(file, set())
    ]
    assert vague == []
