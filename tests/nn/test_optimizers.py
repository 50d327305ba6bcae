"""Optimizers over many steps against the programs in `descent.py`."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from tests.nn import descent

BACKENDS = ("numpy", "onnxruntime")
SHAPES = {"fc.weight": (4, 3), "fc.bias": (4,), "bn.gamma": (4,), "scale": ()}
STEPS = 100
BETA2 = float(np.float32(0.999))  # 1 - 0.999 in float32 is 1.3e-5 off, which shows where no bias is corrected


def parameters(seed: int = 0) -> list[graphls.Parameter]:
    rng = np.random.default_rng(seed)
    return [graphls.Parameter(rng.normal(size=s).astype(np.float32), name=n) for n, s in SHAPES.items()]


def gradients(number: int, scale: float = 1.0, dtype: Any = np.float32) -> tuple[Any, ...]:
    rng = np.random.default_rng(100 + number)
    return tuple((scale * rng.normal(size=s)).astype(dtype) for s in SHAPES.values())


def follow(optimizer: nn.Optimizer, references: list[descent.Reference], backend: str, scale: float = 1.0) -> None:
    """Run both for many steps and compare the parameters after the first and every tenth."""
    step = graphls.compile(optimizer, gradients(0), backend=backend)
    for number in range(STEPS):
        given = gradients(number, scale)
        assert step(given) == (True,) * len(given)
        for parameter, reference, g in zip(optimizer.parameters, references, given, strict=True):
            reference.step(g)
            if number % 10 == 0 or number == STEPS - 1:
                np.testing.assert_allclose(parameter.asnumpy(), reference.w, rtol=2e-5, atol=2e-6)
    assert optimizer.global_step.asnumpy().tolist() == [STEPS]


def references(kind: Any, given: list[graphls.Parameter], **settings: Any) -> list[descent.Reference]:
    """One for each parameter; what is called gamma does not decay."""
    decay = settings.pop("weight_decay", 0.0)
    return [
        kind(p.asnumpy().astype(np.float64), weight_decay=0.0 if "gamma" in p.name else decay, **settings)
        for p in given
    ]


CASES: list[Any] = [
    (nn.Momentum, descent.Momentum, {"momentum": 0.9}, {}),
    (nn.Momentum, descent.Momentum, {"momentum": 0.8, "use_nesterov": True}, {}),
    (nn.Momentum, descent.Momentum, {"momentum": 0.9}, {"weight_decay": 0.1, "loss_scale": 8.0}),
    (nn.SGD, descent.SGD, {}, {}),
    (nn.SGD, descent.SGD, {"momentum": 0.9, "dampening": 0.3}, {"weight_decay": 0.1}),
    (nn.SGD, descent.SGD, {"momentum": 0.9, "nesterov": True}, {"loss_scale": 4.0}),
    (nn.SGD, descent.SGD, {"momentum": 1}, {}),
    (nn.Adam, descent.Adam, {}, {}),
    (nn.Adam, descent.Adam, {"beta1": 0.8, "beta2": 0.9, "eps": 1e-2}, {"weight_decay": 0.1, "loss_scale": 16.0}),
    (nn.Adam, descent.Adam, {"use_nesterov": True}, {}),
    (nn.Adam, descent.Adam, {"use_amsgrad": True, "beta2": 0.5}, {}),
    (nn.AdaMax, descent.AdaMax, {}, {"weight_decay": 0.1, "loss_scale": 2.0}),
    (nn.AdaMax, descent.AdaMax, {"beta1": 0.8, "beta2": 0.9, "eps": 1e-2}, {}),
    (nn.AdamWeightDecay, descent.AdamWeightDecay, {"beta2": BETA2}, {}),
    (nn.AdamWeightDecay, descent.AdamWeightDecay, {"beta1": 0.8, "beta2": 0.9, "eps": 1e-2}, {"weight_decay": 0.1}),
    (nn.AdamW, descent.AdamW, {}, {"weight_decay": 0.0, "loss_scale": 8.0}),
    (nn.AdamW, descent.AdamW, {"betas": (0.8, 0.9), "eps": 1e-2}, {"weight_decay": 0.1}),
    (nn.AdamW, descent.AdamW, {"amsgrad": True, "betas": [0.9, 0.5]}, {"weight_decay": 0.1}),
    (nn.Lamb, descent.Lamb, {}, {}),
    (nn.Lamb, descent.Lamb, {"beta1": 0.8, "beta2": 0.9, "eps": 1e-2}, {"weight_decay": 0.1}),
    (nn.RMSProp, descent.RMSProp, {}, {"weight_decay": 0.1, "loss_scale": 4.0}),
    (nn.RMSProp, descent.RMSProp, {"decay": 0.8, "momentum": 0.7, "epsilon": 1e-2}, {}),
    (nn.RMSProp, descent.RMSProp, {"centered": True, "momentum": 0.7, "epsilon": 1e-2}, {}),
    (nn.Adagrad, descent.Adagrad, {}, {"weight_decay": 0.1, "loss_scale": 4.0}),
    (nn.Adagrad, descent.Adagrad, {"accum": 0.5, "update_slots": False}, {}),
    (nn.Adagrad, descent.Adagrad, {"accum": 0.0}, {}),
    (nn.Adadelta, descent.Adadelta, {}, {"weight_decay": 0.1, "loss_scale": 4.0}),
    (nn.Adadelta, descent.Adadelta, {"rho": 0.5, "epsilon": 1e-3}, {}),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_many_steps(number: int, backend: str) -> None:
    rate = 0.05 if backend == "onnxruntime" else [0.1, 0.05, 0.02]
    kind, reference, own, shared = CASES[number]
    given = parameters()
    expected = references(reference, given, lr=rate, **{k.removeprefix("use_"): v for k, v in own.items()}, **shared)
    follow(kind(given, learning_rate=rate, **own, **shared), expected, backend, shared.get("loss_scale", 1.0))


@pytest.mark.parametrize("backend", BACKENDS)
def test_groups_with_settings_of_their_own(backend: str) -> None:
    weight, bias, gamma, scale = given = parameters()
    groups: list[Any] = [
        {"params": [gamma, weight], "lr": [0.3, 0.1], "weight_decay": 0.2},
        {"params": iter([bias]), "lr": 0.02},
        {"params": [scale], "weight_decay": 0.0},
        {"order_params": given},
    ]
    optimizer = nn.Momentum(groups, 0.05, 0.9, weight_decay=0.1)
    assert list(optimizer.parameters) == given and optimizer.is_group_lr and optimizer.dynamic_lr
    assert optimizer.is_group and optimizer.is_group_params_ordered
    settings = [([0.3, 0.1], 0.2), (0.02, 0.1), ([0.3, 0.1], 0.2), (0.05, 0.0)]
    expected = [
        descent.Momentum(p.asnumpy().astype(np.float64), lr=lr, weight_decay=decay)
        for p, (lr, decay) in zip(given, settings, strict=True)
    ]
    np.testing.assert_allclose([float(rate) for rate in optimizer.get_lr()], [0.3, 0.02, 0.3, 0.05])
    assert optimizer.get_weight_decay() == (0.2, 0.1, 0.2, 0.0)
    assert optimizer.get_lr_parameter(bias).learning_rate.name == "learning_rate_group_1"
    assert all(isinstance(rate, nn.LearningRateSchedule) for rate in optimizer.learning_rate)
    assert {p.name for p in optimizer.get_parameters() if "learning_rate" in p.name} == {
        f"learning_rate_group_{i}" for i in range(3)
    }
    follow(optimizer, expected, backend)


GROUPED: list[Any] = [
    (nn.Adam, descent.Adam),
    (nn.AdaMax, descent.AdaMax),
    (partial(nn.AdamWeightDecay, beta2=BETA2), partial(descent.AdamWeightDecay, beta2=BETA2)),
    (nn.AdamW, descent.AdamW),
    (nn.Lamb, descent.Lamb),
    (nn.RMSProp, descent.RMSProp),
    (nn.Adagrad, descent.Adagrad),
    (nn.Adadelta, descent.Adadelta),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(GROUPED)))
def test_groups_of_every_optimizer(number: int, backend: str) -> None:
    kind, reference = GROUPED[number]
    given = parameters()
    groups: list[Any] = [
        {"params": [given[2], given[0]], "lr": [0.02, 0.01], "weight_decay": Decay()},
        {"params": given[1:2], "weight_decay": 0.3},
        {"params": given[3:], "lr": Decay(), "weight_decay": 0.0},
        {"order_params": given},
    ]
    settings = [([0.02, 0.01], falling), (0.05, 0.3), ([0.02, 0.01], falling), (falling, 0.0)]
    expected = [
        reference(p.asnumpy().astype(np.float64), lr=lr, weight_decay=decay)
        for p, (lr, decay) in zip(given, settings, strict=True)
    ]
    follow(kind(groups, learning_rate=0.05), expected, backend)


@pytest.mark.parametrize("kind", [nn.SGD, nn.Adam, nn.AdamWeightDecay, nn.AdamW, nn.Lamb, nn.Adagrad])
def test_every_optimizer_centralises_where_a_group_says_so(kind: Any) -> None:
    rng = np.random.default_rng(0)
    start, g = rng.normal(size=(2, 2, 16)).astype(np.float32)
    ends = []
    for flag, given in ((True, g), (False, g - g.mean(1, keepdims=True)), (False, g)):
        w = graphls.Parameter(start, name="w")
        kind([{"params": [w], "grad_centralization": flag}], learning_rate=0.1)((given,))
        ends.append(w.asnumpy())
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-4, atol=1e-6)
    assert not np.allclose(ends[0], ends[2])


def test_gradient_centralisation() -> None:
    wide = graphls.Parameter(np.zeros((2, 16, 3), np.float32), name="wide")
    narrow = graphls.Parameter(np.zeros((2, 5), np.float32), name="narrow")
    optimizer = nn.SGD([{"params": [wide, narrow], "grad_centralization": True}], 1.0)
    g = np.random.default_rng(0).normal(size=(2, 16, 3)).astype(np.float32)
    optimizer((graphls.Tensor(g), graphls.Tensor(np.ones((2, 5), np.float32))))
    np.testing.assert_allclose(wide.asnumpy(), -(g - g.mean((1, 2), keepdims=True)), rtol=1e-5, atol=1e-6)
    assert narrow.asnumpy().tolist() == np.full((2, 5), -1).tolist()


class Decay(nn.LearningRateSchedule):
    """A schedule that a user writes."""

    def construct(self, global_step: Any) -> Any:
        return 0.1 / (ops.cast(global_step, graphls.float32) + 1.0)


def falling(step: int) -> float:
    """The same in Python."""
    return 0.1 / (step + 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_schedules(backend: str) -> None:
    given = parameters()
    optimizer = nn.Adam(given, Decay())
    np.testing.assert_allclose(float(optimizer.get_lr()), 0.1, rtol=1e-6)
    follow(optimizer, references(descent.Adam, given, lr=falling), backend)
    np.testing.assert_allclose(float(optimizer.get_lr()), 0.1 / (STEPS + 1), rtol=1e-6)


def test_weight_decay_by_a_cell() -> None:
    (weight,) = [graphls.Parameter(np.ones(3, np.float32), name="w")]
    optimizer = nn.Momentum([weight], 1.0, 0.0, weight_decay=Decay(), loss_scale=2.0)
    step = graphls.compile(optimizer, (np.zeros(3, np.float32),), backend="numpy")
    for expected in (0.9, 0.9 * 0.95):
        step((np.zeros(3, np.float32),))
        np.testing.assert_allclose(weight.asnumpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_half_gradients_and_half_parameters(backend: str) -> None:
    w = graphls.Parameter(np.ones(3, np.float16), name="w")
    optimizer = nn.Momentum([w], 2.0**-12, 0.9)
    assert optimizer.moments[0].dtype is graphls.float32
    g = (np.full(3, 3e-7, np.float16),)
    step = graphls.compile(optimizer, g, backend=backend)
    step(g)
    np.testing.assert_allclose(optimizer.moments[0].asnumpy(), g[0].astype(np.float32))
    assert w.asnumpy().dtype == np.float16


def test_the_learning_rate_is_set_from_outside() -> None:
    w = graphls.Parameter(np.zeros(2, np.float32), name="w")
    optimizer = nn.SGD([w], 0.5)
    g = (np.ones(2, np.float32),)
    step = graphls.compile(optimizer, g)
    step(g)
    optimizer.learning_rate.set_data(0.25)
    step(g)
    assert w.asnumpy().tolist() == [-0.75, -0.75]


def test_names_of_states() -> None:
    def states(optimizer: nn.Optimizer) -> list[str]:
        return [p.name for p in optimizer.get_parameters() if p.name != "w"]

    w = graphls.Parameter(np.zeros(2, np.float32), name="w")
    shared = ["global_step", "learning_rate"]
    assert states(nn.Momentum([w], 0.1, 0.9)) == [*shared, "momentum", "moments.w"]
    assert states(nn.SGD([w])) == [*shared, "momentum", "accum.w", "stat.w"]
    assert states(nn.Adam([w])) == [*shared, "beta1_power", "beta2_power", "moment1.w", "moment2.w"]
    assert states(nn.Adam([w], use_amsgrad=True))[-1] == "vhat.w"
    powers = ["beta1_power", "moment1.w", "moment2.w"]
    assert states(nn.AdaMax([w])) == [*shared, *powers]
    assert states(nn.AdamWeightDecay([w])) == [*shared, "adam_m.w", "adam_v.w"]
    assert states(nn.AdamW([w], amsgrad=True)) == [*shared, "adam_m.w", "adam_v.w", "vhat.w"]
    assert states(nn.Lamb([w], 0.1)) == [*shared, "lamb_m.w", "lamb_v.w"]
    assert states(nn.RMSProp([w], centered=True)) == [*shared, "mean_grad.w", "mean_square.w", "moment.w"]
    assert states(nn.Adagrad([w])) == [*shared, "accum.w"]
    assert states(nn.Adadelta([w])) == [*shared, "accum.w", "accum_update.w"]
    assert "learning_rate" in states(nn.SGD([w], [0.1, 0.2]))
    step = nn.SGD([w]).global_step
    assert (step.shape, step.dtype) == ((1,), graphls.int32)
    assert nn.SGD([w]).trainable_params() == [w]


def test_a_list_that_ends_warns_once_where_it_can() -> None:
    w = graphls.Parameter(np.zeros(2, np.float32), name="w")
    optimizer, g = nn.SGD([w], [0.5, 0.25]), (graphls.Tensor(np.ones(2, np.float32)),)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer(g)
        optimizer(g)
    with pytest.warns(UserWarning, match="2 learning rates is shorter"):
        optimizer(g)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer(g)
    np.testing.assert_allclose(w.asnumpy(), -1.25)


def test_a_constant_gradient_has_a_variance_of_zero_and_not_below() -> None:
    w, g = graphls.Parameter(np.zeros(3, np.float32), name="w"), (np.float32([0.1, 0.3, 0.7]),)
    optimizer = nn.RMSProp([w], 1e-6, centered=True)
    step = graphls.compile(optimizer, g, backend="numpy")
    for _ in range(300):
        step(g)
    assert np.isfinite(w.asnumpy()).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_adagrad_from_zero_leaves_what_has_no_gradient(backend: str) -> None:
    w, g = graphls.Parameter(np.ones(2, np.float32), name="w"), (np.float32([0, 3]),)
    graphls.compile(nn.Adagrad([w], 0.0, 0.5), g, backend=backend)(g)
    assert w.tolist() == [1, 0.5]


def test_a_fixed_rate_beside_schedules_is_set_from_outside() -> None:
    a, b = (graphls.Parameter(np.zeros(2, np.float32), name=n) for n in "ab")
    optimizer = nn.SGD([{"params": [a], "lr": Decay()}, {"params": [b], "lr": 0.5}])
    g = (np.ones(2, np.float32),) * 2
    step = graphls.compile(optimizer, g)
    step(g)
    optimizer.get_lr_parameter(b).learning_rate.set_data(0.25)
    step(g)
    assert b.tolist() == [-0.75, -0.75]


class Plain(nn.Optimizer):
    """An optimizer that a user writes, as MindSpore's documents do."""

    def construct(self, gradients: Any) -> Any:
        gradients = self.scale_grad(self.decay_weight(gradients))
        rate = self.get_lr()
        ops.assign_add(self.global_step, 1)
        for parameter, g in zip(self.parameters, gradients, strict=True):
            ops.assign_sub(parameter, rate * g)
        return True


class Tutorial(nn.Optimizer):
    """The optimizer of MindSpore's tutorial, which returns its parameters."""

    def __init__(self, params: Any, learning_rate: Any, momentum: float = 0.9) -> None:
        super().__init__(learning_rate, params)
        self.momentum = graphls.Parameter(graphls.Tensor(momentum, graphls.float32), name="momentum")
        self.moments = self.parameters.clone(prefix="moments", init="zeros")

    def construct(self, gradients: Any) -> Any:
        gradients = self.flatten_gradients(gradients)
        rate = self.get_lr()
        self.assignadd(self.global_step, self.global_step_increase_tensor)
        for i in range(len(self.parameters)):
            ops.assign(self.moments[i], self.moments[i] * self.momentum + gradients[i])
            ops.assign(self.parameters[i], self.parameters[i] - self.moments[i] * rate)
        return self.parameters


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_optimizer_of_the_tutorial(backend: str) -> None:
    given = parameters()
    optimizer, expected = Tutorial(given, Decay()), references(descent.Momentum, given, lr=falling)
    step = graphls.compile(optimizer, gradients(0), backend=backend)
    for number in range(5):
        found = step(gradients(number))
        for reference, w, g in zip(expected, found, gradients(number), strict=True):
            reference.step(g)
            np.testing.assert_allclose(w.asnumpy(), reference.w, rtol=2e-5, atol=2e-6)


def test_what_optimizers_of_users_read() -> None:
    given = parameters()
    optimizer = nn.Momentum(given, 0.1, 0.9, weight_decay=0.1, loss_scale=4.0)
    assert optimizer.decay_flags == (True, True, False, True)
    assert (optimizer.need_scale, optimizer.reciprocal_scale) == (True, 0.25)
    groups = [{"params": given[:2], "weight_decay": 0.5}, {"params": given[2:]}]
    assert nn.Momentum(groups, 0.1, 0.9).decay_flags == (True, True, False, False)


def test_an_optimizer_of_the_user() -> None:
    w = graphls.Parameter(np.ones(2, np.float32), name="w")
    optimizer = Plain(0.5, [w], weight_decay=0.1, loss_scale=2.0)
    assert optimizer((np.ones(2, np.float32),)) is True
    np.testing.assert_allclose(w.asnumpy(), 1 - 0.5 * (1 + 0.2) / 2, rtol=1e-6)
