"""Lion and Muon against their papers' formulas in NumPy, and Muon against PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn

Arrays = list[np.ndarray[Any, Any]]
BACKENDS = ("numpy", "onnxruntime")
SHAPES = [(3, 4), (4, 2), (5,), (2, 2, 1, 3), ()]
STEPS = 6


def arrays(shapes: Any = SHAPES, seed: int = 0) -> Arrays:
    draw = np.random.default_rng(seed)
    return [np.asarray(draw.normal(size=shape)).astype(np.float32) for shape in shapes]


def trained(make: Callable[[list[graphls.Parameter]], Any], backend: str, shapes: Any = SHAPES) -> Arrays:
    """The parameters behind some steps; their gradients are draws, divided by nothing."""
    parameters = [graphls.Parameter(a, name=f"w{i}") for i, a in enumerate(arrays(shapes))]
    step = graphls.compile(make(parameters), tuple(arrays(shapes, 1)), backend=backend)
    for t in range(STEPS):
        step(tuple(arrays(shapes, t + 1)))
    return [p.asnumpy() for p in parameters]


def by_formula(update: Callable[..., Any], shapes: Any = SHAPES) -> Arrays:
    """The same in float64, by a function of weight, gradient, a dict of states, and the number of the update."""
    weights = [a.astype(np.float64) for a in arrays(shapes)]
    states: list[dict[str, Any]] = [{} for _ in weights]
    for t in range(1, STEPS + 1):
        given = [g.astype(np.float64) for g in arrays(shapes, t)]
        weights = [update(w, g, s, t) for w, g, s in zip(weights, given, states, strict=True)]
    return weights


def lion(w: Any, g: Any, state: dict[str, Any], t: int) -> Any:
    """Algorithm 2 of Chen et al. (2023), with lr 0.02, betas 0.8 and 0.95, decay 0.3."""
    m = state.get("m", 0.0)
    state["m"] = 0.95 * m + 0.05 * g
    return w - 0.02 * (np.sign(0.8 * m + 0.2 * g) + 0.3 * w)


@pytest.mark.parametrize("backend", BACKENDS)
def test_lion_follows_its_paper(backend: str) -> None:
    found = trained(lambda w: nn.Lion(w, 0.02, (0.8, 0.95), 0.3), backend)
    for value, expected in zip(found, by_formula(lion), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


def newton_schulz(matrix: Any) -> Any:
    """`zeropower_via_newtonschulz5` of github.com/KellerJordan/Muon, in float64 in place of bfloat16."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(5):
        product = x @ x.T
        x = a * x + (b * product + c * product @ product) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


def muon(is_original: bool, nesterov: bool) -> Callable[..., Any]:
    """`muon_update` and the AdamW of the same source; the size of Liu et al. (2025) where it is not `is_original`."""

    def update(w: Any, g: Any, state: dict[str, Any], t: int) -> Any:
        decayed = w * (1 - 0.05 * 0.1)
        if w.ndim < 2:
            m = state["m"] = 0.9 * state.get("m", 0.0) + 0.1 * g
            v = state["v"] = 0.999 * state.get("v", 0.0) + 0.001 * g * g
            return decayed - 0.05 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        m = state["m"] = 0.95 * state.get("m", 0.0) + 0.05 * g
        m = (0.05 * g + 0.95 * m if nesterov else m).reshape(len(w), -1)
        rows, columns = m.shape
        size = max(1, rows / columns) ** 0.5 if is_original else 0.2 * max(rows, columns) ** 0.5
        return decayed - 0.05 * size * newton_schulz(m).reshape(w.shape)

    return update


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("size", "nesterov"), [("original", True), ("match_rms_adamw", True), ("original", False)])
def test_muon_follows_its_reference(size: str, nesterov: bool, backend: str) -> None:
    found = trained(lambda w: nn.Muon(w, 0.05, 0.1, nesterov=nesterov, adjust_lr_fn=size), backend)
    for value, expected in zip(found, by_formula(muon(size == "original", nesterov)), strict=True):
        np.testing.assert_allclose(value, expected, rtol=2e-4, atol=2e-5)


# 3 steps of torch.optim.Muon of PyTorch 2.13 with lr=0.1, weight_decay=0.1, on matrices (3, 4) and (4, 2); with the
# second settings nesterov=False, adjust_lr_fn="match_rms_adamw". It iterates in bfloat16, which has 8 bits.
OF_PYTORCH: list[Any] = [
    ({"adjust_lr_fn": "original"},
     [[[1.822837, 0.292633, -0.056641, -1.737329], [-0.076507, -0.221982, -0.036014, -0.544973],
       [0.103739, -0.450975, -1.297046, 0.663714]],
      [[0.825587, 1.514854], [-0.100756, -0.220837], [-0.526588, -1.381619], [1.003933, -0.943407]]]),
    ({"nesterov": False},
     [[[1.791522, 0.380396, 0.035783, -1.783195], [-0.198219, -0.278071, -0.066877, -0.58345],
       [0.011964, -0.463919, -1.299848, 0.764464]],
      [[0.87503, 1.636216], [0.012449, -0.33131], [-0.499557, -1.459454], [0.935994, -1.037062]]]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(OF_PYTORCH)))
def test_muon_is_that_of_pytorch(number: int) -> None:
    settings, expected = OF_PYTORCH[number]
    draw = np.random.RandomState(3)
    shapes = [(3, 4), (4, 2)]
    parameters = [graphls.Parameter(draw.randn(*s).astype(np.float32), name=f"w{i}") for i, s in enumerate(shapes)]
    optimizer = nn.Muon(parameters, 0.1, 0.1, **settings)
    for _ in range(3):
        optimizer(tuple(graphls.Tensor(draw.randn(*s).astype(np.float32)) for s in shapes))
    for parameter, wanted in zip(parameters, expected, strict=True):
        np.testing.assert_allclose(parameter.asnumpy(), wanted, atol=6e-3)


def test_a_filter_says_what_muon_updates() -> None:
    net = nn.SequentialCell(nn.Embedding(7, 4), nn.Dense(4, 3))
    optimizer = nn.Muon(net.trainable_params(), muon_filter=lambda p: p.ndim > 1 and "embedding" not in p.name)
    assert optimizer.muon_flag == (False, True, False)
    assert [p.name for p in optimizer.moments] == ["muon_m.1.weight"]
    assert [p.name for p in optimizer.moments1] == ["adam_m.0.embedding_table", "adam_m.1.bias"]


@pytest.mark.parametrize(("make", "rate"), [(nn.Lion, 0.02), (nn.Muon, 0.05)])
def test_a_network_learns(make: Any, rate: float) -> None:
    graphls.set_seed(0)
    draw = np.random.default_rng(0)
    x = draw.normal(size=(32, 4)).astype(np.float32)
    y = (x @ draw.normal(size=(4, 2))).astype(np.float32)
    net = nn.SequentialCell(nn.Dense(4, 16), nn.Tanh(), nn.Dense(16, 2))
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), make(net.trainable_params(), rate)).set_train()
    compiled = graphls.compile(step, x, y)
    losses = [float(compiled(x, y)) for _ in range(40)]
    assert losses[-1] < losses[0] / 3


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda w: nn.Lion(w, betas=0.9), TypeError, "For 'Lion', the 'betas' must be a tuple"),
        (lambda w: nn.Lion(w, betas=(0.9, 1.0)), ValueError, "beta2"),
        (lambda w: nn.Muon(w, momentum=1.5), ValueError, "momentum"),
        (lambda w: nn.Muon(w, adjust_lr_fn="rms"), ValueError, "is original or match_rms_adamw, not 'rms'"),
        (lambda w: nn.Muon(w, ns_steps=0), ValueError, "ns_steps"),
        (lambda w: nn.Muon(w, muon_filter=lambda p: True), ValueError, r"its filter takes 'b' of shape \(3,\)"),
        (lambda w: nn.Muon(w, muon_filter=True), TypeError, "'muon_filter' is a function of a parameter"),
    ],
)
def test_what_does_not_fit(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make([graphls.Parameter(np.zeros(3, np.float32), name="b")])
