"""Model with loss scaling: managers of both kinds, steps that are skipped, runs in which all are."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, train
from graphls.train.runner import OverflowWatch
from tests.train.standins import Recorder, Rows, line

X, Y = line(8)
BAD = X.copy()
BAD[4:6] = np.inf


def half(manager: Any, optimizer_scale: float = 1.0, **options: Any) -> tuple[train.Model, nn.Dense]:
    graphls.set_seed(1)
    net = nn.Dense(3, 2)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9, loss_scale=optimizer_scale)
    settings = {**options, **({} if manager is None else {"loss_scale_manager": manager})}
    return train.Model(net, nn.MSELoss(), optimizer, amp_level="O3", **settings), net


def scales(model: train.Model, x: Any, epochs: int = 1, **options: Any) -> list[Any]:
    """(skipped, the scale in the step's result) of each step."""
    seen: list[Any] = []
    told = train.LambdaCallback(
        on_train_step_end=lambda context: seen.append(
            (bool(context.original_args().net_outputs[1]), float(context.original_args().net_outputs[2]))
        )
    )
    model.train(epochs, Rows(x, Y, batch=2, shuffle=False), told, **options)
    return seen


def test_a_dynamic_manager_follows_the_scale_of_the_steps() -> None:
    manager = graphls.DynamicLossScaleManager(1024, 2, 2)
    model, _ = half(manager)
    assert isinstance(model.train_network, nn.TrainOneStepWithLossScaleCell)
    found = scales(model, BAD, 2)
    assert found == [
        (False, 1024), (False, 2048), (True, 1024), (False, 1024), (False, 2048), (False, 2048), (True, 1024),
        (False, 1024),
    ]  # fmt: skip
    assert (manager.get_loss_scale(), manager.cur_iter, manager.last_overflow_iter) == (1024, 9, 7)


def test_a_manager_is_updated_between_the_step_and_the_hook_of_its_end() -> None:
    manager = graphls.DynamicLossScaleManager(1024, 2, 1)
    model, _ = half(manager)
    seen: list[float] = []
    hooks = ("on_train_step_begin", "on_train_step_end")
    watch = {hook: lambda context: seen.append(manager.get_loss_scale()) for hook in hooks}
    model.train(1, Rows(X[:4], Y[:4], batch=2), train.LambdaCallback(**watch))
    assert seen == [1024, 2048, 2048, 4096]


def test_a_fixed_manager_that_drops_skips_steps_and_keeps_its_scale() -> None:
    model, net = half(graphls.FixedLossScaleManager(256, drop_overflow_update=True))
    assert scales(model, BAD) == [(False, 256), (False, 256), (True, 256), (False, 256)]
    assert np.isfinite(net.weight.asnumpy()).all()


def test_a_fixed_manager_that_does_not_drop_takes_every_step() -> None:
    manager = graphls.FixedLossScaleManager(256, drop_overflow_update=False)
    model, net = half(manager, optimizer_scale=256)
    plain, other = half(None)
    assert not isinstance(model.train_network, nn.TrainOneStepWithLossScaleCell)
    for each in (model, plain):
        each.train(1, Rows(X, Y, batch=2, shuffle=False))
    np.testing.assert_allclose(net.weight.asnumpy(), other.weight.asnumpy(), rtol=1e-2)
    model.train(1, Rows(BAD, Y, batch=2, shuffle=False))
    assert not np.isfinite(net.weight.asnumpy()).all()


def test_a_scale_that_the_optimizer_does_not_divide_out_is_told() -> None:
    with pytest.warns(UserWarning, match="scaled by 256 and the optimizer divides gradients by 1.0"):
        half(graphls.FixedLossScaleManager(256, drop_overflow_update=False))


def test_each_network_under_o2_has_a_scale_of_its_own_and_no_manager_on_the_host() -> None:
    graphls.set_seed(1)
    models = []
    for _ in range(2):
        net = nn.Dense(3, 2)
        models.append(train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1), amp_level="O2"))
    seen = Recorder(lambda told: (told.loss_scale_mananger,))
    models[0].train(1, Rows(BAD, Y, batch=2, shuffle=False), seen)
    assert seen.calls[1] == ("on_train_begin", None)
    fallen, other = (float(m.train_network.scale_sense) for m in models)
    assert fallen < other == 2.0**24


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_normalisation_is_kept_in_float32_as_it_is_asked_for(level: str) -> None:
    net = nn.SequentialCell(nn.Dense(3, 4), nn.BatchNorm1d(4), nn.Dense(4, 2))
    optimizer = nn.SGD(net.trainable_params(), 0.1)
    train.Model(net, nn.MSELoss(), optimizer, amp_level=level, keep_batchnorm_fp32=False)
    assert net[1]._float_type is (None if level == "O0" else graphls.float16)


def test_a_manager_of_ones_own_is_told_of_each_step() -> None:
    class Own(graphls.LossScaleManager):
        def __init__(self) -> None:
            self.told: list[bool] = []

        def get_loss_scale(self) -> float:
            return 64.0

        def update_loss_scale(self, overflow: Any) -> None:
            self.told.append(overflow)

        def get_update_cell(self) -> Any:
            return nn.FixedLossScaleUpdateCell(64.0)

    manager = Own()
    scales(half(manager)[0], BAD)
    assert manager.told == [False, False, True, False]


def test_in_sink_mode_the_manager_is_left_alone_and_the_steps_are_the_same() -> None:
    manager = graphls.DynamicLossScaleManager(1024, 2, 2)
    model, net = half(manager)
    single, other = half(graphls.DynamicLossScaleManager(1024, 2, 2))
    assert scales(model, BAD, dataset_sink_mode=True) == [(False, 1024)]
    scales(single, BAD)
    assert manager.cur_iter == 1 and manager.get_loss_scale() == 1024
    assert net.weight.asnumpy().tobytes() == other.weight.asnumpy().tobytes()


CAUSE = r"Dynamic loss scale Continuous overflow {} times, has exceeded maximum threshold\. The input '\w+' holds 6 inf"


@pytest.mark.parametrize("sink", [False, True])
def test_the_1001st_overflow_in_a_row_ends_the_run_with_its_cause(sink: bool) -> None:
    model, _ = half(graphls.FixedLossScaleManager(4.0))
    x = np.full((2 * 1100, 3), np.inf, np.float32)
    x[: 2 * 20] = 1
    y = np.zeros((2 * 1100, 2), np.float32)
    steps = Recorder(lambda told: (told.cur_step_num,))
    with pytest.raises(RuntimeError, match=CAUSE.format(1080 if sink else 1001)):
        model.train(1, Rows(x, y, batch=2, shuffle=False), steps, dataset_sink_mode=sink)
    if not sink:
        assert steps.calls[-2] == ("on_train_step_begin", 1021)


def test_the_cause_is_the_first_value_that_is_not_finite() -> None:
    graphls.set_seed(1)
    net = nn.Dense(3, 2)
    model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1), amp_level="O2")
    model.train_network.scale_sense.set_data(np.float32(2.0**120))
    x = np.full((2 * 1001, 3), np.float32(60000))
    with pytest.raises(RuntimeError, match=r"1001 times, has exceeded maximum threshold\. The \w+ overflows first"):
        model.train(1, Rows(x, x[:, :2], batch=2, shuffle=False))


def test_1000_overflows_in_a_row_do_not_end_a_run() -> None:
    model, _ = half(graphls.FixedLossScaleManager(4.0))
    x = np.full((2 * 2003, 3), np.inf, np.float32)
    x[2 * 1000 : 2 * 1001] = 1
    x[2 * 2001 :] = 1
    model.train(1, Rows(x, np.zeros((len(x), 2), np.float32), batch=2, shuffle=False))


def test_the_watch_reads_no_flag_before_it_has_to() -> None:
    class Flag(graphls.Tensor):
        reads = 0

        def asnumpy(self) -> Any:
            Flag.reads += 1
            return super().asnumpy()

    watch = OverflowWatch()
    for _ in range(5000):
        watch.after_steps(Flag(np.array(False)), lambda: "")
    assert Flag.reads <= 5
    for _ in range(600):
        watch.after_steps(Flag(np.array(True)), lambda: "")
    watch.after_steps(Flag(np.array([True] * 3 + [False] + [True] * 10)), lambda: "")
    for _ in range(990):
        watch.after_steps(Flag(np.array(True)), lambda: "")
    with pytest.raises(RuntimeError, match=r"1001 times, has exceeded maximum threshold\. why"):
        watch.after_steps(Flag(np.array(True)), lambda: "why")


@pytest.mark.parametrize("sink", [False, True])
def test_after_the_end_of_a_list_of_learning_rates_there_is_one_warning(sink: bool) -> None:
    graphls.set_seed(1)
    net = nn.Dense(3, 2)
    model = train.Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), [0.1, 0.05, 0.01]))
    with pytest.warns(UserWarning, match="The list of 3 learning rates is shorter than the run") as caught:
        for _ in range(3):
            model.train(1, Rows(X, Y, batch=2), dataset_sink_mode=sink)
    assert len([w for w in caught if "learning rates" in str(w.message)]) == 1


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.filterwarnings("default")
def test_a_run_of_which_most_steps_are_skipped_names_the_scale_to_begin_with(sink: bool) -> None:
    rows = Rows(*line(32), batch=2, shuffle=False)  # 16 steps
    model, _ = half(graphls.DynamicLossScaleManager())
    with pytest.warns(UserWarning, match="of 16 steps overflowed and were skipped; begin with ") as told:
        model.train(1, rows, dataset_sink_mode=sink)
    text = next(str(each.message) for each in told if "steps overflowed" in str(each.message))
    setting = "loss_scale_value" if sink else "init_loss_scale"
    found = re.search(rf"^(\d+) of 16 .* with {setting} (\d+), ", text)
    assert found is not None and int(found[2]) == 2 ** (24 - int(found[1]))
    assert str(Path(__file__).name) in text
    model, _ = half(graphls.DynamicLossScaleManager(int(found[2])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.train(1, rows, dataset_sink_mode=sink)
