"""What people see of graphls in a notebook, in a kernel of Jupyter: cards, lines of progress, tracebacks, warnings.

`make gallery` installs the kernel and runs this.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tools import gallery

pytest.importorskip("nbclient")


def notebook(*sources: str, **metadata: Any) -> dict[str, Any]:
    cells = [{"cell_type": "code", "metadata": metadata, "source": s.splitlines(keepends=True)} for s in sources]
    return {"cells": cells}


def shown(*sources: str, **metadata: Any) -> list[list[Any]]:
    """What each cell of a notebook shows: texts that are printed, and dicts of forms."""
    cells = gallery.run(notebook(*sources, **metadata))["cells"]
    return [["".join(o["text"]) if o["output_type"] == "stream" else o["data"] for o in c["outputs"]] for c in cells]


TRAINED = """\
import numpy as np
import graphls
from graphls import dataset as ds, nn, ops
from graphls.train import Model, Progress
rng = np.random.default_rng(0)
rows = ds.NumpySlicesDataset((rng.normal(size=(8, 4)).astype("f"), rng.normal(size=(8, 1)).astype("f"))).batch(2)
net = nn.Dense(4, 1)
model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
model.train(2, rows, callbacks=[Progress()])
"""
COMPILED = """\
step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
x, y = np.ones((2, 4), np.float32), np.ones((2, 1), np.float32)
compiled = graphls.compile(step, x, y)
compiled
"""
CARDS = {
    COMPILED: "Compiled",
    "net": "Dense",
    "compiled.profile(x, y, steps=2)": "Profile",
    "compiled.explain_overflow(x, y)": "OverflowExplanation",
    "rows": "BatchDataset",
}


def test_cards_progress_and_what_cells_print() -> None:
    class_of_own = (
        "class A:\n  def __repr__(self): return '<A at 0x7f12ab>'\n  def _repr_html_(self): return '<b>\\n</b>'\nA()"
    )
    printed = "print(1)\ndisplay(2, 3)\nprint(4)"
    read = "def f(x):\n    if x.sum() > 0:\n        return x\n    return -x\nprint(graphls.compile(f, x)(-x))"
    progress, *cards, own, parts, function = shown(TRAINED, *CARDS, class_of_own, printed, read)
    (lines,) = progress
    assert re.fullmatch(r"(epoch [12]/2: 4 steps in \d+\.\d s \([^)]+\), loss [\d.e-]+\n){2}", lines)
    for source, outputs in zip(CARDS, cards, strict=True):
        (card,) = outputs
        text = "".join(card["text/html"])
        assert text.startswith("<") and "graphls" in text and "<script" not in text, source
        assert "ipykernel" not in text, "a line is one of a cell"
    assert own == [{"text/plain": ["<A>"], "text/html": ["<b>\n", "</b>"]}]
    assert parts == ["1\n", {"text/plain": ["2"]}, {"text/plain": ["3"]}, "4\n"]
    assert function == ["[[1. 1. 1. 1.]\n [1. 1. 1. 1.]]\n"]


WRONG = """\
class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.head = nn.Dense(3, 1)
    def construct(self, x):
        return self.head(x)

graphls.compile(Net(), np.ones((2, 4), np.float32))
"""


def test_a_traceback_ends_at_the_line_of_the_cell() -> None:
    with pytest.raises(Exception, match="GraphValueError") as failed:
        gallery.run(notebook("import numpy as np\nimport graphls\nfrom graphls import nn", WRONG))
    text = gallery.COLOUR.sub("", str(failed.value))
    assert "(Cell In[2], line 6)" in text and "frames of graphls left out" in text
    assert "self.head(x)" in text and "site-packages" not in text and "graphls/nn/" not in text


def test_a_warning_is_an_error_unless_the_cell_says_that_it_warns() -> None:
    source = "import warnings\nwarnings.warn('mind this')\n1"
    with pytest.raises(Exception, match="mind this"):
        gallery.run(notebook("1", source))
    assert shown(source, tags=["warns"]) == [["UserWarning: mind this\n", {"text/plain": ["1"]}]]
    with pytest.raises(ValueError, match="Cell 1 has the tag 'warns' and does not warn"):
        gallery.run(notebook("1", tags=["warns"]))


def test_a_run_writes_what_is_shown_or_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    (tmp_path / "images").mkdir()
    monkeypatch.setattr(gallery, "GALLERY", tmp_path)
    path = tmp_path / "one.ipynb"
    html = '<p style="--red:#f00"><svg style="a:b" fill="var(--red)"></svg></p>'
    source = f"class A:\n  def _repr_html_(self): return {html!r}\nA()"
    path.write_text(gallery.written({"cells": [{**cell, "outputs": []} for cell in notebook(source)["cells"]]}))
    before = path.read_text()
    assert "shows other things" in gallery.run_file(path, True) and path.read_text() == before
    path.write_text(gallery.written(notebook(source, picture=1)))
    assert gallery.run_file(path, False) == "" and path.read_text() != before
    head, style = '<svg xmlns="http://www.w3.org/2000/svg" ', "color-scheme:light dark;--red:#f00;a:b"
    picture = (tmp_path / "images" / "one.svg").read_text()
    assert picture == f'{head}style="{style}" fill="var(--red)"></svg>\n'
    before = path.read_text()
    assert gallery.run_file(path, True) == "" and path.read_text() == before
    path.write_text(gallery.written(notebook("1 / 0")))
    fault = gallery.run_file(path, False)
    assert "one.ipynb" in fault and "Cell In[1], line 1" in fault and "CPU" in capsys.readouterr().out
