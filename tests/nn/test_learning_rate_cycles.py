"""One cycle, cosines with restarts and warm-ups, against what PyTorch 2.13 printed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn

# The rates of the first steps, of the scheduler of `torch.optim.lr_scheduler` that stands beside each.
CASES: list[Any] = [
    # OneCycleLR(o, 0.4, total_steps=12)
    (lambda: nn.OneCycleLR(0.4, 12),
     [0.016, 0.13991586, 0.35171406, 0.39776617, 0.37320519, 0.32469826, 0.2589516, 0.18505484, 0.1132244, 0.053391012,
      0.013826795, 1.6e-06]),
    # OneCycleLR(o, 0.4, total_steps=12, anneal_strategy="linear", pct_start=0.25, div_factor=10, final_div_factor=100)
    (lambda: nn.OneCycleLR(0.4, 12, 0.25, "linear", div_factor=10, final_div_factor=100),
     [0.04, 0.22, 0.4, 0.3556, 0.3112, 0.2668, 0.2224, 0.178, 0.1336, 0.0892, 0.0448, 0.0004]),
    # OneCycleLR(o, 0.4, total_steps=12, three_phase=True)
    (lambda: nn.OneCycleLR(0.4, 12, three_phase=True),
     [0.016, 0.13991586, 0.35171406, 0.37800756, 0.18485696, 0.021579171, 0.015260677, 0.012489848, 0.008433868,
      0.0042539072, 0.0011466281, 1.6e-06]),
    # CosineAnnealingWarmRestarts(o, 4, 1, 0.01), lr=0.1
    (lambda: nn.CosineRestartsLR(0.01, 0.1, 4), [0.1, 0.086819805, 0.055, 0.023180195] * 3),
    # CosineAnnealingWarmRestarts(o, 3, 2, 0.01), lr=0.1
    (lambda: nn.CosineRestartsLR(0.01, 0.1, 3, 2),
     [0.1, 0.0775, 0.0325, 0.1, 0.093971143, 0.0775, 0.055, 0.0325, 0.016028857, 0.1, 0.098466662, 0.093971143,
      0.086819805, 0.0775, 0.066646857, 0.055, 0.043353143, 0.0325, 0.023180195, 0.016028857, 0.011533338, 0.1]),
    # CosineAnnealingWarmRestarts(o, 2, 3, 0.0), lr=0.1
    (lambda: nn.CosineRestartsLR(0.0, 0.1, 2, 3), [0.1, 0.05, 0.1, 0.09330127, 0.075, 0.05, 0.025, 0.0066987298, 0.1]),
    # SequentialLR(o, [LinearLR(o, 0.25, 1.0, 4), CosineAnnealingLR(o, 8, 0.01)], [4]), lr=0.1
    (lambda: nn.WithWarmUpLR(nn.CosineDecayLR(0.01, 0.1, 8), 4, 0.25),
     [0.025, 0.04375, 0.0625, 0.08125, 0.1, 0.096574579, 0.086819805, 0.072220754, 0.055, 0.037779246, 0.023180195,
      0.013425421, 0.01]),
    # LinearLR(o, 0.25, 1.0, 4), lr=0.1
    (lambda: nn.WithWarmUpLR(0.1, 4, 0.25), [0.025, 0.04375, 0.0625, 0.08125, 0.1, 0.1]),
]  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_rates_of_pytorch_step_by_step(number: int, backend: str) -> None:
    make, expected = CASES[number]
    w = graphls.Parameter(np.zeros((), np.float32), name="w")
    optimizer, g = nn.SGD([w], make()), (np.float32(1),)
    step = graphls.compile(optimizer, g, backend=backend)
    found = []
    for _ in expected:
        w.set_data(0.0)
        step(g)
        found.append(-float(w))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-8)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_a_schedule_is_called_with_a_step(number: int) -> None:
    make, expected = CASES[number]
    for step in (graphls.Tensor(5, graphls.int32), graphls.Tensor([5], graphls.int32)):
        rate = make()(step)
        assert (rate.shape, rate.dtype) == (step.shape, graphls.float32)
        np.testing.assert_allclose(rate.asnumpy(), np.full(step.shape, expected[5]), rtol=2e-6)


def test_behind_the_end_the_last_rate_stays_and_restarts_go_on_for_ever() -> None:
    late = graphls.Tensor(2**31 - 1, graphls.int32)
    np.testing.assert_allclose(nn.OneCycleLR(0.4, 12)(late).item(), 1.6e-6, rtol=1e-6)
    assert 0.01 <= nn.CosineRestartsLR(0.01, 0.1, 3, 2)(late).item() <= 0.1
    assert nn.WithWarmUpLR(0.1, 4)(late).item() == np.float32(0.1)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: nn.OneCycleLR(1, 10), TypeError, "'max_lr' must be float"),
        (lambda: nn.OneCycleLR(0.1, 0), ValueError, "'total_steps' must be int and must > 0"),
        (lambda: nn.OneCycleLR(0.1, 10, 1.0), ValueError, "pct_start"),
        (lambda: nn.OneCycleLR(0.1, 10, 0.6, three_phase=True), ValueError, "pct_start"),
        (lambda: nn.OneCycleLR(0.1, 10, anneal_strategy="exp"), ValueError, "is 'cos' or 'linear', not 'exp'"),
        (lambda: nn.OneCycleLR(0.1, 10, div_factor=0), ValueError, "div_factor"),
        (lambda: nn.CosineRestartsLR(0.1, 0.1, 3), ValueError, "'max_lr' must be greater"),
        (lambda: nn.CosineRestartsLR(0.0, 0.1, 3, 0), ValueError, "'factor' must be int"),
        (lambda: nn.WithWarmUpLR([0.1], 3), TypeError, "is a cell or a float, not"),
        (lambda: nn.WithWarmUpLR(0.1, 0), ValueError, "'warmup_steps' must be int"),
        (lambda: nn.WithWarmUpLR(0.1, 3, 1.5), ValueError, "start_factor"),
    ],
)
def test_what_does_not_fit(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()
