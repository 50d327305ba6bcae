"""MindFormers' training step: what it returns, clipping, accumulation, moving averages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.nn.train_step_mf import ClipGradNorm

BACKENDS = ["numpy", "onnxruntime"]
MODES = ["outputs", "window"]
F32 = np.float32
X, Y = np.ones((2, 4), F32), np.zeros((2, 3), F32)
BROKEN = np.full_like(X, np.inf)


def parts(rate: Any = 0.1) -> tuple[Any, Any, Any]:
    net = nn.Dense(4, 3, weight_init="ones", bias_init="ones")
    optimizer = nn.Momentum(net.trainable_params(), rate, 0.9)
    return net, nn.WithLossCell(net, nn.MSELoss()), optimizer


def run(backend: str = "numpy", mode: str = "outputs", rate: Any = 0.1, **settings: Any) -> tuple[Any, Any, Any]:
    net, loss, optimizer = parts(rate)
    cell = nn.MFTrainOneStepCell(loss, optimizer, **settings)
    return net, cell, graphls.compile(cell, X, Y, backend=backend, overflow_mode=mode)


def kinds(result: Any) -> list[Any]:
    return [None if item is None else (item.shape, item.dtype) for item in result]


SCALAR = ((), graphls.float32)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("settings", "norm", "bias"),
    [
        ({}, None, 0.6666666),
        ({"use_clip_grad": True}, 12.909945, 0.9741801),
        ({"use_clip_grad": True, "max_grad_norm": 1e6}, 12.909945, 0.6666666),
    ],
)
def test_five_results(settings: Any, norm: Any, bias: float, backend: str) -> None:
    net, _, step = run(backend, **settings)
    result = step(X, Y)
    assert kinds(result) == [SCALAR, ((), graphls.bool_), SCALAR, SCALAR, None if norm is None else SCALAR]
    assert [float(item) for item in result[:4]] == [25, False, 1, F32(0.1)]
    if norm is not None:
        np.testing.assert_allclose(result[4].asnumpy(), norm, rtol=1e-6)
    np.testing.assert_allclose(net.bias.asnumpy(), bias, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_local_norms_are_two_results_more(backend: str) -> None:
    net, _, step = run(backend, local_norm=True, use_clip_grad=True)
    *_, norms, sizes = result = step(X, Y)
    assert kinds(result)[5:] == [((2,), graphls.float32), ((2,), graphls.int64)]
    np.testing.assert_allclose(norms.asnumpy(), np.sqrt([133.33334, 33.333336]), rtol=1e-6)
    assert sizes.tolist() == [12, 3]
    np.testing.assert_allclose(net.bias.asnumpy(), 0.9741801, rtol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_overflow_is_skipped_and_still_reported(backend: str, mode: str) -> None:
    scale = nn.DynamicLossScaleUpdateCell(16, 2, 3)
    net, cell, step = run(backend, mode, [0.1, 0.2], scale_sense=scale, local_norm=True, use_clip_grad=True)
    result = step(BROKEN, Y)
    assert [float(item) for item in result[:4]] == [np.inf, True, 8, F32(0.1)]
    assert not np.isfinite(result[4].asnumpy()) and not np.isfinite(result[5].asnumpy()).any()
    assert net.weight.asnumpy().tolist() == np.ones((3, 4)).tolist()
    assert cell.optimizer.global_step.asnumpy().tolist() == [0]
    assert [float(item) for item in step(X, Y)[:4]] == [25, False, 8, F32(0.1)]
    assert float(step(X, Y)[3]) == F32(0.2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_as_scales(backend: str) -> None:
    for given, dtype in ((1.0, graphls.float32), (16, graphls.int64), (graphls.Tensor([4.0]), graphls.float32)):
        net, cell, step = run(backend, scale_sense=given)
        scale = step(X, Y)[2]
        assert (scale.dtype, scale.shape) == (dtype, cell.scale_sense.shape)
        np.testing.assert_allclose(net.bias.asnumpy(), 0.6666666, rtol=1e-6)
    cell.set_sense_scale(graphls.Tensor([8.0]))
    assert float(step(X, Y)[2]) == 8


class Falling(nn.LearningRateSchedule):
    def construct(self, global_step: Any) -> Any:
        return 0.1 / (ops.cast(global_step, graphls.float32) + 1.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_learning_rate_of_the_step(backend: str) -> None:
    _, cell, step = run(backend, rate=0.5)
    cell.optimizer.learning_rate.set_data(0.25)
    assert float(step(X, Y)[3]) == 0.5, "a number is reported as it was when the step was made"
    for rate, expected in (([0.1, 0.2], [0.1, 0.2, 0.2]), (Falling(), [0.1, 0.05, 0.1 / 3])):
        _, _, step = run(backend, rate=rate)
        np.testing.assert_allclose([float(step(X, Y)[3]) for _ in range(3)], expected, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_learning_rates_of_groups(backend: str) -> None:
    for rates, expected in (((0.1, 0.3), [(0.1, 0.3)] * 2), (([0.1, 0.2], [0.3, 0.4]), [0.3, 0.4])):
        net, loss, _ = parts()
        groups = [{"params": [p], "lr": rate} for p, rate in zip(net.trainable_params(), rates, strict=True)]
        cell = nn.MFTrainOneStepCell(loss, nn.SGD(groups, 0.5))
        step = graphls.compile(cell, X, Y, backend=backend)
        for now in expected:
            found = step(X, Y)[3]
            assert isinstance(found, tuple) == isinstance(now, tuple)
            np.testing.assert_allclose(np.array(found), now, rtol=1e-6)


def test_groups_with_the_same_rate() -> None:
    net, loss, _ = parts()
    groups = [{"params": [p], "lr": 0.1} for p in net.trainable_params()]
    step = graphls.compile(nn.MFTrainOneStepCell(loss, nn.SGD(groups, 0.5)), X, Y)
    assert [float(rate) for rate in step(X, Y)[3]] == [F32(0.1)] * 2


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"max_grad_norm": 0.0}, ValueError, "For 'ClipGradNorm', the argument 'clip_norm' must > 0.0, but got 0.0"),
        ({"max_grad_norm": -1}, ValueError, "For 'ClipGradNorm', the argument 'clip_norm' must > 0.0, but got -1"),
        ({"max_grad_norm": float("nan")}, ValueError, "must > 0.0, but got nan"),
        ({"max_grad_norm": float("inf")}, ValueError, "must be finite, but got inf"),
        ({"max_grad_norm": "1"}, TypeError, "'clip_norm' must be a number, but got '1'"),
        ({"scale_sense": "1"}, TypeError, "'scale_sense' must be Cell or Tensor, but got .* <class 'str'>"),
        ({"scale_sense": graphls.Tensor([1.0, 2.0])}, ValueError, r"must be \(1,\) or \(\), but got \(2,\)"),
        (
            {"accumulate": 2},
            TypeError,
            "no argument 'accumulate'; .* are parallel_config, gradient_accumulation_steps, ema_decay",
        ),
        ({"gradient_accumulation_steps": 0}, ValueError, "'gradient_accumulation_steps' must be int and must > 0"),
        ({"gradient_accumulation_steps": 2.0}, TypeError, "'gradient_accumulation_steps' must be int and must > 0"),
        ({"ema_decay": 1.0}, ValueError, r"'ema_decay' must be in \(0, 1\), but got 1.0"),
        ({"ema_decay": "0.9"}, TypeError, "the type of 'ema_decay' should be 'float', but got type 'str'"),
    ],
)
def test_arguments_that_do_not_fit(settings: Any, error: Any, text: str) -> None:
    _, loss, optimizer = parts()
    with pytest.raises(error, match=text + r".* \(\S*test_train_step_mf\.py:\d+\)$"):
        nn.MFTrainOneStepCell(loss, optimizer, **settings)


def test_a_parallel_config_is_kept() -> None:
    _, loss, optimizer = parts()
    assert nn.MFTrainOneStepCell(loss, optimizer, parallel_config={"a": 1}).parallel_config == {"a": 1}
    assert isinstance(nn.MFTrainOneStepCell(loss, optimizer), nn.TrainOneStepWithLossScaleCell)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("limit", [1.0, 5.0, 8.0])
def test_clipping_also_shrinks_a_little_what_is_small_enough(limit: float, backend: str) -> None:
    given = (np.array([3.0, 0.0], F32), np.array([[4.0]], F32))
    clipped, norm = graphls.compile(ClipGradNorm(limit), given, backend=backend)(given)
    assert float(norm) == 5 and (norm.shape, norm.dtype) == SCALAR
    factor = min(limit / (max(5.0, limit) + 1e-6), 1.0)
    assert factor < 1
    np.testing.assert_allclose(clipped[0].asnumpy(), given[0] * F32(factor), rtol=2e-7)
    np.testing.assert_allclose(clipped[1].asnumpy(), given[1] * F32(factor), rtol=2e-7)


@pytest.mark.parametrize("backend", BACKENDS)
def test_clipping_passes_nan_on_and_keeps_dtypes(backend: str) -> None:
    given = (np.array([3000.0, np.nan], F32), np.array([4.0], np.float16))
    clipped, norm = graphls.compile(ClipGradNorm(1.0), given, backend=backend)(given)
    assert np.isnan(float(norm))
    np.testing.assert_allclose(clipped[0].asnumpy(), given[0] / (1 + 1e-6), rtol=2e-7)
    assert (clipped[1].dtype, clipped[1].tolist()) == (graphls.float16, [4.0])


# -- accumulation ---------------------------------------------------------------------------------------------


def rows(number: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    return rng.normal(size=(2, 4)).astype(F32), rng.normal(size=(2, 3)).astype(F32)


@pytest.mark.parametrize("backend", BACKENDS)
def test_accumulated_steps_are_one_step_on_all_rows(backend: str) -> None:
    net, cell, step = run(backend, scale_sense=8.0, gradient_accumulation_steps=3)
    whole, loss, optimizer = parts()
    big = nn.TrainOneStepCell(loss, optimizer)
    batch = [np.concatenate(part) for part in zip(*(rows(i) for i in range(3)), strict=True)]
    reference = graphls.compile(big, *batch, backend=backend)
    for _ in range(2):
        reference(*batch)
        for number in range(3):
            step(*rows(number))
            done = cell.optimizer.global_step.asnumpy().tolist() == optimizer.global_step.asnumpy().tolist()
            assert done == (number == 2)
        np.testing.assert_allclose(net.weight.asnumpy(), whole.weight.asnumpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(net.bias.asnumpy(), whole.bias.asnumpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_overflow_in_any_call_skips_the_update(place: int, backend: str, mode: str) -> None:
    scale = nn.DynamicLossScaleUpdateCell(16, 2, 2)
    net, cell, step = run(backend, mode, scale_sense=scale, gradient_accumulation_steps=3, use_clip_grad=True)
    results = [step(BROKEN if number == place else X, Y) for number in range(3)]
    assert [bool(r[1]) for r in results] == [number >= place for number in range(3)]
    assert [float(r[2]) for r in results] == [16, 16, 8], "the scale is updated with the update"
    assert [np.isfinite(float(r[0])) for r in results] == [number != place for number in range(3)]
    assert net.weight.asnumpy().tolist() == np.ones((3, 4)).tolist()
    assert cell.optimizer.global_step.asnumpy().tolist() == [0]
    assert int(scale.current_iterator_step) == 2
    assert all(np.isfinite(p.asnumpy()).all() for p in cell.get_parameters())
    results = [step(X, Y) for _ in range(3)]
    assert not any(bool(r[1]) for r in results)
    np.testing.assert_allclose([float(r[4]) for r in results], np.array([1, 2, 3]) / 3 * 12.909945, rtol=1e-5)
    np.testing.assert_allclose(net.bias.asnumpy(), 0.9741801, rtol=1e-6)


def test_the_states_of_accumulation_and_averages() -> None:
    _, loss, optimizer = parts()
    cell = nn.MFTrainOneStepCell(loss, optimizer, gradient_accumulation_steps=2, ema_decay=0.9)
    added = [(p.name, p.shape, p.dtype) for p in cell.get_parameters()][-6:]
    assert added == [
        ("accu_grads.weight", (3, 4), graphls.float32),
        ("accu_grads.bias", (3,), graphls.float32),
        ("accumulation_step", (), graphls.int32),
        ("accumulation_overflow", (), graphls.bool_),
        ("ema.weight", (3, 4), graphls.float32),
        ("ema.bias", (3,), graphls.float32),
    ]
    names = [p.name for p in cell.get_parameters()]
    assert len(names) == len(set(names)) and cell.trainable_params() == list(optimizer.parameters)


@pytest.mark.parametrize("backend", BACKENDS)
def test_accumulation_goes_on_in_another_session(backend: str) -> None:
    net, cell, step = run(backend, gradient_accumulation_steps=2)
    step(X, Y)
    graphls.compile(cell, X, Y, backend=backend)(X, Y)
    np.testing.assert_allclose(net.bias.asnumpy(), 0.6666666, rtol=1e-6)


# -- moving averages ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_averages_are_swapped_in_for_evaluation(backend: str) -> None:
    net, cell, step = run(backend, ema_decay=0.75)
    evaluate = graphls.compile(net, X, backend=backend)
    expected = net.bias.asnumpy().astype(np.float64)
    for _ in range(3):
        step(X, Y)
        expected += 0.25 * (net.bias.asnumpy() - expected)
    own, output = net.bias.asnumpy(), evaluate(X).asnumpy()
    with cell.ema_weights():
        np.testing.assert_allclose(net.bias.asnumpy(), expected, rtol=1e-6)
        assert not np.allclose(evaluate(X).asnumpy(), output)
    assert net.bias.asnumpy().tolist() == own.tolist()
    assert evaluate(X).asnumpy().tolist() == output.tolist()
    cell.swap_ema()
    np.testing.assert_allclose(net.bias.asnumpy(), expected, rtol=1e-6)
    cell.swap_ema()
    assert net.bias.asnumpy().tolist() == own.tolist()


def test_own_weights_come_back_after_an_error() -> None:
    net, cell, step = run(ema_decay=0.5)
    step(X, Y)
    own = net.weight.asnumpy()
    with pytest.raises(KeyError), cell.ema_weights():
        raise KeyError
    assert net.weight.asnumpy().tolist() == own.tolist()


def test_swapping_compiles_nothing_anew_and_loses_no_precision() -> None:
    weight = graphls.Parameter(np.ones(3, np.float16), name="weight")

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def construct(self, x: Any) -> Any:
            return ops.sum(ops.cast(self.weight, graphls.float32) * x)

    cell = nn.MFTrainOneStepCell(Net(), nn.SGD([weight], 0.1), ema_decay=0.999)
    x = np.ones(3, F32)
    step = graphls.compile(cell, x, backend="numpy")
    step(x)
    (average,) = cell.ema.averages
    kept = average.asnumpy()
    assert average.dtype is graphls.float32 and kept.tolist() != kept.astype(np.float16).tolist()
    with cell.ema_weights():
        assert weight.asnumpy().tolist() == kept.astype(np.float16).tolist()
    assert average.asnumpy().tolist() == kept.tolist() and step.up_to_date()


def test_there_is_nothing_to_swap_without_averages() -> None:
    _, cell, _ = run()
    with pytest.raises(ValueError, match=r"no moving averages; .* an ema_decay.*test_train_step_mf\.py"):
        cell.swap_ema()


@pytest.mark.parametrize("backend", BACKENDS)
def test_averages_stay_where_the_update_is_skipped(backend: str) -> None:
    _, cell, step = run(backend, ema_decay=0.5, scale_sense=nn.FixedLossScaleUpdateCell(4.0))
    step(X, Y)
    kept = [p.asnumpy().tolist() for p in cell.ema.averages]
    assert bool(step(BROKEN, Y)[1])
    assert kept == [p.asnumpy().tolist() for p in cell.ema.averages]


class Written(nn.MFTrainOneStepCell):
    """A subclass that uses the parts of the step in a construct of its own."""

    def construct(self, *inputs: Any) -> Any:
        loss = self.network(*inputs)
        status, scale = self.start_overflow_check(loss, self.scale_sense)
        sens = ops.ones_like(loss) * ops.cast(scale, loss.dtype)
        grads = self.grad(self.network, self.weights)(*inputs, sens)
        grads = tuple(ops.cast(g, graphls.float32) * ops.reciprocal(scale) for g in grads)
        overflow = self.process_loss_scale(self.get_overflow_status(status, grads))
        grads, norm = self.clip_grad_norm(grads)
        rate = self.learning_rate
        if self.optimizer.dynamic_lr:
            rate = rate(self.optimizer.global_step).reshape(())
        if not overflow:
            loss = ops.depend(loss, self.optimizer(grads))
        return loss, overflow, scale, rate, norm


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_written_from_its_parts(backend: str, mode: str) -> None:
    for rate in (0.1, [0.1, 0.2]):
        net, loss, optimizer = parts(rate)
        cell = Written(loss, optimizer, scale_sense=8.0)
        step = graphls.compile(cell, X, Y, backend=backend, overflow_mode=mode)
        result = step(X, Y)
        np.testing.assert_allclose([float(item) for item in result], [25, False, 8, 0.1, 12.909945], rtol=1e-6)
        assert bool(step(BROKEN, Y)[1])
        np.testing.assert_allclose(net.bias.asnumpy(), 0.9741801, rtol=1e-6)
        np.testing.assert_allclose(float(step(X, Y)[3]), rate if rate == 0.1 else 0.2, rtol=1e-6)


def test_the_last_of_several_micro_steps_updates_in_the_phase_update() -> None:
    network = nn.WithLossCell(nn.Dense(4, 3), nn.MSELoss())
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = nn.MFTrainOneStepCell(network, optimizer, gradient_accumulation_steps=3, use_clip_grad=True, ema_decay=0.9)
    step = graphls.compile(cell, np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32), backend="numpy")
    conditions = [node for node in step.graph.nodes if node.primitive.name == "cond"]
    assert conditions and {node.phase for node in conditions} == {"update"}
