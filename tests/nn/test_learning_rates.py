"""Lists and cells of learning rates against the formulas in NumPy, and what cannot be one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.nn import dynamic_lr, learning_rate_schedule

F32 = np.float32
BACKENDS = ("numpy", "onnxruntime")

# A cell, and its formula of the step t, which is a float64 array.
CELLS: list[tuple[Callable[[], Any], Callable[[Any], Any]]] = [
    (lambda: nn.ExponentialDecayLR(0.1, 0.9, 4), lambda t: 0.1 * 0.9 ** (t / 4)),
    (lambda: nn.ExponentialDecayLR(0.1, 0.5, 4, True), lambda t: 0.1 * 0.5 ** np.floor(t / 4)),
    (lambda: nn.ExponentialDecayLR(0.1, 1.1, 3), lambda t: 0.1 * 1.1 ** (t / 3)),
    (lambda: nn.NaturalExpDecayLR(0.1, 0.2, 4), lambda t: 0.1 * np.exp(-0.2 * t)),
    (lambda: nn.NaturalExpDecayLR(0.1, 0.2, 4, True), lambda t: 0.1 * np.exp(-0.2 * 4 * np.floor(t / 4))),
    (lambda: nn.InverseDecayLR(0.1, 0.5, 4), lambda t: 0.1 / (1 + 0.5 * t / 4)),
    (lambda: nn.InverseDecayLR(0.1, 0.5, 4, True), lambda t: 0.1 / (1 + 0.5 * np.floor(t / 4))),
    (lambda: nn.CosineDecayLR(0.01, 0.1, 5), lambda t: 0.01 + 0.045 * (1 + np.cos(np.pi * np.minimum(t, 5) / 5))),
    (lambda: nn.CosineDecayLR(0.0, 0.1, 9), lambda t: 0.05 * (1 + np.cos(np.pi * np.minimum(t, 9) / 9))),
    (lambda: nn.PolynomialDecayLR(0.1, 0.01, 4, 0.5), lambda t: 0.09 * (1 - np.minimum(t, 4) / 4) ** 0.5 + 0.01),
    (lambda: nn.PolynomialDecayLR(0.1, 0.0, 4, 2.0, True),
     lambda t: 0.1 * (1 - t / (4 * np.maximum(np.ceil(t / 4), 1))) ** 2),
    (lambda: nn.WarmUpLR(0.1, 4), lambda t: 0.1 * np.minimum(t, 4) / 4),
    (lambda: nn.WarmUpLR(0.0, 4), lambda t: 0.0 * t),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(CELLS)))
def test_a_cell_follows_its_formula_step_by_step(number: int, backend: str) -> None:
    make, formula = CELLS[number]
    w = graphls.Parameter(np.zeros((), F32), name="w")
    optimizer, g = nn.SGD([w], make()), (F32(1),)
    assert optimizer.dynamic_lr and isinstance(optimizer.learning_rate, nn.LearningRateSchedule)
    step = graphls.compile(optimizer, g, backend=backend)
    expected = formula(np.arange(13, dtype=np.float64))
    for rate in expected:
        w.set_data(0.0)
        step(g)
        np.testing.assert_allclose(float(w), -rate, rtol=3e-6, atol=1e-8)
    assert optimizer.global_step.tolist() == [13]


@pytest.mark.parametrize("number", range(len(CELLS)))
def test_a_cell_is_called_with_a_step(number: int) -> None:
    make, formula = CELLS[number]
    for step in (graphls.Tensor(6, graphls.int32), graphls.Tensor([6], graphls.int32)):
        rate = make()(step)
        assert (rate.shape, rate.dtype) == (step.shape, graphls.float32)
        np.testing.assert_allclose(rate.asnumpy(), np.full(step.shape, formula(np.float64(6))), rtol=3e-6, atol=1e-8)


def test_stairs_are_exact_where_float32_is_not() -> None:
    late = 2**24 + 1
    cell = nn.InverseDecayLR(1.0, 1.0, late, True)
    assert [float(cell(graphls.Tensor(t, graphls.int32))) for t in (late - 1, late)] == [1.0, 0.5]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(CELLS)))
def test_a_skipped_step_does_not_advance_a_cell(number: int, backend: str) -> None:
    make, formula = CELLS[number]
    net = nn.Dense(1, 1, np.zeros((1, 1), F32), has_bias=False)
    optimizer = nn.SGD(net.trainable_params(), make())
    loss = nn.WithLossCell(net, nn.MSELoss())
    cell = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.FixedLossScaleUpdateCell(8))
    x, y = np.ones((1, 1), F32), np.full((1, 1), -0.5, F32)
    step = graphls.compile(cell, x, y, backend=backend)
    for count, overflows in enumerate([False, True, False, True, True, False]):
        taken = [0, 1, 1, 2, 2, 2][count]
        np.testing.assert_allclose(float(optimizer.get_lr()), formula(np.float64(taken)), rtol=3e-6, atol=1e-8)
        net.weight.set_data(np.zeros((1, 1), F32))
        assert bool(step(x * F32(np.inf) if overflows else x, y)[1]) is overflows
        rate = 0.0 if overflows else formula(np.float64(taken))
        np.testing.assert_allclose(net.weight.asnumpy(), [[-rate]], rtol=3e-6, atol=1e-8)


# A list, and its formula of the epoch e; three epochs of two steps and one step.
LISTS: list[tuple[Callable[..., list[float]], tuple[Any, ...], tuple[Any, ...], Callable[[int], float]]] = [
    (nn.exponential_decay_lr, (0.1, 0.9), (2,), lambda e: 0.1 * 0.9 ** (e / 2)),
    (nn.exponential_decay_lr, (0.1, 0.9), (2, True), lambda e: 0.1 * 0.9 ** (e // 2)),
    (nn.natural_exp_decay_lr, (0.1, 0.9), (2,), lambda e: 0.1 * math.exp(-0.9 * e)),
    (nn.natural_exp_decay_lr, (0.1, 0.9), (2, True), lambda e: 0.1 * math.exp(-0.9 * 2 * (e // 2))),
    (nn.inverse_decay_lr, (0.1, 0.5), (2,), lambda e: 0.1 / (1 + 0.5 * e / 2)),
    (nn.inverse_decay_lr, (0.1, 0.5), (2, True), lambda e: 0.1 / (1 + 0.5 * (e // 2))),
    (nn.cosine_decay_lr, (0.01, 0.1), (2,), lambda e: 0.01 + 0.045 * (1 + math.cos(math.pi * min(e, 2) / 2))),
    (nn.polynomial_decay_lr, (0.1, 0.01), (2, 0.5), lambda e: 0.09 * (1 - min(e, 2) / 2) ** 0.5 + 0.01),
    (nn.polynomial_decay_lr, (0.1, 0.01), (2, 2.0, True), lambda e: 0.09 * (1 - e / [2, 2, 2, 4][e]) ** 2.0 + 0.01),
    (nn.warmup_lr, (0.1,), (2,), lambda e: 0.1 * min(e, 2) / 2),
]


@pytest.mark.parametrize("number", range(len(LISTS)))
def test_a_list_follows_its_formula(number: int) -> None:
    function, rates, rest, formula = LISTS[number]
    found = function(*rates, 7, 2, *rest)
    assert isinstance(found, list) and all(type(rate) is float for rate in found)
    np.testing.assert_allclose(found, [formula(e) for e in (0, 0, 1, 1, 2, 2, 3)], rtol=1e-14)


def test_the_examples_of_the_documents() -> None:
    assert nn.piecewise_constant_lr([2, 5, 10], [0.1, 0.05, 0.01]) == [0.1] * 2 + [0.05] * 3 + [0.01] * 5
    assert nn.piecewise_constant_lr((2, 2), (0.5, 0.1)) == [0.5, 0.5]
    found = nn.polynomial_decay_lr(0.1, 0.01, 6, 2, 2, 0.5)
    np.testing.assert_allclose(found, [0.1, 0.1, 0.07363961030678928, 0.07363961030678928, 0.01, 0.01])
    np.testing.assert_allclose(nn.warmup_lr(0.1, 6, 2, 2), [0.0, 0.0, 0.05, 0.05, 0.1, 0.1])


def test_the_names_are_where_scripts_look_for_them() -> None:
    for name in ("piecewise_constant_lr", "exponential_decay_lr", "natural_exp_decay_lr", "inverse_decay_lr",
                 "cosine_decay_lr", "polynomial_decay_lr", "warmup_lr"):  # fmt: skip
        assert getattr(nn, name) is getattr(dynamic_lr, name)
    for name in ("LearningRateSchedule", "ExponentialDecayLR", "NaturalExpDecayLR", "InverseDecayLR", "CosineDecayLR",
                 "PolynomialDecayLR", "WarmUpLR"):  # fmt: skip
        assert getattr(nn, name) is getattr(learning_rate_schedule, name)


DECAYS = [nn.ExponentialDecayLR, nn.NaturalExpDecayLR, nn.InverseDecayLR]
DECAY_LISTS = [nn.exponential_decay_lr, nn.natural_exp_decay_lr, nn.inverse_decay_lr]

WRONG: list[Any] = [
    *((lambda c=c: c(1, 0.9, 4), TypeError, "'learning_rate' must be float and must > 0, but got '1' with type 'int'")
      for c in DECAYS),
    *((lambda c=c: c(-0.1, 0.9, 4), ValueError, "'learning_rate' must be float and must > 0") for c in DECAYS),
    *((lambda c=c: c(0.1, 1, 4), TypeError, "'decay_rate'") for c in DECAYS),
    *((lambda c=c: c(0.1, 0.0, 4), ValueError, "'decay_rate'") for c in DECAYS),
    *((lambda c=c: c(0.1, 0.9, 4.0), TypeError, "'decay_steps' must be int and must > 0") for c in DECAYS),
    *((lambda c=c: c(0.1, 0.9, 0), ValueError, "'decay_steps'") for c in DECAYS),
    *((lambda c=c: c(0.1, 0.9, 4, 1), TypeError, "'is_stair' must be bool") for c in DECAYS),
    *((lambda f=f: f(1, 0.9, 4, 2, 2), TypeError, f"{f.__name__}', the 'learning_rate'") for f in DECAY_LISTS),
    *((lambda f=f: f(0.1, 0.0, 4, 2, 2), ValueError, "'decay_rate'") for f in DECAY_LISTS),
    *((lambda f=f: f(0.1, 0.9, 4.0, 2, 2), TypeError, "'total_step'") for f in DECAY_LISTS),
    *((lambda f=f: f(0.1, 0.9, 4, 0, 2), ValueError, "'step_per_epoch'") for f in DECAY_LISTS),
    *((lambda f=f: f(0.1, 0.9, 4, 2, True), TypeError, "'decay_epoch'") for f in DECAY_LISTS),
    *((lambda f=f: f(0.1, 0.9, 4, 2, 2, 0), TypeError, "'is_stair'") for f in DECAY_LISTS),
    (lambda: nn.CosineDecayLR(0, 0.1, 4), TypeError, "'min_lr' must be float"),
    (lambda: nn.CosineDecayLR(-0.1, 0.1, 4), ValueError, "'min_lr'"),
    (lambda: nn.CosineDecayLR(0.1, 1, 4), TypeError, "'max_lr'"),
    (lambda: nn.CosineDecayLR(0.1, 0.1, 4), ValueError, "'max_lr' must be greater than the 'min_lr'"),
    (lambda: nn.CosineDecayLR(0.0, 0.1, 0), ValueError, "'decay_steps'"),
    (lambda: nn.cosine_decay_lr(0.1, 0.1, 4, 2, 2), ValueError, "'max_lr' must be greater than the 'min_lr'"),
    (lambda: nn.cosine_decay_lr(0.0, 0.1, 4, 2, 0), ValueError, "'decay_epoch'"),
    (lambda: nn.PolynomialDecayLR(1, 0.1, 4, 0.5), TypeError, "'learning_rate'"),
    (lambda: nn.PolynomialDecayLR(0.1, 0, 4, 0.5), TypeError, "'end_learning_rate' must be float and must >= 0"),
    (lambda: nn.PolynomialDecayLR(0.1, 0.0, 4, 1), TypeError, "'power'"),
    (lambda: nn.PolynomialDecayLR(0.1, 0.0, -4, 1.0), ValueError, "'decay_steps'"),
    (lambda: nn.PolynomialDecayLR(0.1, 0.0, 4, 1.0, None), TypeError, "'update_decay_steps'"),
    (lambda: nn.polynomial_decay_lr(0.1, -0.1, 4, 2, 2, 0.5), ValueError, "'end_learning_rate'"),
    (lambda: nn.polynomial_decay_lr(0.1, 0.1, 4, 2, 2, 0.0), ValueError, "'power'"),
    (lambda: nn.polynomial_decay_lr(0.1, 0.1, 4, 2, 2, 0.5, 1), TypeError, "'update_decay_epoch'"),
    (lambda: nn.WarmUpLR(1, 4), TypeError, "'learning_rate'"),
    (lambda: nn.WarmUpLR(math.nan, 4), ValueError, "'learning_rate'"),
    (lambda: nn.WarmUpLR(0.1, 4.0), TypeError, "'warmup_steps'"),
    (lambda: nn.warmup_lr(0.1, 4, 2, 0), ValueError, "'warmup_epoch'"),
    (lambda: nn.warmup_lr(-0.1, 4, 2, 2), ValueError, "'learning_rate'"),
    (lambda: nn.piecewise_constant_lr(3, [0.1]), TypeError, "'milestone' must be a list or tuple"),
    (lambda: nn.piecewise_constant_lr([3], 0.1), TypeError, "'learning_rates' must be a list or tuple"),
    (lambda: nn.piecewise_constant_lr([3, 4], [0.1]), ValueError, "must be same with the size of 'learning_rates'"),
    (lambda: nn.piecewise_constant_lr([3, 2], [0.1, 0.2]), ValueError, r"milestone\[1\] is 2 after 3"),
    (lambda: nn.piecewise_constant_lr([0], [0.1]), ValueError, r"'milestone\[0\]' must be int and must > 0"),
    (lambda: nn.piecewise_constant_lr([1.0], [0.1]), TypeError, r"'milestone\[0\]'"),
    (lambda: nn.piecewise_constant_lr([1], [1]), TypeError, r"'learning_rates\[0\]'"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_settings(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_learning_rates.py")


def test_a_schedule_needs_a_construct() -> None:
    with pytest.raises(NotImplementedError, match="LearningRateSchedule defines no construct"):
        nn.LearningRateSchedule()(graphls.Tensor([1], graphls.int32))


def test_rates_from_numpy() -> None:
    w = graphls.Parameter(np.zeros(2, F32), name="w")
    assert float(nn.SGD([w], F32(0.5)).get_lr()) == 0.5
    assert float(nn.SGD([w], [F32(0.5), F32(0.25)]).get_lr()) == 0.5
    assert float(nn.SGD([w], np.array([0.5, 0.25])).get_lr()) == 0.5
    with pytest.raises(TypeError, match="'learning rate'"):
        nn.SGD([w], np.array([True, False]))


def test_one_iterator_serves_all_groups() -> None:
    a, b, c = (graphls.Parameter(np.zeros(2, F32), name=n) for n in "abc")
    groups = [{"params": [a]}, {"params": [b]}, {"params": [c], "lr": 0.125}]
    assert [float(rate) for rate in nn.SGD(groups, iter([0.5, 0.25])).get_lr()] == [0.5, 0.5, 0.125]
