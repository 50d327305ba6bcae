"""The public names of `graphls.nn`, with what each takes, are those that scripts rely on."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from graphls import nn

KEPT: dict[str, list[str]] = json.loads(Path(__file__).with_name("public_names.json").read_text(encoding="utf-8"))
"""For each name what makes it and, for a cell, what a call of it takes."""


def taken(function: Any) -> str:
    """The parameters of a function with their defaults, without types."""
    parameters = inspect.signature(function).parameters.values()
    shown = []
    for p in parameters:
        default = p.default.__name__ if inspect.isroutine(p.default) else repr(p.default)
        stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**", p.KEYWORD_ONLY: "* "}.get(p.kind, "")
        shown.append(f"{stars}{p.name}" + ("" if p.default is p.empty else f"={default}"))
    return ", ".join(shown)


def described(item: Any) -> list[str]:
    return [taken(item), *([taken(item.construct)] if hasattr(item, "construct") else [])]


def test_the_names_are_those_of_before() -> None:
    assert sorted(nn.__all__) == sorted(KEPT)


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_name_takes_what_it_took(name: str) -> None:
    assert described(getattr(nn, name)) == KEPT[name]


@pytest.mark.parametrize("name", sorted(KEPT))
def test_a_name_has_help(name: str) -> None:
    assert (inspect.getdoc(getattr(nn, name)) or "").strip()
