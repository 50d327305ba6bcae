"""Constants that a model of 2 GiB does not hold: the session is given them, and a file has another one beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.errors import GraphValueError
from graphls.runtime.lowering import weights

X = np.ones((2, 40), np.float32)


class Tables(nn.Cell):
    """Constants of several dtypes, one of which stands in a branch."""

    def __init__(self) -> None:
        super().__init__()
        random = np.random.default_rng(0)
        self.table = graphls.Tensor(random.normal(size=(40, 30)).astype(np.float32))
        self.doubles = graphls.Tensor(random.normal(size=(2, 30)))
        self.halves = graphls.Tensor(random.normal(size=(30, 20)).astype(np.float16))
        self.numbers = graphls.Tensor(random.integers(0, 9, (2, 20)))
        self.bias = graphls.Parameter(np.zeros(20, np.float32), name="bias")

    def construct(self, x: Any) -> Any:
        y = (x @ self.table) + self.doubles.astype(graphls.float32)
        y = y @ self.halves.astype(graphls.float32) + self.numbers.astype(graphls.float32)
        y = ops.cond(ops.sum(y) > 0, lambda y: y + self.table[:2, :20], lambda y: y, y)
        self.bias = self.bias + ops.sum(y, 0)
        return y


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models hold little."""
    monkeypatch.setattr(weights, "INSIDE", 1000)
    monkeypatch.setattr(weights, "SMALLEST", 64)


def run(step: graphls.Compiled) -> list[Any]:
    results = [step(X).asnumpy() for _ in range(2)]
    return [*results, step.parameters["bias"].asnumpy()]


def test_a_step_with_large_constants_gives_the_same(narrow: None) -> None:
    step = graphls.compile(Tables(), X)
    assert len(step._session.lowered.outside) == 2
    for found, expected in zip(run(step), run(graphls.compile(Tables(), X, backend="numpy")), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_the_model_has_all_data(narrow: None) -> None:
    model = graphls.compile(Tables(), X).onnx
    assert not any(tensor.external_data for tensor in model.graph.initializer)
    onnx.checker.check_model(model)


def test_a_saved_step_has_its_data_beside_it(narrow: None, tmp_path: Path) -> None:
    step = graphls.compile(Tables(), X)
    (tmp_path / "inner").mkdir()
    (tmp_path / "link.onnx").symlink_to(tmp_path / "inner" / "step.onnx")
    step.save(tmp_path / "link.onnx")
    assert {path.name for path in (tmp_path / "inner").iterdir()} == {"step.onnx", "step.onnx.data"}
    onnx.checker.check_model(str(tmp_path / "inner" / "step.onnx"))
    session = pytest.importorskip("onnxruntime").InferenceSession(str(tmp_path / "inner" / "step.onnx"))
    inputs = {"x": X, step._session.lowered.states["bias"]: np.zeros(20, np.float32)}
    np.testing.assert_allclose(session.run(None, inputs)[0], step(X).asnumpy(), rtol=1e-5, atol=1e-5)


def test_a_step_with_large_constants_is_profiled_and_repeated(narrow: None) -> None:
    step = graphls.compile(Tables(), X)
    assert step.profile(X, steps=1).runs
    found = step.repeated(2)(np.stack([X, X]))
    np.testing.assert_allclose(found.asnumpy()[0], step(X).asnumpy(), rtol=1e-5, atol=1e-5)


def test_nothing_lies_outside_of_an_ordinary_model(tmp_path: Path) -> None:
    step = graphls.compile(Tables(), X)
    assert step._session.lowered.outside == {}
    step.save(tmp_path / "step.onnx")
    assert [path.name for path in tmp_path.iterdir()] == ["step.onnx"]


def test_a_model_that_is_too_large_is_told() -> None:
    class Model:
        def SerializeToString(self) -> bytes:
            raise ValueError("Failed to serialize proto")

    model: Any = Model()
    with pytest.raises(GraphValueError, match="more than the 2 GiB that ONNX can hold"):
        weights.serialised(model)
