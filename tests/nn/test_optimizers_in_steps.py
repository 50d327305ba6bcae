"""Every optimizer inside a training step with loss scaling: buffers, skipped steps, and the size of the graph."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir.graph import Node

F32 = np.float32
BACKENDS = ("numpy", "onnxruntime")

# The optimizer, and how many nodes of its graph each further parameter needs.
KINDS: dict[str, tuple[Callable[[Any, Any], nn.Optimizer], int]] = {
    "SGD": (lambda p, lr: nn.SGD(p, lr), 2),
    "SGD with dampening": (lambda p, lr: nn.SGD(p, lr, 0.9, 0.1), 9),
    "SGD by Nesterov": (lambda p, lr: nn.SGD(p, lr, 0.9, nesterov=True, weight_decay=0.1), 8),
    "Momentum": (lambda p, lr: nn.Momentum(p, lr, 0.9), 4),
    "Momentum by Nesterov": (lambda p, lr: nn.Momentum(p, lr, 0.9, use_nesterov=True), 6),
    "Momentum with decay and scale": (lambda p, lr: nn.Momentum(p, lr, 0.9, 0.1, 2.0), 7),
    "Adam": (lambda p, lr: nn.Adam(p, lr), 12),
    "Adam by Nesterov": (lambda p, lr: nn.Adam(p, lr, use_nesterov=True), 14),
    "AMSGrad": (lambda p, lr: nn.Adam(p, lr, use_amsgrad=True), 13),
    "AdaMax": (lambda p, lr: nn.AdaMax(p, lr), 10),
    "AdamWeightDecay": (lambda p, lr: nn.AdamWeightDecay(p, lr), 12),
    "AdamWeightDecay with decay": (lambda p, lr: nn.AdamWeightDecay(p, lr, weight_decay=0.1), 14),
    "AdamW": (lambda p, lr: nn.AdamW(p, lr), 13),
    "AdamW without decay": (lambda p, lr: nn.AdamW(p, lr, weight_decay=0.0), 12),
    "AdamW by the largest": (lambda p, lr: nn.AdamW(p, lr, amsgrad=True), 14),
    "Lamb": (lambda p, lr: nn.Lamb(p, lr, weight_decay=0.1), 31),
    "LARS": (lambda p, lr: nn.LARS(nn.Momentum(p, lr, 0.9, 0.1), use_clip=True), 19),
    "RMSProp": (lambda p, lr: nn.RMSProp(p, lr), 9),
    "RMSProp with momentum": (lambda p, lr: nn.RMSProp(p, lr, momentum=0.9), 11),
    "centered RMSProp": (lambda p, lr: nn.RMSProp(p, lr, momentum=0.9, centered=True), 17),
    "Adagrad": (lambda p, lr: nn.Adagrad(p, learning_rate=lr), 6),
    "Adagrad without slots": (lambda p, lr: nn.Adagrad(p, learning_rate=lr, update_slots=False), 4),
    "Adadelta": (lambda p, lr: nn.Adadelta(p, lr), 15),
    "LazyAdam": (lambda p, lr: nn.LazyAdam(p, lr), 12),
    "FTRL": (lambda p, lr: nn.FTRL(p, l1=0.01, l2=0.1), 15),
    "ProximalAdagrad": (lambda p, lr: nn.ProximalAdagrad(p, 0.1, lr, 0.01, 0.1), 10),
    "ASGD": (lambda p, lr: nn.ASGD(p, lr), 6),
    "Rprop": (lambda p, lr: nn.Rprop(p, lr), 15),
    "AdaFactor": (lambda p, lr: nn.AdaFactor(p, weight_decay=0.1), 36),
    "Lion": (lambda p, lr: nn.Lion(p, lr), 9),
    "Muon": (lambda p, lr: nn.Muon(p, lr), 59),
}
KEEPING = [kind for kind in KINDS if kind not in ("FTRL", "Lion")]
"""FTRL needs its squares before and after an update at once, and forgets what a weight was at first.

Lion reads its moment for the weight and for the next moment, neither of which waits for the other.
"""
RATES: dict[str, Callable[[], Any]] = {
    "number": lambda: 0.05,
    "list": lambda: [0.05, 0.04, 0.03],
    "cell": lambda: nn.WarmUpLR(0.05, 3),
}


class Net(nn.Cell):
    def __init__(self, depth: int) -> None:
        super().__init__()
        rng = np.random.default_rng(depth)
        weights = [graphls.Tensor(rng.normal(0, 0.5, (4, 4)).astype(F32)) for _ in range(depth)]
        self.layers = nn.CellList([nn.Dense(4, 4, w, has_bias=False) for w in weights])

    def construct(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


def inputs(number: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(number)
    return rng.normal(size=(2, 4)).astype(F32), rng.normal(size=(2, 4)).astype(F32)


def training(kind: str, backend: str, depth: int = 2, rate: str = "number") -> Any:
    net = Net(depth)
    optimizer = KINDS[kind][0](net.trainable_params(), RATES[rate]())
    cell = nn.TrainOneStepWithLossScaleCell(
        nn.WithLossCell(net, nn.MSELoss()), optimizer, nn.FixedLossScaleUpdateCell(16)
    )
    return cell, graphls.compile(cell, *inputs(0), backend=backend)


@pytest.mark.parametrize(
    ("kind", "rate"), [*((kind, "number") for kind in KEEPING), ("AdamW", "list"), ("Lamb", "cell")]
)
def test_every_parameter_and_moment_is_updated_in_place(kind: str, rate: str) -> None:
    cell, step = training(kind, "numpy", rate=rate)
    large = {w.state.name: w.in_place for w in step.graph.writes if w.state.type.size > 1}
    assert all(large.values()), large
    assert {p.name for p in cell.optimizer.parameters} <= set(large)


def nodes_inside(graph: Any) -> list[Node]:
    """The nodes of the branch in which the optimizer runs."""
    (cond,) = (n for n in graph.nodes if n.primitive.name == "cond")
    return max((list(r.nodes) for r in cond.regions), key=len)


@pytest.mark.parametrize("kind", KINDS)
def test_each_parameter_adds_as_few_nodes_as_the_formula_allows(kind: str) -> None:
    branches = [nodes_inside(training(kind, "numpy", depth)[1].graph) for depth in (1, 2, 3)]
    assert {node.phase for nodes in branches for node in nodes} == {"update"}
    assert [len(b) - len(a) for a, b in pairwise(branches)] == [KINDS[kind][1]] * 2


@pytest.mark.parametrize("kind", KEEPING)
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_parameters_of_other_dtypes(kind: str, dtype: Any) -> None:
    w = graphls.Parameter(np.full((2, 3), 0.5, dtype), name="w")
    optimizer = KINDS[kind][0]([w], 0.05)
    optimizer((np.full((2, 3), 0.25, dtype),))
    assert w.dtype.numpy == dtype and 0 < np.abs(w.asnumpy() - 0.5).max() < 0.2
    assert all(p.dtype is not graphls.float16 for p in optimizer.get_parameters() if p is not w)


def states(cell: Any) -> dict[str, Any]:
    return {p.name: p.asnumpy() for p in cell.get_parameters()}


@pytest.mark.parametrize(("kind", "rate"), [*((kind, "cell") for kind in KINDS), ("Momentum", "list")])
def test_a_skipped_step_has_never_been(kind: str, rate: str) -> None:
    ends = []
    for backend, skips in (("numpy", True), ("onnxruntime", True), ("onnxruntime", False)):
        if skips:
            cell, step = training(kind, backend, rate=rate)
            start = states(cell)
        else:
            for parameter in cell.get_parameters():
                parameter.set_data(graphls.Tensor(start[parameter.name]))
        for number in range(4):
            x, y = inputs(number)
            if skips and number in (0, 2):
                kept = states(cell)
                assert bool(step(np.full_like(x, np.inf), y)[1])
                assert {n: v.tobytes() for n, v in states(cell).items()} == {n: v.tobytes() for n, v in kept.items()}
            assert not bool(step(x, y)[1])
        assert cell.optimizer.global_step.tolist() == [4]
        ends.append(states(cell))
    for name, value in ends[0].items():
        np.testing.assert_allclose(ends[1][name], value, rtol=1e-4, atol=1e-6, err_msg=name)
        assert ends[1][name].tobytes() == ends[2][name].tobytes(), name


class Named(nn.Cell):
    """A weight under a name of the caller's."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.ones((3, 1), F32), name=name)

    def construct(self, x: Any) -> Any:
        return x @ self.weight


@pytest.mark.parametrize("name", ["momentum", "learning_rate", "global_step", "parameters", "eps"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_weight_may_have_the_name_of_a_setting(kind: str, name: str) -> None:
    assert losses_of(kind, name) == losses_of(kind, "weight")


@cache
def losses_of(kind: str, weight: str) -> list[float]:
    net = nn.WithLossCell(Named(weight), nn.MSELoss())
    optimizer = KINDS[kind][0](net.trainable_params(), 0.1)
    batch = np.ones((2, 3), F32), np.zeros((2, 1), F32)
    step = graphls.compile(nn.TrainOneStepCell(net, optimizer), *batch, backend="numpy")
    return [float(step(*batch)) for _ in range(3)]
