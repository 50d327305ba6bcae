"""Trainings by recipes beside bfloat16's write a line each, and a table whose worst row is first."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from benchmarks.low_precision import RECIPES, ROWS, main, measured, recipe_of, speed, table
from benchmarks.peers.rows import QUICK_ROWS


def test_two_trainings_make_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    output = tmp_path / "results.jsonl"
    arguments = ["--rows", "perceptron", "--recipes", "none", "current", "--steps", "3", "--here"]
    for _ in range(2):  # the second time all lines are there
        main([*arguments, "--engine", "onnxruntime", "--output", str(output)])
    lines = measured(output)
    assert [line["recipe"] for line in lines] == ["none", "current"]
    assert lines[0]["final"] == pytest.approx(lines[1]["final"], rel=0.05)
    assert len(capsys.readouterr().out.splitlines()) == 2
    header, *rows = table(lines).splitlines()
    assert header.split() == ["row", "recipe", "over", "loss", "bfloat16", "more", "error", "seeds"]
    assert sorted(row.split()[1] for row in rows if "perceptron" in row) == ["current", "none"]


def test_the_ends_of_each_row_are_cells() -> None:
    for name, row in ROWS.items():
        cells = [path for path, _ in row.network().cells_and_names()]
        assert all(any(fnmatchcase(path, end) for path in cells) for end in row.ends)
        recipe = recipe_of(name, "nvfp4 but the ends")
        assert recipe is not None and recipe.keep == row.ends
    assert recipe_of("gpt", "none") is RECIPES["none"] is None


def test_steps_by_recipes_are_timed_beside_float32() -> None:
    header, *rows = speed(QUICK_ROWS["mlp"], "numpy", ["current"], 2).splitlines()
    assert header.split()[:2] == ["on", "numpy"]
    assert sorted(row.split()[0] for row in rows) == ["current", "float32"]
    assert [row.split()[2] for row in rows if row.startswith("float32")] == ["1.00"]
