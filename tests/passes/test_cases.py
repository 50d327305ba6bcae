"""Every tests/passes/*/*.ir: a graph before and after a pass; `pytest --bless` rewrites the lower halves."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphls.diagnosis  # noqa: F401  its passes are not known before
from graphls.passes import manager
from graphls.testing import run_case

FOLDER = Path(__file__).parent
CASES = sorted(FOLDER.glob("*/*.ir"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_case(path: Path, bless: bool) -> None:
    run_case(path, bless)


def test_there_are_cases_for_every_pass() -> None:
    names = {name for name, kind in manager._passes.items() if kind.__module__.startswith("graphls.")}
    assert {path.parent.name for path in CASES} >= names > {"gradient", "rescale"}
