"""Lines of users as text: of files, and of cells of notebooks as these show them."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.base.location import Location
from graphls.inspect.viz.dot import to_dot
from graphls.inspect.viz.page_data import page_data
from graphls.inspect.viz.svg import to_svg
from graphls.ir import dump, parse
from graphls.ir.errors import GraphlsError
from graphls.onnx.importing.origins import Origin, origin_of

CODE = "def run(x):\n\n    return ops.reshape(x, (5, 7))\n"
X = np.ones(3, np.float32)


class Compiler:
    """What of IPython's compiler is used."""

    def __init__(self, names: dict[str, int]) -> None:
        self.names = names

    def format_code_name(self, name: str) -> tuple[str, str] | None:
        return ("Cell", f"In[{self.names[name]}]") if name in self.names else None


def defined_in(file: str, code: str = CODE) -> Any:
    """The function of a cell that was compiled under the name of a file, as notebooks do."""
    linecache.cache[file] = len(code), None, code.splitlines(True), file
    names: dict[str, Any] = {"ops": ops}
    exec(compile(code, file, "exec"), names)
    return names["run"]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The name of the file of a cell, as kernels of Jupyter give it."""
    file = str(tmp_path / "ipykernel_4711" / "1234567890.py")
    shell = SimpleNamespace(compile=Compiler({file: 2}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return file


def told(function: Any) -> str:
    with pytest.raises(GraphlsError) as caught:
        function(X)
    return str(caught.value)


def test_a_cell_of_a_notebook(kernel: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert told(defined_in(kernel)).endswith("(Cell In[2], line 3)")
    monkeypatch.chdir(tmp_path)  # from where names of files are shorter
    assert told(defined_in(kernel)).endswith("(Cell In[2], line 3)")


def test_a_cell_that_runs_again_has_its_new_number(kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(defined_in(kernel)).endswith("(Cell In[2], line 3)")
    shell = SimpleNamespace(compile=Compiler({kernel: 5}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert told(defined_in(kernel)).endswith("(Cell In[5], line 3)")


def test_a_cell_that_is_no_longer_known_and_other_files(kernel: str) -> None:
    assert str(Location("/tmp/ipykernel_1/99.py", 3)) == "/tmp/ipykernel_1/99.py:3"
    assert str(Location("model.py", 3)) == "model.py:3"


def test_a_cell_of_a_terminal() -> None:
    assert told(defined_in("<ipython-input-12-0a1b2c3d>")).endswith("(Cell In[12], line 3)")


@pytest.fixture
def step(kernel: str) -> graphls.Compiled:
    """A step of a cell of a notebook, whose result overflows."""
    code = "def run(x):\n    y = ops.exp(x)\n    return ops.reshape(y, (5, 7))\n"
    defined = defined_in(kernel, code)
    return graphls.compile(lambda x: defined(x), np.ones((35,), np.float32))


def test_the_text_form(step: graphls.Compiled, kernel: str) -> None:
    text = dump(step.graph)
    assert str(step.graph) == text and kernel not in text
    assert "exp(%x0) : f32[35]  // forward | Cell In[2], line 2\n" in text
    again = parse(text)
    assert dump(again) == text and again.nodes[0].loc == step.graph.nodes[0].loc == Location("Cell In[2]", 2)
    assert all(str(node.loc).startswith("Cell In[2], line ") for node in again.nodes)


def test_profiles_explanations_and_pictures(step: graphls.Compiled, kernel: str) -> None:
    profile = step.profile(np.ones((35,), np.float32), steps=1)
    explanation = step.explain_overflow(np.full((35,), 100, np.float32))
    assert kernel not in str(profile.memory)
    assert explanation.first is not None and explanation.first.code == "y = ops.exp(x)"
    texts = [profile, explanation, explanation._repr_html_(), to_svg(step.graph), to_dot(step.graph)]
    assert ["Cell In[2], line " in str(text) and kernel not in str(text) for text in texts] == [True] * len(texts)


def test_the_page_has_the_lines_of_the_cell(step: graphls.Compiled, kernel: str, tmp_path: Path) -> None:
    text = step.show(tmp_path / "page.html").read_text(encoding="utf-8")
    assert kernel not in text and "ipykernel" not in text
    (file,) = page_data(step.stages, "page")["files"]
    assert (file["name"], file["before_line"]) == ("Cell In[2]", ", line ")
    assert file["lines"]["2"] == "    y = ops.exp(x)"


def test_the_text_of_another_notebook_has_no_lines_of_this_one(step: graphls.Compiled) -> None:
    (file,) = page_data({"read": parse(dump(step.graph))}, "page")["files"]
    assert file["name"] == "Cell In[2]" and file["lines"] == {}


def test_an_exported_model_keeps_the_cell(step: graphls.Compiled) -> None:
    (first, *_) = (origin_of(proto, Origin()) for proto in step.onnx.graph.node if proto.op_type == "Exp")
    assert first.loc == Location("Cell In[2]", 2)
