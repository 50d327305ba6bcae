"""Scripts that import mindspore, and their tests, in processes in which cells run on the GPU by default."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.compat.test_pytest_plugin import SUITES, run

Note = Callable[[str], None]


@pytest.mark.parametrize("name", SUITES)
def test_a_suite_passes(name: str, note: Note, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHLS_DEVICE", "cuda")
    code, said = run(tmp_path, name)
    for line in said.splitlines():
        if line.startswith(("E  ", "FAILED", "ERROR")) or " passed" in line or " failed" in line:
            note(f"{name}: {line[:250]}")
    assert code == 0
