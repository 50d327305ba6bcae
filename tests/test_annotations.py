"""How many parameters of each package say `Any`: fewer than they did, so that editors and mypy know what calls take."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import parsed

ROOT = Path(__file__).parent.parent / "graphls"
MOST = {"nn": 0.05, "compat": 0.05}
"""The largest share of parameters with `Any` in their annotation."""


def parameters(path: Path) -> Iterator[ast.arg]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found = node.args
            starred = (arg for arg in (found.vararg, found.kwarg) if arg is not None)
            yield from (*found.posonlyargs, *found.args, *found.kwonlyargs, *starred)


def says_any(parameter: ast.arg) -> bool:
    names = ast.walk(parameter.annotation) if parameter.annotation is not None else ()
    return any(isinstance(name, ast.Name) and name.id == "Any" for name in names)


@pytest.mark.parametrize("package", MOST)
def test_few_parameters_take_anything(package: str) -> None:
    found = [p for path in (ROOT / package).rglob("*.py") for p in parameters(path) if p.arg not in ("self", "cls")]
    assert len(found) > 1000 and sum(map(says_any, found)) < MOST[package] * len(found)
