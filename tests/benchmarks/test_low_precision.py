"""Trainings by recipes beside bfloat16's write a line each, and a table whose worst row is first."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from benchmarks.low_precision import CAUSES, RECIPES, ROWS, main, measured, phases, speed, table
from benchmarks.peers.rows import QUICK_ROWS
from graphls import amp
from graphls.ir import parse_type


def test_trainings_make_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    output, switched = tmp_path / "results.jsonl", "nvfp4, then none"
    arguments = ["--rows", "perceptron", "--recipes", "none", switched, "--steps", "3", "--here"]
    for _ in range(2):  # the second time all lines are there
        main([*arguments, "--engine", "onnxruntime", "--output", str(output)])
    lines = measured(output)
    assert [line["recipe"] for line in lines] == ["none", switched]
    assert lines[0]["final"] == pytest.approx(lines[1]["final"], rel=0.05)
    assert len(capsys.readouterr().out.splitlines()) == 2
    header, *rows = table(lines).splitlines()
    assert header.split() == ["row", "recipe", "over", "loss", "bfloat16", "more", "error", "seeds"]
    assert sorted(row.split()[1] for row in rows if "perceptron" in row) == ["none", "nvfp4,"]


def test_the_parts_that_recipes_keep_are_cells() -> None:
    for row in ROWS.values():
        cells = [path for path, _ in row.network().cells_and_names()]
        assert all(any(fnmatchcase(path, part) for path in cells) for part in (*row.ends, *row.last_block))
        ((recipe, _),) = phases(row, RECIPES["nvfp4 but the ends and the last block"], 10)
        assert recipe is not None and recipe.keep == (*row.ends, *row.last_block)
        assert [*phases(row, RECIPES["none"], 10)] == [(None, 10)]
        assert [*phases(row, RECIPES["nvfp4, then none"], 10)] == [(amp.NVFP4(), 8), (None, 2)]


def test_causes_are_parts_of_the_recipe() -> None:
    kind = parse_type("f32[32,16]")
    for plan in CAUSES.values():
        assert sum(share for _, share in plan.recipes) == 1
    ((recipe, _),) = CAUSES["nvfp4 of activations"].recipes
    assert recipe is not None and recipe.form("weight", "forward", kind, (1,)) is None
    assert recipe.form("input", "forward", kind, (1,)) == amp.NVFP4().form("input", "forward", kind, (1,))


def test_steps_by_recipes_are_timed_beside_float32() -> None:
    header, *rows = speed(QUICK_ROWS["mlp"], "numpy", ["current"], 2).splitlines()
    assert header.split()[:2] == ["on", "numpy"]
    assert sorted(row.split()[0] for row in rows) == ["current", "float32"]
    assert [row.split()[2] for row in rows if row.startswith("float32")] == ["1.00"]
