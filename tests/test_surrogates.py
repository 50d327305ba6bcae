"""Single surrogates, as names of files bring them that are no UTF-8, in names of cells, parameters and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import nn
from graphls.base.files.files import write_text
from graphls.ir.compare import same
from graphls.ir.errors import GraphlsError
from graphls.ir.text import dump
from graphls.train import export, load_checkpoint, save_checkpoint

NAMES = ("a\udc80", "a\udc81", "a\\udc80", "\ud800")
X, Y = np.ones((2, 2), np.float32), np.zeros((2, 2), np.float32)
SOURCE = """
def construct(self, x):
    for name in NAMES:
        x = self.name_cells()[name](x)
    return x * self.own
"""


def network(tmp_path: Path) -> Any:
    """A network whose cells have these names, in a file that has one."""
    names: dict[str, Any] = {"NAMES": NAMES}
    exec(compile(SOURCE, str(tmp_path / "net\udc80.py"), "exec"), names)
    net = type("Net", (nn.Cell,), {"construct": names["construct"]})()
    net.own = graphls.Parameter(np.ones(2, np.float32), name="own\udc80")
    for name in NAMES:
        net.insert_child_to_cell(name, nn.Dense(2, 2))
    return net


def step_of(net: Any, backend: str) -> graphls.Compiled:
    cell = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
    return graphls.compile(cell, X, Y, backend=backend)


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_a_step_runs_and_is_written(backend: str, tmp_path: Path) -> None:
    net = network(tmp_path)
    step = step_of(net, backend)
    first = float(step(X, Y))
    assert float(step(X, Y)) < first
    assert {p.name for p in net.get_parameters()} <= set(step.parameters)
    step.dump(tmp_path / "out\udc80")
    written = sorted((tmp_path / "out\udc80").iterdir())
    assert [p.name for p in written if p.suffix == ".ir"] == [f"{name}.ir" for name in step.stages]
    for stage, graph in step.stages.items():
        text = (tmp_path / "out\udc80" / f"{stage}.ir").read_text(encoding="utf-8")
        assert text == dump(graph) and same(graphls.parse(text), graph)
        assert dump(graphls.parse(text)) == text
    for path in written:
        if path.suffix != ".onnx":
            path.read_text(encoding="utf-8")


def test_names_in_a_model_are_text_and_differ(tmp_path: Path) -> None:
    step = step_of(network(tmp_path), "onnxruntime")
    step.save(tmp_path / "step.onnx")
    model = onnx.load(tmp_path / "step.onnx")
    onnx.checker.check_model(model)
    names = [info.name for info in model.graph.input] + [name for node in model.graph.node for name in node.output]
    assert len(set(names)) == len(names) and len({node.name for node in model.graph.node}) == len(model.graph.node)
    assert any("a\\udc80.weight" in name for name in names)


def test_an_exported_network_gives_its_numbers(tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    net = network(tmp_path)
    export(net, X, file_name=tmp_path / "net\udc80.onnx", file_format="ONNX")
    session = runtime.InferenceSession((tmp_path / "net\udc80.onnx").read_bytes())
    np.testing.assert_allclose(session.run(None, {"x": X})[0], net(X).asnumpy(), rtol=1e-6)


def test_reports_can_be_printed(tmp_path: Path) -> None:
    net = network(tmp_path).to_float(graphls.float16)
    manager = nn.DynamicLossScaleUpdateCell(2.0**24, 2, 100)
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    cell = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, nn.MSELoss()), optimizer, manager)
    step = graphls.compile(cell, X, Y, backend="numpy")
    ranges = step.gradient_ranges(X, Y)
    net.name_cells()[NAMES[0]].weight.set_data(np.full((2, 2), 60_000, np.float32))
    found = step.explain_overflow(X, Y)
    for report in (ranges, found):
        assert "\\udc80" in str(report) and "\\udc80" in report._repr_html_()
        (str(report) + report._repr_html_()).encode()


@pytest.mark.parametrize("format", ["ckpt", "safetensors"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_checkpoint_cannot_hold_them_and_says_so(format: str, is_async: bool, tmp_path: Path) -> None:
    path = str(tmp_path / f"a.{format}")
    for entries in ({"w\udc80": X}, {"file": "data\udc80.txt"}):
        with pytest.raises(GraphlsError, match=r"single surrogate '\\udc80'.*test_surrogates"):
            save_checkpoint(entries, path, format=format, async_save=is_async)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_may_be_in_a_file_that_has_one(tmp_path: Path) -> None:
    save_checkpoint(nn.Dense(2, 2), str(tmp_path / "a\udc80.ckpt"))
    assert set(load_checkpoint(str(tmp_path / "a\udc80.ckpt"))) == {"weight", "bias"}


def test_what_utf8_cannot_hold_is_written_as_an_escape(tmp_path: Path) -> None:
    write_text(tmp_path / "a.svg", "é \udc80")
    assert (tmp_path / "a.svg").read_bytes() == "é \\udc80".encode()
