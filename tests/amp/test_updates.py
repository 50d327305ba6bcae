"""Steps that accumulate, clip and average: the numbers of PyTorch, skipped updates, checkpoints, and `Model`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import amp, nn
from graphls.train import load_checkpoint, load_param_into_net, save_checkpoint

BACKENDS = ["numpy", "onnxruntime"]
F32 = np.float32
TORCH: dict[str, Any] = {
    "clip_norm": (
        0.5, [0.9292163, 0.9374787, 0.9533513], [0.97759, 0.9750077, 0.9811035],
        [0.9683632, 0.9795167, 0.9739776, 0.9743971],
    ),
    "clip_value": (
        0.2, [0.8285181, 0.9438875, 0.9629492], [0.9543591, 0.9758728, 0.9786819],
        [0.9525527, 0.9685268, 0.952526, 0.9659973],
    ),
}  # fmt: skip
"""The bias and averages of bias and first row of `trained` with PyTorch 2.13.

It adds up `loss / 3` of three batches for each of four updates, with `clip_grad_norm_` or `clip_grad_value_`, SGD with
momentum, and AveragedModel with `get_ema_multi_avg_fn(0.9)`.
"""


def rows(number: int) -> tuple[Any, Any]:
    random = np.random.default_rng(number)
    return random.normal(size=(2, 4)).astype(F32), random.normal(size=(2, 3)).astype(F32)


def parts(**settings: Any) -> tuple[Any, Any]:
    net = nn.Dense(4, 3, weight_init="ones", bias_init="ones")
    return net, nn.Momentum(net.trainable_params(), 0.1, 0.9, **settings)


def built(level: str = "O0", **settings: Any) -> tuple[Any, Any]:
    net, optimizer = parts()
    return net, amp.build_train_network(net, optimizer, nn.MSELoss(), level, **settings)


def scaled(level: str = "O0", scale: float = 2.0**10, **settings: Any) -> tuple[Any, Any]:
    return built(level, loss_scale_manager=amp.DynamicLossScaleManager(scale, 2, 2), **settings)


def arrays(cell: nn.Cell) -> dict[str, np.ndarray]:
    return {p.name: p.asnumpy() for p in cell.get_parameters()}


@pytest.mark.parametrize("kind", TORCH)
@pytest.mark.parametrize("make", [built, scaled])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_numbers_are_those_of_torch(make: Any, kind: str, backend: str) -> None:
    limit, bias, average, first_row = TORCH[kind]
    net, cell = make(accumulate_steps=3, ema_decay=0.9, **{kind: limit})
    step = graphls.compile(cell, *rows(0), backend=backend)
    for number in range(12):
        step(*rows(number))
    np.testing.assert_allclose(net.bias.asnumpy(), bias, rtol=2e-6)
    with cell.ema_weights():
        np.testing.assert_allclose(net.bias.asnumpy(), average, rtol=2e-6)
        np.testing.assert_allclose(net.weight.asnumpy()[0], first_row, rtol=2e-6)
    np.testing.assert_allclose(net.bias.asnumpy(), bias, rtol=2e-6)


def test_a_scale_that_the_optimizer_divides_by_is_none_to_clipping() -> None:
    found = []
    for scale in (1.0, 64.0):
        net, optimizer = parts(loss_scale=scale)
        manager = amp.FixedLossScaleManager(scale, drop_overflow_update=False)
        cell = amp.build_train_network(
            net, optimizer, nn.MSELoss(), loss_scale_manager=manager, clip_norm=0.5, accumulate_steps=2
        )
        for number in range(4):
            cell(*map(graphls.Tensor, rows(number)))
        found.append(net.bias.asnumpy())
    np.testing.assert_allclose(*found, rtol=1e-6)


@pytest.mark.parametrize("mode", ["outputs", "window"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", [0, 2])
def test_an_overflow_in_any_call_skips_the_update_of_all(place: int, backend: str, mode: str) -> None:
    net, cell = scaled(scale=16.0, accumulate_steps=3, clip_norm=0.5, ema_decay=0.9)
    step = graphls.compile(cell, *rows(0), backend=backend, overflow_mode=mode)
    for number in range(3):
        step(*rows(number))
    before = arrays(cell)
    results = []
    for number in range(3):
        x, y = rows(number)
        results.append(step(np.full_like(x, np.inf) if number == place else x, y))
    assert [bool(r[1]) for r in results] == [number >= place for number in range(3)]
    assert [float(r[2]) for r in results] == [16, 16, 8], "the scale changes with an update only"
    changed = {name for name, value in arrays(cell).items() if (value != before[name]).any()}
    assert changed == {"scale_sense", "current_iterator_step", "last_overflow_iterator_step"}
    assert int(cell.ema.ema_updates.asnumpy()) == 1
    for number in range(3, 6):
        assert not bool(step(*rows(number))[1])
    assert (arrays(net)["weight"] != before["weight"]).any() and int(cell.ema.ema_updates.asnumpy()) == 2


def test_training_goes_on_from_a_checkpoint_between_two_calls(tmp_path: Path) -> None:
    settings = {"accumulate_steps": 3, "clip_norm": 0.5, "ema_decay": 0.9}
    _, whole = scaled(**settings)
    step = graphls.compile(whole, *rows(0))
    for number in range(8):
        if number == 4:
            save_checkpoint(whole, tmp_path / "middle.ckpt")
        step(*rows(number))
    _, cell = scaled(**settings)
    load_param_into_net(cell, load_checkpoint(tmp_path / "middle.ckpt"), strict_load=True)
    again = graphls.compile(cell, *rows(0))
    for number in range(4, 8):
        again(*rows(number))
    for name, value in arrays(whole).items():
        np.testing.assert_array_equal(arrays(cell)[name], value, err_msg=name)


def test_averages_begin_with_the_first_update_whatever_is_loaded_before() -> None:
    net, cell = built(ema_decay=0.999)
    net.weight.set_data(np.full((3, 4), 5.0, F32))
    with cell.ema_weights():
        assert (net.weight.asnumpy() == 5).all(), "before the first update there is nothing else"
    cell(*map(graphls.Tensor, rows(0)))
    first = net.weight.asnumpy()
    with cell.ema_weights():
        np.testing.assert_allclose(net.weight.asnumpy(), first, rtol=1e-6)
    cell(*map(graphls.Tensor, rows(1)))
    second = net.weight.asnumpy()
    with cell.ema_weights():
        np.testing.assert_allclose(net.weight.asnumpy(), first + 0.001 * (second - first), rtol=1e-6)


def test_float64_keeps_its_digits() -> None:
    net = nn.Dense(4, 3, weight_init="ones", bias_init="ones", dtype=graphls.float64)
    cell = amp.build_train_network(net, nn.SGD(net.trainable_params(), 0.1), nn.MSELoss(), ema_decay=0.9)
    biases = []
    for number in range(2):
        cell(*(graphls.Tensor(each.astype(float)) for each in rows(number)))
        biases.append(net.bias.asnumpy())
    with cell.ema_weights():
        np.testing.assert_allclose(net.bias.asnumpy(), 0.9 * biases[0] + 0.1 * biases[1], rtol=1e-14)


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("'accumulate_steps' must be int and must > 0", {"accumulate_steps": 0}),
    ("'accumulate_steps' must be int and must > 0", {"accumulate_steps": 2.0}),
    ("'clip_norm' must be greater than 0", {"clip_norm": -1}),
    ("type of 'clip_value' should be 'float'", {"clip_value": "1"}),
    (r"'ema_decay' must be in \(0, 1\)", {"ema_decay": 1.0}),
    ("by 'clip_norm' or by 'clip_value', not both", {"clip_norm": 1.0, "clip_value": 1.0}),
]


@pytest.mark.parametrize(("text", "settings"), WRONG)
def test_settings_that_do_not_fit(text: str, settings: Any) -> None:
    net, optimizer = parts()
    with pytest.raises((TypeError, ValueError), match=rf"For 'build_train_network', .*{text}.*test_updates"):
        amp.build_train_network(net, optimizer, nn.MSELoss(), **settings)
    with pytest.raises((TypeError, ValueError), match=text):
        graphls.Model(net, nn.MSELoss(), optimizer, **settings)
    with pytest.raises(ValueError, match=f"'optimizer' can not be None when set '{next(iter(settings))}'"):
        graphls.Model(net, nn.MSELoss(), **settings)


def test_without_settings_the_step_is_the_plain_one() -> None:
    assert type(built()[1]) is nn.TrainOneStepCell
    assert type(scaled()[1]) is nn.TrainOneStepWithLossScaleCell


BATCHES = [rows(number) for number in range(12)]


@pytest.mark.parametrize("in_sink_mode", [False, True])
def test_a_model_accumulates_clips_and_averages(in_sink_mode: bool) -> None:
    net, optimizer = parts()
    model = graphls.Model(net, nn.MSELoss(), optimizer, {"mse"}, accumulate_steps=3, clip_norm=0.5, ema_decay=0.9)
    model.train(1, BATCHES, dataset_sink_mode=in_sink_mode)
    _, bias, average, _ = TORCH["clip_norm"]
    np.testing.assert_allclose(net.bias.asnumpy(), bias, rtol=2e-6)
    x = rows(20)[0]
    trained, averaged = model.predict(graphls.Tensor(x)), model.predict(graphls.Tensor(x), use_ema=True)
    plain, with_averages = model.eval(BATCHES)["mse"], model.eval(BATCHES, use_ema=True)["mse"]
    assert plain != with_averages and (trained.asnumpy() != averaged.asnumpy()).any()
    with model.ema_weights():
        np.testing.assert_allclose(net.bias.asnumpy(), average, rtol=2e-6)
        assert model.eval(BATCHES)["mse"] == with_averages
    np.testing.assert_allclose(net.bias.asnumpy(), bias, rtol=2e-6)


class Losses(graphls.train.Callback):
    """What the evaluation of each epoch gave."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_eval_end(self, run_context: Any) -> None:
        self.seen.append(run_context.original_args().metrics["mse"])


def test_fit_evaluates_with_averages_where_it_is_told() -> None:
    seen = []
    for use_ema in (False, True):
        losses = Losses()
        model = graphls.Model(*_given(), metrics={"mse"}, ema_decay=0.5)
        model.fit(2, BATCHES, BATCHES, callbacks=losses, use_ema=use_ema)
        seen.append(losses.seen)
        assert model.eval(BATCHES, use_ema=use_ema)["mse"] == pytest.approx(losses.seen[-1])
    assert seen[0][0] != seen[1][0] and len(seen[0]) == 2


def _given() -> tuple[Any, Any, Any]:
    net, optimizer = parts()
    return net, nn.MSELoss(), optimizer


def test_a_model_without_averages_says_so() -> None:
    model = graphls.Model(*_given(), metrics={"mse"})
    for call in (model.ema_weights, lambda: model.eval(BATCHES, use_ema=True), lambda: model.predict(1, use_ema=True)):
        with pytest.raises(ValueError, match=r"keeps no averages of its weights; make it with ema_decay=0\.999"):
            call()
    with pytest.raises(TypeError, match="'use_ema' must be bool"):
        model.eval(BATCHES, use_ema=1)


def test_a_manager_is_told_once_for_each_update() -> None:
    manager = amp.DynamicLossScaleManager(16.0, 2, 2)
    model = graphls.Model(*_given(), loss_scale_manager=manager, accumulate_steps=3)
    broken = [(np.full_like(x, np.inf), y) if number == 4 else (x, y) for number, (x, y) in enumerate(BATCHES)]
    model.train(1, broken)
    scale = float(model.train_network.scale_sense.asnumpy())
    assert (manager.cur_iter, manager.last_overflow_iter, manager.get_loss_scale()) == (5, 2, scale)
