"""Training steps that run in a scan: many in one graph, with the same numbers and the same proofs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.errors import GraphValueError, VerifyError
from tests.nn.test_window_faults import FAULTS, line

BACKENDS = ["numpy", "onnxruntime"]
MODES = ["outputs", "window"]
GENERATOR = np.random.default_rng(0)
X, Y = (GENERATOR.normal(size=(12, 8, n)).astype(np.float32) for n in (4, 3))


class Many(nn.Cell):
    """A step for each batch."""

    def __init__(self, step: Any) -> None:
        super().__init__(auto_prefix=False)
        self.step = step

    def construct(self, x: Any, y: Any) -> Any:
        return ops.scan(lambda _, batch: ((), self.step(*batch)), (), (x, y))[1]


def made(kind: Any = nn.TrainOneStepWithLossScaleCell) -> Any:
    graphls.set_seed(1)
    net = nn.SequentialCell(nn.Dense(4, 16, activation="tanh"), nn.Dense(16, 3))
    optimizer = nn.Adam(net.to_float(graphls.float16).trainable_params(), 0.01)
    return kind(nn.WithLossCell(net, nn.MSELoss()), optimizer, nn.DynamicLossScaleUpdateCell(2**20, 2, 3))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_many_steps_in_one_graph_give_the_numbers_of_single_ones(backend: str, mode: str) -> None:
    single, many = made(), made()
    step = graphls.compile(single, X[0], Y[0], backend=backend, overflow_mode=mode)
    expected = [[float(v) for v in step(x, y)] for x, y in zip(X, Y, strict=True)]
    found = graphls.compile(Many(many), X, Y, backend=backend, overflow_mode=mode)(X, Y)
    np.testing.assert_allclose(np.stack([a.asnumpy() for a in found], 1), expected, rtol=1e-4)
    skipped = [bool(overflow) for _, overflow, _ in expected]
    assert 0 < sum(skipped) < len(skipped)
    for a, b in zip(single.get_parameters(), many.get_parameters(), strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-3, atol=1e-5, err_msg=a.name)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "text"), FAULTS)
def test_a_faulty_step_in_a_loop_does_not_compile(kind: Any, text: str, mode: str) -> None:
    for mark in ("FIRST", "SECOND", "FAULT", "READ"):
        if f"{{{mark}}}" in text:
            text = text.replace(f"{{{mark}}}", r"\S*" + line(kind, mark).replace(".", r"\."))
    with pytest.raises(VerifyError, match=text):
        graphls.compile(Many(made(kind)), X, Y, backend="numpy", overflow_mode=mode)


@pytest.mark.parametrize("backend", BACKENDS)
def test_labels_of_all_steps_are_checked_before_the_first(backend: str) -> None:
    net = nn.Dense(4, 3)
    network = nn.WithLossCell(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    cell = Many(nn.TrainOneStepCell(network, nn.SGD(net.trainable_params(), 0.1)))
    labels = GENERATOR.integers(0, 3, (12, 8)).astype(np.int32)
    step = graphls.compile(cell, X, labels, backend=backend)
    step(X, labels)
    before = net.weight.asnumpy().tobytes()
    labels[11, 5] = 3
    with pytest.raises(GraphValueError, match=r"The input 'y' cannot be used: The label 3 is not in range\(3\)"):
        step(X, labels)
    assert net.weight.asnumpy().tobytes() == before


def test_a_faulty_step_in_a_loop_in_a_loop_does_not_compile() -> None:
    class Outer(nn.Cell):
        def __init__(self, inner: Any) -> None:
            super().__init__(auto_prefix=False)
            self.inner = inner

        def construct(self, x: Any, y: Any) -> Any:
            return ops.fori_loop(0, 2, lambda i, total: total + ops.sum(self.inner(x, y)[0]), ops.zeros(()))

    kind = FAULTS[3][0]
    with pytest.raises(VerifyError, match="is read, so no overflow can be skipped"):
        graphls.compile(Outer(Many(made(kind))), X, Y, backend="numpy")
