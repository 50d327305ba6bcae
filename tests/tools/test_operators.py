"""The pages of operators are what the code says, and they say something of each."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import graphls
from graphls import nn, ops
from graphls.compat.hook.finder import lookup
from graphls.frontend.names.lazy import is_missing
from graphls.ops.operations import OPERATORS
from tools.operators import examples
from tools.operators.__main__ import main
from tools.operators.names import names, sections
from tools.operators.page import cell_row, function_row, known_of
from tools.operators.probe import Finding, probe, probe_cell
from tools.operators.subjects import SUBJECTS

FOLDER = Path(__file__).parents[2] / "docs" / "operators"
PAGES = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}


def test_pages_are_those_that_would_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["tools.operators", "--check"])
    assert main() is None


def test_every_name_stands_on_its_page() -> None:
    for subject in SUBJECTS:
        assert re.findall(r"^\| `(\w+)`", PAGES[subject.file], re.MULTILINE), subject.file
    rows = set(re.findall(r"^\| `(\w+)`", "\n".join(PAGES.values()), re.MULTILINE))
    assert rows == {*ops.__all__, *nn.__all__}
    lacking = " ".join(PAGES["not_offered.md"].split())
    for section in sections():
        assert ", ".join(n for n in section.names if not is_offered(section.kind, n)) in lacking
    assert "jet" in lacking and "mse_loss," not in lacking
    assert {"Accuracy", "ROC", "Loss"}.isdisjoint(re.findall(r"\w+", lacking))


def test_rows_are_true() -> None:
    """Of some names; `make pages` tries all."""
    known = known_of(PAGES)
    of = {f"{s.package}.{name}": (s, name, item) for s in SUBJECTS for name, item in s.members.items()}
    for path in sorted(of)[7::40]:
        subject, name, item = of[path]
        row = {"ops": function_row, "nn": cell_row}[subject.package]
        assert row(name, item, {}) == row(name, item, known), path


def test_operators_and_cells_have_examples_that_are_true() -> None:
    """All functions, and some cells; `make pages` runs all."""
    for subject in SUBJECTS:
        found = examples.examples(subject.file, subject.paths)
        texts = dict(zip(found, examples.written(PAGES[subject.file]), strict=True))
        for path in list(found)[:: 1 if subject.package == "ops" else 12]:
            assert examples.shown(found[path]) == texts[path], path


def test_an_example_as_a_prompt_shows_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = examples.statements('x = Tensor([1.0]); print("x is", x); ops.exp(x)')
    text = '>>> x = Tensor([1.0])\n>>> print("x is", x)\nx is [1.]\n>>> ops.exp(x)\n'
    assert examples.shown(lines) == text + "Tensor(shape=[1], dtype=Float32, value=[2.7183])"
    assert examples.imports(lines) == ["from graphls import Tensor, ops"]
    monkeypatch.setattr(examples, "FOLDER", tmp_path)
    (tmp_path / "page.txt").write_text("get: x = ops.make(1); ops.get(x)\nops.make(2)\n")
    found = examples.examples("page.md", ["graphls.ops.get", "graphls.ops.make"])
    assert found == {"graphls.ops.get": ["x = ops.make(1)", "ops.get(x)"], "graphls.ops.make": ["ops.make(2)"]}
    with pytest.raises(ValueError, match=r"page.txt has a line for an unknown name.*: ops.make\(2\)"):
        examples.examples("page.md", ["graphls.ops.get"])


def is_offered(kind: str, name: str) -> bool:
    """Whether a script gets a name of MindSpore from where that has it."""
    modules = {"ops": ["ops"], "class": ["ops", "ops.operations"], "nn": ["nn"]}[kind]
    found = [lookup(f"mindspore.{module}", name) for module in modules]
    return not all(map(is_missing, found)) or (kind == "ops" and name in OPERATORS)


def test_the_names_of_mindspore() -> None:
    assert {"relu", "cross_entropy", "einsum", "vmap"} <= names("ops")
    assert {"ReLU", "Softmax", "ReduceSum"} <= names("class") and {"Dense", "CrossEntropyLoss"} <= names("nn")


FLOATS = ("float16", "bfloat16", "float32", "float64")


@pytest.mark.parametrize(
    ("function", "dtypes", "gradient"),
    [
        (ops.matmul, None, True),
        (ops.floor, None, False),
        (ops.argmax, None, False),
        (ops.cross_entropy, None, True),
        (lambda x: graphls.tensors.dispatch.apply("exp", x), FLOATS, True),
        (ops.zeros, (), False),
    ],
)
def test_functions_are_probed(function: Any, dtypes: Any, gradient: bool) -> None:
    found = probe(function)
    assert isinstance(found, Finding) and found.gradient is gradient and found.cpu and found.cuda
    if dtypes is not None:
        assert tuple(d.long_name for d in found.dtypes) == dtypes


def test_cells_are_probed() -> None:
    for kind in (nn.Dense, nn.Conv2d, nn.CrossEntropyLoss, nn.MSELoss, nn.Threshold, nn.CosineEmbeddingLoss):
        found = probe_cell(kind)
        assert found is not None and found.gradient and {d.long_name for d in found.dtypes} >= {"float16", "float32"}
    assert probe_cell(nn.Momentum) is None and probe_cell(nn.WithLossCell) is None


def test_what_no_arguments_fit_has_no_finding() -> None:
    def refuses(x: Any) -> Any:
        raise graphls.GraphlsError("no")

    assert probe(refuses) is None
