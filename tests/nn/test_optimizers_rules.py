"""FTRL, LazyAdam, ProximalAdagrad, ASGD, Rprop and AdaFactor over many steps, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from tests.nn import descent
from tests.nn import descent_rules as rules
from tests.nn.test_optimizers import BACKENDS, Decay, falling, follow, parameters, references

DECAYS: dict[str, Any] = {"weight_decay": 0.1, "loss_scale": 8.0}
LISTED = [0.1, 0.05, 0.02]

CASES: list[Any] = [
    (nn.FTRL, rules.FTRL, 0.05, {}, {}),
    (nn.FTRL, rules.FTRL, 0.05, {"initial_accum": 0.5, "lr_power": -0.7, "l1": 0.1, "l2": 0.2}, DECAYS),
    (nn.FTRL, rules.FTRL, 0.1, {"lr_power": 0.0, "l1": 0.3, "initial_accum": 1.0}, {}),
    (nn.LazyAdam, descent.Adam, LISTED, {"beta1": 0.8, "beta2": 0.9, "eps": 1e-2}, DECAYS),
    (nn.LazyAdam, descent.Adam, 0.05, {"use_nesterov": True}, {}),
    (nn.ProximalAdagrad, rules.ProximalAdagrad, LISTED, {}, {}),
    (nn.ProximalAdagrad, rules.ProximalAdagrad, 0.1, {"accum": 0.5, "l1": 0.1, "l2": 0.3}, DECAYS),
    (nn.ASGD, rules.ASGD, 0.05, {"lambd": 0.05, "alpha": 0.6}, {"weight_decay": 0.1}),
    (nn.ASGD, rules.ASGD, LISTED, {"t0": 3.0}, {}),
    (nn.Rprop, rules.Rprop, 0.05, {}, {}),
    (nn.Rprop, rules.Rprop, 0.1, {"etas": (0.3, 1.5), "step_sizes": (1e-2, 0.3)}, {"weight_decay": 0.1}),
    (nn.AdaFactor, rules.AdaFactor, None, {}, {}),
    (nn.AdaFactor, rules.AdaFactor, None, {"warmup_init": True, "beta1": 0.5, "eps": (1e-5, 0.5)}, DECAYS),
    (nn.AdaFactor, rules.AdaFactor, 0.05, {"relative_step": False, "clip_threshold": 0.5}, DECAYS),
    (nn.AdaFactor, rules.AdaFactor, LISTED, {"relative_step": False, "scale_parameter": False, "beta1": None}, {}),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", range(len(CASES)))
def test_many_steps(number: int, backend: str) -> None:
    kind, reference, rate, own, shared = CASES[number]
    given = parameters()
    expected = references(reference, given, lr=rate, **{k.removeprefix("use_"): v for k, v in own.items()}, **shared)
    follow(kind(given, learning_rate=rate, **own, **shared), expected, backend, shared.get("loss_scale", 1.0))


GROUPED: list[Any] = [
    (nn.LazyAdam, descent.Adam, {}),
    (nn.ProximalAdagrad, rules.ProximalAdagrad, {"l1": 0.01}),
    (nn.ASGD, rules.ASGD, {"lambd": 0.1}),
    (nn.Rprop, rules.Rprop, {}),
    (nn.AdaFactor, rules.AdaFactor, {"relative_step": False, "scale_parameter": False}),
]


@pytest.mark.parametrize("number", range(len(GROUPED)))
def test_groups(number: int) -> None:
    kind, reference, own = GROUPED[number]
    given = parameters()
    groups: list[Any] = [
        {"params": [given[2], given[0]], "lr": [0.02, 0.01], "weight_decay": Decay()},
        {"params": given[1:2], "weight_decay": 0.3},
        {"params": given[3:], "lr": Decay(), "weight_decay": 0.0},
        {"order_params": given},
    ]
    settings = [([0.02, 0.01], falling), (0.05, 0.3), ([0.02, 0.01], falling), (falling, 0.0)]
    expected = [
        reference(p.asnumpy().astype(np.float64), lr=lr, weight_decay=decay, **own)
        for p, (lr, decay) in zip(given, settings, strict=True)
    ]
    follow(kind(groups, learning_rate=0.05, **own), expected, "onnxruntime")


def gradient(t: int) -> Any:
    return np.array([np.cos(0.7 * t * (i + 1)) + 0.3 * (i - 1) for i in range(3)], np.float32)


# What PyTorch 2.13 makes in 100 steps, in float64, of (1, -2, 0.5) by these gradients g, or of a matrix by g and half
# of g reversed, with the class and the settings beside each row.
TORCH: list[Any] = [
    # ASGD(lr=0.05, lambd=0.01, alpha=0.75, t0=50, weight_decay=0.1)
    (lambda w: nn.ASGD(w, 0.05, 0.01, 0.75, 50.0, 0.1), [1.67160476, -1.21120072, -0.89190455]),
    # Rprop(lr=0.05, etas=(0.4, 1.3), step_sizes=(1e-3, 0.2))
    (lambda w: nn.Rprop(w, 0.05, (0.4, 1.3), (1e-3, 0.2)), [1.29566149, -2.0977672, 0.48023055]),
    # Adafactor(lr=0.01, eps=(1e-20, 1e-3))
    (lambda w: nn.AdaFactor(w, beta1=None), [1.43051112, -1.96605836, 0.09281062]),
    (lambda w: nn.AdaFactor(w, beta1=None),
     [[1.33427958, -1.97136229, 0.18282725], [-0.03003194, 0.72863771, -0.65692215]]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(TORCH)))
def test_the_same_numbers_as_pytorch(number: int) -> None:
    make, expected = TORCH[number]
    is_matrix = np.ndim(expected) > 1
    start = [[1, -2, 0.5], [0.3, 0.7, -1]] if is_matrix else [1, -2, 0.5]
    w = graphls.Parameter(np.array(start, np.float32), name="w")
    optimizer = make([w])
    step = None
    for t in range(100):
        g = gradient(t)
        given = (np.stack([g, g[::-1] * np.float32(0.5)]) if is_matrix else g,)
        step = step or graphls.compile(optimizer, given)
        step(given)
    np.testing.assert_allclose(w.asnumpy(), expected, rtol=2e-5, atol=2e-6)
    if isinstance(optimizer, nn.ASGD):
        np.testing.assert_allclose(optimizer.ax[0].asnumpy(), [1.56719037, -1.34319859, -0.60336604], rtol=2e-5)


def test_names_of_states() -> None:
    def states(optimizer: nn.Optimizer) -> list[str]:
        return [p.name for p in optimizer.get_parameters() if not p.name.endswith(("_step", "_rate")) and p.name != "w"]

    w = graphls.Parameter(np.zeros((2, 3), np.float32), name="w")
    assert states(nn.FTRL([w])) == ["moments.w", "linear.w"]
    assert states(nn.LazyAdam([w])) == ["beta1_power", "beta2_power", "moment1.w", "moment2.w"]
    assert states(nn.ProximalAdagrad([w])) == ["accum.w"] and states(nn.ASGD([w])) == ["ax_.w"]
    assert states(nn.Rprop([w])) == ["prev.w", "step_size.w"]
    assert states(nn.AdaFactor([w])) == ["exp_avg.w", "exp_avg_sq_row_w", "exp_avg_sq_col_w"]
    b = graphls.Parameter(np.zeros(2, np.float32), name="b")
    small = nn.AdaFactor([b], beta1=None, compression=True)
    assert [p.name for p in small.get_parameters()][-1] == "exp_avg_sq_b"
    assert small.exp_avg_sq[0].dtype is graphls.float16


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compressed_moment_of_adafactor(backend: str) -> None:
    b, g = graphls.Parameter(np.ones(3, np.float32), name="b"), (np.float32([1, -2, 3]),)
    optimizer = nn.AdaFactor([b], beta1=None, compression=True, scale_parameter=False)
    step = graphls.compile(optimizer, g, backend=backend)
    step(g)
    np.testing.assert_array_equal(optimizer.exp_avg_sq[0].asnumpy(), np.float16([1, 4, 9]))
    np.testing.assert_allclose(b.asnumpy(), [0.99, 1.01, 0.99], rtol=1e-5)


def test_zeros_stay_numbers() -> None:
    for kind, own in ((nn.ProximalAdagrad, {"accum": 0.0}), (nn.FTRL, {"initial_accum": 0.0}), (nn.AdaFactor, {})):
        w = graphls.Parameter(np.zeros((2, 3), np.float32), name="w")
        kind([w], **own)((np.zeros((2, 3), np.float32),))
        assert w.tolist() == np.zeros((2, 3)).tolist(), kind


W = [graphls.Parameter(np.zeros(2, np.float32), name="w")]
WRONG: list[Any] = [
    (lambda: nn.FTRL(W, learning_rate=[0.1, 0.2]), TypeError, "the type of 'learning_rate' should be 'float'"),
    (lambda: nn.FTRL(W, learning_rate=Decay()), TypeError, "the type of 'learning_rate' should be 'float'"),
    (lambda: nn.FTRL(W, learning_rate=0.0), ValueError, "must be greater than 0"),
    (lambda: nn.FTRL([{"params": W, "lr": 0.1}]), ValueError, "FTRL takes one learning rate"),
    (lambda: nn.FTRL(W, lr_power=0.5), ValueError, "'lr_power' must be at most 0"),
    (lambda: nn.FTRL(W, lr_power="x"), TypeError, "'lr_power' must be a number"),
    (lambda: nn.FTRL(W, l1=-1.0), ValueError, "'l1' must be float and must >= 0"),
    (lambda: nn.FTRL(W, use_locking=1), TypeError, "'use_locking' must be bool"),
    (lambda: nn.LazyAdam(W, beta1=1.0), ValueError, "For 'LazyAdam', the 'beta1'"),
    (lambda: nn.ProximalAdagrad(W, -0.1), ValueError, "'accum' must be float and must >= 0"),
    (lambda: nn.ASGD(W, lambd="x"), TypeError, "the type of 'lambd' should be 'float'"),
    (lambda: nn.Rprop(W, etas=[0.5, 1.2]), TypeError, "etas must be a tuple with the size of 2"),
    (lambda: nn.Rprop(W, etas=(0.5,)), ValueError, "etas must be a tuple with the size of 2"),
    (lambda: nn.Rprop(W, etas=(1.5, 1.2)), ValueError, "'etaminus' must be in"),
    (lambda: nn.Rprop(W, etas=(0.5, 1.0)), ValueError, "etas.1. is above 1"),
    (lambda: nn.Rprop(W, step_sizes=(1.0, 0.5)), ValueError, "should not be less than minimal step size"),
    (lambda: nn.AdaFactor(W, 0.1), ValueError, "where 'relative_step' is False, and only there"),
    (lambda: nn.AdaFactor(W, relative_step=False), ValueError, "where 'relative_step' is False, and only there"),
    (lambda: nn.AdaFactor(W, 0.1, relative_step=False, warmup_init=True), ValueError, "needs 'relative_step'"),
    (lambda: nn.AdaFactor(W, eps=1e-3), TypeError, "'eps' must be a tuple or list"),
    (lambda: nn.AdaFactor(W, eps=(1e-3,)), ValueError, "'eps' must be two numbers"),
    (lambda: nn.AdaFactor(W, decay_rate=1.5), ValueError, "'decay_rate' must be in"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_settings(number: int) -> None:
    function, error, message = WRONG[number]
    with pytest.raises(error, match=message) as caught:
        function()
    assert isinstance(caught.value, graphls.GraphlsError)
    assert caught.value.location is not None and caught.value.location.file.endswith("test_optimizers_rules.py")
