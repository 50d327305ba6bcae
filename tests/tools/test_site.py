"""The site: every public name is described on it, and links, flowcharts and notebooks become what a page needs."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import pkgutil
import re
import sys
from pathlib import Path

import pytest

import graphls
from tools.operators.subjects import without_subject
from tools.site import flowchart, lacking, links, methods, notebooks, reference

ROOT = Path(__file__).parents[2]
INSIDE = (
    "runtime.lowering", "frontend.trace", "onnx.operators", "compat.", "ops.operations", "ops.functional",
    "dataset.vision.py_",
)  # fmt: skip
"""What has `__all__` and is not for users: the compiler, ONNX operators, names that only scripts of MindSpore use."""


def public_packages() -> list[str]:
    """The modules that say what of them is public."""
    found = [module.name for module in pkgutil.walk_packages(graphls.__path__, "graphls.")]
    shown = [name for name in found if not name[len("graphls.") :].startswith(INSIDE) and "__main__" not in name]
    return ["graphls", *(name for name in shown if "__all__" in vars(importlib.import_module(name)))]


def test_every_public_name_is_described() -> None:
    described = {id(reference.item(path)) for path in reference.entries()}
    paths = [f"{module}.{name}" for module in public_packages() for name in reference.listed(module)]
    lacking = [path for path in paths if is_own(of := reference.item(path)) and id(of) not in described]
    assert lacking == [], "they need a page: tools/site/reference.py"
    assert without_subject() == []


def test_a_name_is_described_once() -> None:
    found = [path for paths in reference.described().values() for path in paths]
    assert len(found) == len({*found}) and {*found} == {*reference.entries().values()}


def is_own(of: object) -> bool:
    """Whether something needs an entry: modules have pages."""
    return not reference.is_value(of) and not inspect.ismodule(of)


def test_every_public_name_has_a_docstring() -> None:
    """A sentence of its own: that of a base class or of a dataclass says nothing about it."""
    for path in reference.entries():
        of = reference.item(path)
        text = inspect.cleandoc(of.__doc__ or "") if not reference.is_value(of) else "A value."
        assert text and not text.startswith(f"{path.rpartition('.')[2]}("), path


def test_public_methods_have_docstrings() -> None:
    """Where a class overrides what a base class describes, that description holds."""
    lacking = []
    for path in {*reference.entries().values()}:
        of = reference.item(path)
        if inspect.isclass(of):
            own = [name for name, item in vars(of).items() if not name.startswith("_") and is_method(item)]
            lacking += [f"{path}.{name}" for name in own if not inspect.getdoc(getattr(of, name))]
    assert sorted(lacking) == []


def is_method(item: object) -> bool:
    return inspect.isfunction(item) or isinstance(item, (property, classmethod, staticmethod))


def test_methods_of_tensors_lead_to_functions() -> None:
    text = methods.listed()
    assert "[`abs`][graphls.ops.abs]" in text and "`add_`" in text and "\n| `asnumpy`" not in text
    assert set(re.findall(r"\]\[(.*?)\]", text)) <= reference.entries().keys()


def test_names_in_the_text_lead_to_their_entries() -> None:
    entries = {"graphls.nn.Dense": "graphls.nn.Dense", "graphls.amp.Scaler": "graphls.nn.Scaler"}
    assert links.named("`nn.Dense`, `amp.Scaler`", entries) == (
        "[`nn.Dense`][graphls.nn.Dense], [`amp.Scaler`][graphls.nn.Scaler]"
    )
    unchanged = "`nn.Other` [`nn.Dense`](x.md)\n```python\n`nn.Dense`\n```\n"
    assert links.named(unchanged, entries) == unchanged
    assert links.rows("| `sum` | x |", "ops") == "| [`sum`][graphls.ops.sum] | x |"


@pytest.mark.parametrize(
    ("source", "text", "becomes"),
    [
        ("README.md", "[a](docs/onnx.md#b) ![c](docs/images/step.png)", "[a](onnx.md#b) ![c](images/step.png)"),
        ("docs/a.md", "[a](../README.md) [b](b.md) [c](https://d.e/f.md)", "[a](index.md) [b](b.md) [c](https://d.e/f.md)"),
        ("docs/decisions/a.md", "[a](../../README.md) [b](../onnx.md)", "[a](../index.md) [b](../onnx.md)"),
        ("docs/a.md", "```python\nx[0](y)\n```\n", "```python\nx[0](y)\n```\n"),
    ],
)
def test_links_lead_to_pages_of_the_site(source: str, text: str, becomes: str) -> None:
    assert links.relinked(text, source, {"README.md": "index.md"}) == becomes


def test_flowcharts_are_drawn() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = flowchart.drawn(page)
    edges = len(re.findall(r"^ +\w+ --> \w+$", page, re.MULTILINE))
    assert "mermaid" not in drawn and drawn.count("<rect") == len(re.findall(r'\["<b>', page))
    assert len(re.findall(r"l4 6 4 -6", drawn)) == edges
    with pytest.raises(ValueError, match="draws"):
        flowchart.drawn("```mermaid\npie\n```\n")


def test_notebooks_become_pages() -> None:
    outputs = [{"text": ["2\n"]}, {"data": {"text/html": "<b>2</b>", "text/plain": "2"}}]
    cells = [
        {"cell_type": "markdown", "source": ["# Two\n", "\n", "Text."]},
        {"cell_type": "code", "source": "1 + 1", "outputs": outputs},
        {"cell_type": "code", "source": "", "outputs": []},
    ]
    shown = ["```{.text .output}\n2\n```", '<div class="output">\n<b>2</b>\n</div>\n']
    parts = ["# Two", "Text.", "```python\n1 + 1\n```", *shown]
    assert notebooks.page(json.dumps({"cells": cells})) == "\n\n".join(parts)


def test_no_entry_lacks_anything() -> None:
    """Types, a first sentence, errors, shapes and examples; what is told of belongs into the docstring."""
    assert lacking.messages() == []


def test_what_lacks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
from graphls.ir.errors import GraphKeyError, GraphValueError
def helper() -> None:
    raise GraphKeyError("no")
def calls(x: "Tensor", y) -> "Tensor":
    \"\"\"Something\"\"\"
    helper()
class Kind:
    \"\"\"A kind.\"\"\"
    def method(self) -> None:
        \"\"\"Raises GraphlsError.\"\"\"
        raise GraphValueError("no")
    def other(self):
        \"\"\"A sentence.\"\"\"
"""
    (tmp_path / "made_up.py").write_text(code)
    spec = importlib.util.spec_from_file_location("graphls.made_up", tmp_path / "made_up.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "graphls.made_up", module)
    spec.loader.exec_module(module)
    paths = {f"graphls.made_up.{name}": f"graphls.made_up.{name}" for name in ("calls", "Kind")}
    monkeypatch.setattr(reference, "described", lambda: {"page": tuple(paths)})
    monkeypatch.setattr(reference, "entries", lambda: paths)
    monkeypatch.setattr(reference, "examples", dict)
    assert lacking.messages() == [
        "graphls.made_up.Kind: an example",
        "graphls.made_up.Kind.other: the type of what it returns",
        "graphls.made_up.calls: a first sentence; types of y; errors: GraphKeyError; shapes or dtypes; an example",
    ]
