"""Where the engine of a step is chosen: on compile, in the context, and for a Model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.context import get_context, reset_context, set_context
from graphls.dataset import NumpySlicesDataset
from graphls.ir.errors import GraphKeyError, GraphValueError
from graphls.ir.graph import walk
from graphls.passes.schedule.partition import Partition
from graphls.runtime.plan import PlanSession
from graphls.train import Model

pytest.importorskip("openvino")
X, Y = np.ones((4, 3), np.float32), np.zeros((4, 2), np.float32)


@pytest.fixture(autouse=True)
def own_context() -> Iterator[None]:
    yield
    reset_context()


def engines(step: Any) -> set[str]:
    """The engines of a compiled step."""
    session = step._session
    return {s.engine for s in session.plan.segments} if isinstance(session, PlanSession) else {"onnxruntime"}


def test_the_context_says_which_engine_runs_a_step() -> None:
    assert get_context("engine") == "onnxruntime"
    set_context(engine="openvino")
    assert engines(graphls.compile(lambda x: x * 2, X)) == {"openvino"}
    assert engines(graphls.compile(lambda x: x * 2, X, engine="onnxruntime")) == {"onnxruntime"}


def test_the_environment_says_it_where_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHLS_ENGINE", "openvino")
    assert engines(graphls.compile(lambda x: x * 2, X)) == {"openvino"}
    set_context(engine="onnxruntime")
    assert engines(graphls.compile(lambda x: x * 2, X)) == {"onnxruntime"}


def test_a_cell_that_is_called_is_compiled_for_the_engine_of_the_context() -> None:
    net = nn.Dense(3, 2)
    before = net(graphls.Tensor(X)).asnumpy()
    set_context(engine="openvino")
    np.testing.assert_allclose(net(graphls.Tensor(X)).asnumpy(), before, rtol=1e-5)
    steps = [step for several in net.__dict__["_compiled"][()].steps.values() for step in several]
    assert [engines(step) for step in steps] == [{"onnxruntime"}, {"openvino"}]


def test_a_model_has_an_engine() -> None:
    net = nn.Dense(3, 2)
    model = Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.1, 0.9), {"mse"}, engine="openvino")
    data = NumpySlicesDataset((X, Y), shuffle=False).batch(2)
    before = model.eval(data)["mse"]
    model.train(3, data)
    assert model.eval(data)["mse"] < before
    (steps,) = model._runner.cache.steps.values()
    assert engines(steps[0]) == {"openvino"}


def test_unknown_engines_are_told() -> None:
    with pytest.raises(GraphKeyError, match="There is no engine 'openvin'; did you mean 'openvino'"):
        graphls.compile(lambda x: x, X, engine="openvin")
    with pytest.raises(GraphKeyError, match="There is no engine 'other'"):
        Model(nn.Dense(3, 2), engine="other")
    with pytest.raises(GraphValueError, match="'engine' must be one of 'onnxruntime', 'onednn', 'openvino', 'numpy'"):
        set_context(engine="other")


CHOOSING = """graph @step(%x: f16[2], %y: f64[1]) {
  %z = cast(%y) {dtype=f32} : f32[1]
  %sum = sum(%x) {axis=none, keepdims=false} : f16[]
  %flag = greater(%sum, %sum) : bool[]
  %v = cond(%flag) : f32[1] region {
    yield %z
  } region {
    yield %z
  }
  %w = exp(%v) : f32[1]
  return %w
}
"""


def test_a_flag_that_chooses_between_a_value_and_itself_is_dead() -> None:
    """A segment of the flag alone would have no outputs, and ONNX Runtime runs no model without."""
    plan = Partition(engine="openvino").run(graphls.parse(CHOOSING))
    assert {"sum", "greater"}.isdisjoint(n.primitive.name for n in walk(plan))
