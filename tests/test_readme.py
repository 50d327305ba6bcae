"""The README is true: its example runs as printed, and its pass and primitive work."""

from __future__ import annotations

import ast
import contextlib
import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls.ir import registry
from graphls.passes import manager
from graphls.tensors import apply
from graphls.testing import check_primitive, run_case

README = (Path(__file__).parent.parent / "README.md").read_text()
EXAMPLE, PICTURES, QUESTIONS, TRAINING, PRIMITIVE, PASS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_example_trains_and_settles() -> None:
    output = io.StringIO()
    assert len(EXAMPLE.strip().splitlines()) <= 13
    with contextlib.redirect_stdout(output):
        exec(compile(EXAMPLE, "README.md", "exec"), {})
    rows = [line.split() for line in output.getvalue().splitlines()]
    assert len(rows) == 20 and rows[0][1] == "True" and rows[-1][1] == "False"
    assert float(rows[-1][0]) < float(rows[0][0]) and float(rows[-1][2]) < 2**24


def test_the_step_shows_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(EXAMPLE + PICTURES, "README.md", "exec"), {})
    text = output.getvalue()
    assert "_backbone Dense" in text and "FLOPs" in text and "ms per step" in text
    assert (tmp_path / "step.html").read_text().startswith("<!doctype html>")


def test_commands_name_files_that_a_dump_has(tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(EXAMPLE, "README.md", "exec"), names)
    names["step"].dump(tmp_path)
    (file,) = re.findall(r"python -m graphls \w+ out/(\S+\.ir)", README)
    assert len(list(tmp_path.glob(file))) == 1


def test_the_step_answers_what_overflowed() -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(EXAMPLE + QUESTIONS, "README.md", "exec"), {})
    text = output.getvalue()
    assert "The forward overflows first, in " in text and "no scale can help" in text and "weight" in text


def test_the_training_learns() -> None:
    """From weights that are far from the answer: from others four steps of Adam may go past it."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        graphls.set_seed(2)
        exec(compile(EXAMPLE + TRAINING, "README.md", "exec"), {})
    *_, first, second, result = output.getvalue().splitlines()
    assert first.startswith("epoch: 1 step: 2, loss is ") and second.startswith("epoch: 2 step: 2, loss is ")
    start, loss = float(first.split()[-1]), float(second.split()[-1])
    assert max(loss, ast.literal_eval(result)["mse"]) < 0.1 * start


@pytest.fixture
def registries_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_operations", dict(registry._operations))
    monkeypatch.setattr(manager, "_passes", dict(manager._passes))


@pytest.mark.usefixtures("registries_as_they_were")
def test_the_primitive_has_its_rules() -> None:
    names: dict[str, Any] = {}
    exec(PRIMITIVE, names)
    check_primitive(names["Bell"])
    x = np.linspace(-2, 2, 5, dtype=np.float32)

    def bells(x: Any) -> Any:
        return graphls.ops.sum(apply("bell", x))

    gradient = graphls.grad(bells)(graphls.Tensor(x)).asnumpy()
    np.testing.assert_allclose(gradient, -2 * x * np.exp(-x * x), rtol=1e-5)


@pytest.mark.usefixtures("registries_as_they_were")
def test_the_pass_and_its_case(tmp_path: Path) -> None:
    exec(PASS, {})
    case = re.search(r"^    // pass: square_mul.*?(?=^`)", README, re.DOTALL | re.MULTILINE)
    assert case is not None
    path = tmp_path / "case.ir"
    path.write_text(re.sub(r"^    ", "", case[0], flags=re.MULTILINE))
    run_case(path)
