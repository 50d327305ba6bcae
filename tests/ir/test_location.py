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
from graphls.ir import dump, parse
from graphls.ir.errors import GraphlsError
from graphls.ir.location import Location

CODE = "def run(x):\n\n    return ops.reshape(x, (5, 7))\n"
X = np.ones(3, np.float32)


class Compiler:
    """What of IPython's compiler is used."""

    def __init__(self, names: dict[str, int]) -> None:
        self.names = names

    def format_code_name(self, name: str) -> tuple[str, str] | None:
        return ("Cell", f"In[{self.names[name]}]") if name in self.names else None


def defined_in(file: str) -> Any:
    """The function of a cell that was compiled under the name of a file, as notebooks do."""
    linecache.cache[file] = len(CODE), None, CODE.splitlines(True), file
    names: dict[str, Any] = {"ops": ops}
    exec(compile(CODE, file, "exec"), names)
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
    assert str(Location("ipykernel_4711/1234567890.py", 6)) == "Cell In[2], line 6"


def test_a_cell_that_is_no_longer_known_and_other_files(kernel: str) -> None:
    assert str(Location("/tmp/ipykernel_1/99.py", 3)) == "/tmp/ipykernel_1/99.py:3"
    assert str(Location("model.py", 3)) == "model.py:3"


def test_a_cell_of_a_terminal() -> None:
    assert told(defined_in("<ipython-input-12-0a1b2c3d>")).endswith("(Cell In[12], line 3)")


def test_profiles_and_the_text_form(kernel: str) -> None:
    defined = defined_in(kernel)
    step = graphls.compile(lambda x: defined(x), np.ones((35,), np.float32))
    assert "Cell In[2], line 3" in str(step.profile(np.ones((35,), np.float32), steps=1))
    text = dump(step.graph)
    assert "Cell" not in text and dump(parse(text)) == text
