"""Where graphls decides otherwise than MindSpore and MindFormers: one test for each decision that is in reach."""

from __future__ import annotations

import math
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.reachability import ancestors, descendants

F32 = np.float32
X, Y = np.ones((2, 4), F32), np.zeros((2, 3), F32)
BACKENDS = ["numpy", "onnxruntime"]


def parts(rate: Any = 0.1, **settings: Any) -> tuple[Any, Any, Any]:
    net = nn.Dense(4, 3, weight_init="ones", has_bias=False)
    optimizer = nn.Momentum(net.trainable_params(), rate, 0.9, **settings)
    return net, nn.WithLossCell(net, nn.MSELoss()), optimizer


def scaled(scale: Any) -> tuple[Any, Any, Any]:
    net, loss, optimizer = parts()
    return net, optimizer, nn.TrainOneStepWithLossScaleCell(loss, optimizer, scale)


def formers(**settings: Any) -> tuple[Any, Any, Any]:
    net, loss, optimizer = parts()
    return net, optimizer, nn.MFTrainOneStepCell(loss, optimizer, **settings)


def test_a_step_with_a_loss_scale_runs_on_a_cpu() -> None:
    net, _, cell = scaled(nn.DynamicLossScaleUpdateCell(16, 2, 3))
    loss, overflow, scale = graphls.compile(cell, X, Y, device="cpu")(X, Y)
    assert (float(loss), bool(overflow), float(scale)) == (16, False, 16)
    np.testing.assert_allclose(net.weight.asnumpy(), 0.7333333, rtol=1e-6)


def test_the_base_cell_opens_the_window_after_the_loss_and_before_the_gradients() -> None:
    calls = []

    class Step(nn.TrainOneStepWithLossScaleCell):
        def start_overflow_check(self, pre_cond: Any, compute_input: Any) -> Any:
            calls.append("start")
            return super().start_overflow_check(pre_cond, compute_input)

    _, loss, optimizer = parts()
    graph = graphls.compile(Step(loss, optimizer, graphls.Tensor(4.0)), X, Y, backend="numpy").graph
    assert calls
    (start,) = [n for n in graph.nodes if n.primitive.name == "overflow_start"]
    (value,) = [n for n in graph.nodes if graph.outputs[0] in n.outputs]
    assert value in ancestors(graph.nodes, [start])
    (get,) = [n for n in graph.nodes if n.primitive.name == "overflow_get"]
    backward = [n for n in ancestors(graph.nodes, [get]) if n.phase == "backward" and n.primitive.name != "constant"]
    assert backward and set(backward) <= descendants(graph.nodes, [start])


class Half(nn.Cell):
    """sum(w * x) in float16, with a float32 loss."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.ones(3, F32), name="weight")

    def construct(self, x: Any) -> Any:
        product = ops.cast(self.weight, graphls.float16) * ops.cast(x, graphls.float16)
        return ops.sum(ops.cast(product, graphls.float32)) * 2.0**-20


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("exponent", [10, 25, 30])
def test_unscaling_is_in_float32(exponent: int, backend: str) -> None:
    """In float16 the reciprocal of the scale is 0 from 2^25 on."""
    seen = []

    class Step(nn.TrainOneStepWithLossScaleCell):
        def get_overflow_status(self, status: Any, compute_output: Any) -> Any:
            seen.extend(g.dtype for g in compute_output)
            return super().get_overflow_status(status, compute_output)

    net = Half()
    cell = Step(net, nn.SGD([net.weight], 2.0**20), graphls.Tensor(2.0**exponent))
    x = np.full(3, 0.25, F32)
    _, overflow, _ = graphls.compile(cell, x, backend=backend)(x)
    assert not bool(overflow) and set(seen) == {graphls.float32}
    assert net.weight.asnumpy().tolist() == [0.75] * 3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_scale_that_overflows_for_ever_falls_to_one_and_stays(backend: str) -> None:
    _, optimizer, cell = scaled(nn.DynamicLossScaleUpdateCell(8, 2, 3))
    broken = np.full_like(X, np.nan)
    step = graphls.compile(cell, broken, Y, backend=backend)
    assert [float(step(broken, Y)[2]) for _ in range(6)] == [4, 2, 1, 1, 1, 1]
    assert optimizer.global_step.asnumpy().tolist() == [0]


def test_set_sense_scale_takes_what_has_the_same_shape_and_dtype() -> None:
    _, _, cell = scaled(graphls.Tensor(0.0))
    with pytest.raises(ValueError, match=r"shape \(\)"):
        cell.set_sense_scale(graphls.Tensor([2.0]))
    with pytest.raises(TypeError, match="cannot be Int32"):
        cell.set_sense_scale(graphls.Tensor(2, graphls.int32))
    cell.set_sense_scale(graphls.Tensor(2.0))
    assert float(cell.scale_sense) == 2, "also where the scale was 0"


def test_a_number_is_a_scale_for_mindformers_only() -> None:
    _, loss, optimizer = parts()
    with pytest.raises(TypeError, match=r"'scale_sense' must be Cell or Tensor, but got .* <class 'float'>"):
        nn.TrainOneStepWithLossScaleCell(loss, optimizer, 1.0)
    assert float(nn.MFTrainOneStepCell(loss, optimizer).scale_sense) == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_mindformers_step_accumulates(backend: str) -> None:
    net, optimizer, cell = formers(gradient_accumulation_steps=2)
    step = graphls.compile(cell, X, Y, backend=backend)
    for x, overflow, updates, weight in (
        (X, False, 0, 1.0),
        (3 * X, False, 1, 1 - 0.1 * (1 + 9) / 2 * 8 / 3),
        (X * F32(np.inf), True, 1, 1 - 0.1 * (1 + 9) / 2 * 8 / 3),
        (X, True, 1, 1 - 0.1 * (1 + 9) / 2 * 8 / 3),
    ):
        assert bool(step(x, Y)[1]) is overflow
        assert optimizer.global_step.asnumpy().tolist() == [updates]
        np.testing.assert_allclose(net.weight.asnumpy(), weight, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_mindformers_step_keeps_moving_averages(backend: str) -> None:
    net, _, cell = formers(ema_decay=0.9)
    step = graphls.compile(cell, X, Y, backend=backend)
    step(X * F32(np.inf), Y)
    step(X, Y)
    average = 0.9 + 0.1 * 0.7333333
    with cell.ema_weights():
        np.testing.assert_allclose(net.weight.asnumpy(), average, rtol=1e-6)
    np.testing.assert_allclose(net.weight.asnumpy(), 0.7333333, rtol=1e-6)
    assert [p.name for p in cell.get_parameters() if p.name.startswith("ema.")] == ["ema.weight"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_norms_and_sizes_are_as_documented(backend: str) -> None:
    _, _, cell = formers(use_clip_grad=True, local_norm=True)
    *_, norm, local, sizes = graphls.compile(cell, X, Y, backend=backend)(X, Y)
    expected = math.sqrt(12) * 8 / 3
    assert (norm.shape, norm.dtype, local.shape, sizes.dtype) == ((), graphls.float32, (1,), graphls.int64)
    np.testing.assert_allclose([float(norm), local.tolist()[0]], expected, rtol=1e-6)
    assert sizes.tolist() == [12]


def test_unknown_keyword_arguments_of_mindformers_step() -> None:
    formers(parallel_config=None)
    with pytest.raises(TypeError, match="parallel_config, gradient_accumulation_steps, ema_decay"):
        formers(grad_accumulation=2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_clipping_shrinks_what_needs_none(backend: str) -> None:
    """The contract: the coefficient is c / (c + 1e-6) there; with c = 1e-6 it is a half."""
    _, _, cell = formers(use_clip_grad=True, max_grad_norm=1e-6)
    tiny = X * F32(1e-8)
    graphls.compile(cell, tiny, Y, backend=backend)(tiny, Y)
    moment = cell.optimizer.moments[0].asnumpy()
    np.testing.assert_allclose(moment, 0.5 * 8 / 3 * 1e-16, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nesterov_momentum_follows_its_formula_on_a_cpu(backend: str) -> None:
    net, loss, optimizer = parts(use_nesterov=True)
    graphls.compile(nn.TrainOneStepCell(loss, optimizer), X, Y, backend=backend)(X, Y)
    np.testing.assert_allclose(net.weight.asnumpy(), 1 - 0.1 * 1.9 * 8 / 3, rtol=1e-6)


G = 8 / 3


@pytest.mark.parametrize(
    ("make", "step"),
    [
        (lambda p: nn.RMSProp(p, 0.1, 0.9, epsilon=1e-3), 0.1 * G / math.sqrt(0.9 + 0.1 * G**2 + 1e-3)),
        (
            lambda p: nn.RMSProp(p, 0.1, 0.9, epsilon=1e-3, centered=True),
            0.1 * G / math.sqrt(0.9 + 0.1 * G**2 - (0.1 * G) ** 2 + 1e-3),
        ),
        (lambda p: nn.Adagrad(p, 0.5, 0.1, update_slots=True), 0.1 * G / math.sqrt(0.5 + G**2)),
        (lambda p: nn.Adagrad(p, 0.5, 0.1, update_slots=False), 0.1 * G / math.sqrt(0.5)),
        (lambda p: nn.Lamb(p, 0.1, eps=1e-3), 0.1 * math.sqrt(G**2 + 1e-3) / (G + 1e-3)),
        (lambda p: nn.LARS(nn.Momentum(p, 0.1, 0.9), coefficient=0.5), 0.1 * 0.5),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_optimizers_follow_their_formulas_on_a_cpu(backend: str, make: Any, step: float) -> None:
    net, loss, _ = parts()
    graphls.compile(nn.TrainOneStepCell(loss, make(net.trainable_params())), X, Y, backend=backend)(X, Y)
    np.testing.assert_allclose(net.weight.asnumpy(), 1 - step, rtol=1e-5)


def test_an_optimizer_that_does_not_divide_by_the_scale_is_told_once_with_both_numbers() -> None:
    _, loss, optimizer = parts(loss_scale=8.0)
    manager = graphls.FixedLossScaleManager(1024.0, drop_overflow_update=False)
    with pytest.warns(UserWarning, match="1024.0.*8.0") as caught:
        cell = graphls.amp.build_train_network(loss, optimizer, loss_scale_manager=manager)
        for _ in range(2):
            cell(X, Y)
    assert len(caught) == 1


def test_each_network_of_o2_has_a_loss_scale_of_its_own() -> None:
    cells = [graphls.amp.build_train_network(loss, optimizer, level="O2") for _, loss, optimizer in (parts(), parts())]
    cells[0](X, Y)
    assert [float(cell.scale_sense) for cell in cells] == [2.0**23, 2.0**24]


class OtherName(nn.Cell):
    """A first parameter that is not `self`, lambdas, `try` and `with` in construct."""

    def __init__(this) -> None:
        super().__init__()
        this.weight = graphls.Parameter(F32(2), name="weight")

    def construct(this, x: Any) -> Any:
        pick = (lambda table, key: table[key])({"double": lambda v: v * 2}, "double")
        try:
            y = {}["missing"]
        except KeyError:
            y = pick(x)
        with np.errstate(all="ignore"):
            return y * this.weight


def test_python_that_tracing_allows() -> None:
    step = graphls.compile(OtherName(), X, backend="numpy")
    assert step(X).tolist() == (4 * X).tolist()


def test_cells_without_a_source_file() -> None:
    names: dict[str, Any] = {"nn": nn, "ops": ops}
    exec("class Typed(nn.Cell):\n def construct(self, x):\n  return ops.sum(x) if ops.sum(x) > 0 else x[0, 0]", names)
    step = graphls.compile(names["Typed"](), X, backend="numpy")
    assert (float(step(X)), float(step(-X))) == (8, -1)


@pytest.mark.parametrize("kind", ["plain", "scaled", "formers"])
def test_a_list_of_rates_stays_at_its_end_and_warns_once(kind: str) -> None:
    net, loss, optimizer = parts(rate=[0.1, 0.05])
    cell = {
        "plain": lambda: nn.TrainOneStepCell(loss, optimizer),
        "scaled": lambda: nn.TrainOneStepWithLossScaleCell(loss, optimizer, graphls.Tensor(4.0)),
        "formers": lambda: nn.MFTrainOneStepCell(loss, optimizer),
    }[kind]()
    x, y = graphls.Tensor(X), graphls.Tensor(Y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            cell(x, y)
        assert not [w for w in caught if "learning rates" in str(w.message)]
        before, moment = net.weight.asnumpy(), optimizer.moments[0]
        for _ in range(3):
            cell(x, y)
    (told,) = [str(w.message) for w in caught if "learning rates" in str(w.message)]
    assert "The list of 2 learning rates is shorter than the run; it stays at its last value" in told
    assert not np.allclose(net.weight.asnumpy(), before)
    last = net.weight.asnumpy()
    cell(x, y)
    np.testing.assert_allclose(last - net.weight.asnumpy(), 0.05 * moment.asnumpy(), rtol=1e-5)


class Wrong(nn.Cell):
    def construct(self, x: Any) -> Any:
        return ops.matmul(x, x)


def test_errors_leave_no_files_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(graphls.GraphlsError):
        graphls.compile(Wrong(), X)
    _, _, cell = scaled(nn.DynamicLossScaleUpdateCell(8, 2, 3))
    with pytest.raises(graphls.GraphlsError):
        graphls.compile(cell, X, Y)(X, np.full_like(Y, np.nan))
    assert os.listdir(tmp_path) == []
