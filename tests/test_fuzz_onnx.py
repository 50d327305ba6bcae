"""Some random ONNX models, forward and backward; `make fuzz` runs many more."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import onnx
import pytest

import graphls
import graphls.onnx
from graphls import ops
from graphls.onnx.table import TABLE
from tests.fuzz.judge import FAULTS
from tests.fuzz.onnx_judge import judge_model
from tests.fuzz.onnx_models import Model, random_model
from tests.onnx.models import model, node, tensor


@pytest.mark.parametrize("engine", ["onnxruntime", "numpy"])
def test_random_models_have_the_numbers_of_the_references(engine: str) -> None:
    verdicts = [judge_model(random_model(seed), engine) for seed in range(12)]
    assert not [verdict for verdict in verdicts if verdict.outcome in FAULTS]
    assert sum(verdict.outcome == "same" for verdict in verdicts) >= 8


def test_a_seed_stands_for_one_model_that_the_checker_takes() -> None:
    made = random_model(3).proto
    assert made == random_model(3).proto
    onnx.checker.check_model(made, full_check=True)


def test_a_wrong_number_and_a_wrong_gradient_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Model(model([node("Tanh", "x", "y")], [tensor("x", [3])], ["y"]), {"x": np.float32([0.1, 0.5, -0.3])})
    (entry,) = TABLE["", "Tanh"]
    assert judge_model(made, "onnxruntime").outcome == "same"
    monkeypatch.setitem(TABLE, ("", "Tanh"), [replace(entry, rule=lambda x: ops.tanh(x) * 1.01)])
    assert "the references have" in judge_model(made, "onnxruntime").text
    monkeypatch.setitem(TABLE, ("", "Tanh"), [replace(entry, rule=lambda x: ops.tanh(ops.stop_gradient(x)))])
    assert "differences in float64 give" in judge_model(made, "onnxruntime").text


def test_names_that_python_has_for_itself_are_names_of_inputs() -> None:
    names = ("class", "self", "1", "a b", "def", "números")
    proto = model([node("Sum", " ".join(["n0", "n1"]), "y")], [tensor("n0", [2]), tensor("n1", [2])], ["y"])
    for first, second in itertools.pairwise(names):
        made = onnx.ModelProto()
        made.CopyFrom(proto)
        made.graph.node[0].input[:] = [first, second]
        made.graph.input[0].name, made.graph.input[1].name = first, second
        x = graphls.Tensor(np.ones(2, np.float32))
        assert graphls.onnx.load(made)(x, x).asnumpy().tolist() == [2, 2]


def test_a_hardmax_of_nothing_is_nothing() -> None:
    net = graphls.onnx.load(model([node("Hardmax", "x", "y")], [tensor("x", [2, 0])], ["y"]))
    assert net(graphls.Tensor(np.ones((2, 0), np.float32))).shape == (2, 0)


def test_a_loop_over_nothing_that_ends_itself_has_gradients() -> None:
    def looped(x: graphls.Tensor, w: graphls.Tensor) -> graphls.Tensor:
        def goes_on(state: tuple[graphls.Tensor, graphls.Tensor]) -> graphls.Tensor:
            return ops.less(state[0], 3)

        def once(state: tuple[graphls.Tensor, graphls.Tensor]) -> tuple[graphls.Tensor, graphls.Tensor]:
            return state[0] + 1, ops.tanh(state[1] * w)

        return ops.sum(ops.while_loop(goes_on, once, (graphls.Tensor(np.int64(0)), x))[1])

    x, w = graphls.Tensor(np.zeros((0, 2, 1, 2), np.float32)), graphls.Tensor(np.float32(0.5))
    by_x, by_w = graphls.compile(graphls.grad(looped, (0, 1)), x, w)(x, w)
    assert by_x.shape == (0, 2, 1, 2) and float(by_w.asnumpy()) == 0
