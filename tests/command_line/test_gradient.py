"""`python -m graphls gradient`: outputs and products of vectors with the Jacobian as one model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

from graphls.cli.main import main
from tests.onnx.models import filled

TEXT = """
<ir_version: 8, opset_import: ["": 17]>
two (double[batch, 4] x, int64[batch] rows) => (double[batch, 3] y, int64[batch] next, double z)
<double[4, 3] w, double[5, 3] table, int64 one = {1}>
{
    a = MatMul(x, w)
    b = Gather(table, rows)
    c = Mul(a, b)
    y = Tanh(c)
    next = Add(rows, one)
    z = ReduceSum <keepdims = 0> (y)
}
"""


STATE = """
<ir_version: 8, opset_import: ["": 17]>
cell (float[n, m] x, float[4, k] state) => (float[n, k] y) <float[4, 4] w>
{
    a = MatMul(x, w)
    y = MatMul(a, state)
}
"""
TABLE = """
<ir_version: 8, opset_import: ["": 17]>
embedding (int64[n] rows) => (float[n, 3] y) <float[5, 3] table>
{ y = Gather(table, rows) }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(filled(TEXT, np.float64, w=(4, 3), table=(5, 3)), "m.onnx")


def run(path: str, feeds: dict[str, Any]) -> dict[str, Any]:
    """What a model gives, by ONNX Runtime alone."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {info.name: feeds[info.name] for info in session.get_inputs()}
    return dict(zip((info.name for info in session.get_outputs()), session.run(None, given), strict=True))


def with_tensor(name: str, array: Any) -> str:
    """The path of the model with another tensor."""
    model = onnx.load("m.onnx")
    next(t for t in model.graph.initializer if t.name == name).CopyFrom(numpy_helper.from_array(array, name))
    onnx.save(model, "moved.onnx")
    return "moved.onnx"


@pytest.mark.parametrize("size", [3, 8])
def test_gradients_are_differences_of_outputs(size: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gradient", "m.onnx", "-o", "g.onnx", "--wrt", "x", "--wrt", "[tw]*"]) == 0
    told = "g.onnx takes y_grad, z_grad as well and gives x_grad, w_grad, table_grad; the sizes batch stay open.\n"
    assert capsys.readouterr().out == told
    draw = np.random.default_rng(1)
    feeds: dict[str, Any] = {"x": draw.normal(size=(size, 4)), "rows": draw.integers(0, 5, size)}
    vectors = {"y_grad": draw.normal(size=(size, 3)), "z_grad": draw.normal()}
    found = run("g.onnx", {**feeds, **{name: np.asarray(v) for name, v in vectors.items()}})
    assert list(found) == ["y", "next", "z", "x_grad", "w_grad", "table_grad"]
    before = run("m.onnx", feeds)
    assert all(np.allclose(found[name], array) for name, array in before.items())
    tensors = {t.name: numpy_helper.to_array(t) for t in onnx.load("m.onnx").graph.initializer}
    for name in ("x", "w", "table"):
        start = feeds[name] if name in feeds else tensors[name]
        along, step = draw.normal(size=start.shape), 1e-6
        ends = []
        for sign in (1, -1):
            moved = start + sign * step * along
            there = run("m.onnx", {**feeds, name: moved}) if name in feeds else run(with_tensor(name, moved), feeds)
            ends.append((there["y"] * vectors["y_grad"]).sum() + there["z"] * vectors["z_grad"])
        assert np.isclose((ends[0] - ends[1]) / (2 * step), (found[f"{name}_grad"] * along).sum(), rtol=1e-7)


def test_sizes_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    """Without names, gradients are by the inputs of floats, and by parameters where there are none."""
    assert main(["gradient", "m.onnx", "-o", "g.onnx", "--size", "batch=2"]) == 0
    assert capsys.readouterr().out == "g.onnx takes y_grad, z_grad as well and gives x_grad.\n"
    shapes = {i.name: [d.dim_value for d in i.type.tensor_type.shape.dim] for i in onnx.load("g.onnx").graph.input}
    assert shapes == {"x": [2, 4], "rows": [2], "y_grad": [2, 3], "z_grad": []}
    onnx.save(filled(TABLE, table=(5, 3)), "m.onnx")
    assert main(["gradient", "m.onnx", "-o", "g.onnx"]) == 0
    found = run("g.onnx", {"rows": np.array([1, 1, 4]), "y_grad": np.ones((3, 3), np.float32)})
    assert found["table_grad"].tolist() == [[0] * 3, [2] * 3, [0] * 3, [0] * 3, [1] * 3]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--wrt", "tabel"], "No input or tensor of floats of the model is called 'tabel'; did you mean 'table'."),
        (["--size", "batch"], "--size takes a name and a number above 0, such as batch=8, not 'batch'."),
        (["--size", "rows=3"], "leaves no size 'rows' open"),
        (["-o", "m.onnx/x.onnx"], "cannot be written: "),
    ],
)
def test_options_that_do_not_fit(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gradient", "m.onnx", "-o", "g.onnx", *options]) == 1
    error = capsys.readouterr().err
    assert told in error and error.startswith("graphls: ") and error.count("\n") == 1
    assert not Path("g.onnx").exists()


def test_sizes_without_names_or_of_one_input(capsys: pytest.CaptureFixture[str]) -> None:
    """Paddle writes -1 for a size that is open, and calls all of them ?."""
    model = filled(STATE, w=(4, 4))
    for dim in (model.graph.input[0].type.tensor_type.shape.dim[0], model.graph.input[1].type.tensor_type.shape.dim[1]):
        dim.dim_param = "?"
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = -1
    onnx.save(model, "m.onnx")
    assert main(["gradient", "m.onnx", "-o", "g.onnx"]) == 1
    assert "The model cannot be made with any batch and axis_1: " in capsys.readouterr().err
    assert main(["gradient", "m.onnx", "-o", "g.onnx", "--size", "state:1=2", "--size", "axis_1=4"]) == 0
    assert capsys.readouterr().out.endswith("gives x_grad, state_grad; the sizes batch stay open.\n")
    assert main(["gradient", "m.onnx", "-o", "g.onnx", "--fixed", f"state={np.eye(4, 2).tolist()}"]) == 1
    assert main(["gradient", "m.onnx", "-o", "g.onnx", "--fixed", f"state={np.eye(4).tolist()}", "--size", "m=4"]) == 1
    fixed = ["--fixed", f"state={np.eye(4).tolist()}", "--size", "axis_1=4"]
    assert main(["gradient", "m.onnx", "-o", "g.onnx", *fixed]) == 0
    assert capsys.readouterr().out == "g.onnx takes y_grad as well and gives x_grad; the sizes batch stay open.\n"


def test_a_size_that_cannot_stay_open(capsys: pytest.CaptureFixture[str]) -> None:
    text = "m (float[n, 6] x) => (float[4, 3] y) <int64[2] s = {4, 3}> { a = Reshape(x, s)  y = Tanh(a) }"
    onnx.save(parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}'), "m.onnx")
    assert main(["gradient", "m.onnx", "-o", "g.onnx"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("graphls: The model cannot be made with any n: The operator Reshape ") and "--size" in error
    assert main(["gradient", "m.onnx", "-o", "g.onnx", "--size", "n=2"]) == 0
