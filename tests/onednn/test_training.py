"""Trainings on oneDNN: losses, flags and scales are those of ONNX Runtime, and bits repeat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from benchmarks.peers import graphls_networks as networks
from graphls import nn
from tests.sharing.test_forks import in_child

STEPS = 8
Network = Callable[[], nn.Cell]

SCALES = {"gpt": 2.0**116}
"""Scales at the beginning, below the greatest float where a composition overflows before the gradient does.

In layer normalisation that is the product of a sum over each row with the third power of the root.
"""


def convolutional() -> nn.Cell:
    """Convolutions, channel-wise ones among them, normalisations and a residual sum."""
    return nn.SequentialCell(
        networks.convolution(3, 8, 3), nn.ReLU(), networks.basic_block(8, 16, 2),
        nn.Conv2d(16, 16, 3, pad_mode="pad", padding=1, group=16), nn.AvgPool2d(2, 2), nn.Flatten(), nn.Dense(256, 10),
    )  # fmt: skip


NETWORKS: dict[str, tuple[Network, tuple[int, ...], int]] = {
    "convolutional": (convolutional, (4, 3, 16, 16), 0),
    "lenet": (lambda: networks.lenet(10), (4, 1, 32, 32), 0),
    "mlp": (lambda: networks.mlp(20, 32, 10), (8, 20), 0),
    "lstm": (lambda: networks.LSTM(5, 8, 2, 10), (4, 6, 5), 0),
    "gpt": (lambda: networks.GPT(50, 16, 32, 2, 2), (2, 16), 50),
}


def network_and_batch(name: str) -> tuple[nn.Cell, Any, Any]:
    """A network of the table with its first weights, inputs and labels."""
    network, shape, words = NETWORKS[name]
    graphls.set_seed(1)
    rng = np.random.default_rng(0)
    count = int(np.prod(shape)) if words else shape[0]
    x = rng.integers(0, words, shape).astype(np.int32) if words else rng.normal(size=shape).astype(np.float32)
    y = rng.integers(0, words or 10, count).astype(np.int32)
    return network(), x, y


def step_of(name: str, engine: str, is_scaled: bool, optimizer: str) -> tuple[Any, nn.Cell, tuple[Any, Any]]:
    network, x, y = network_and_batch(name)
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    weights = loss.trainable_params()
    update = nn.Momentum(weights, 0.02, 0.9) if optimizer == "Momentum" else nn.Adam(weights, 1e-3)
    cell: nn.Cell = nn.TrainOneStepCell(loss, update)
    if is_scaled:
        cell = nn.TrainOneStepWithLossScaleCell(
            loss, update, nn.DynamicLossScaleUpdateCell(SCALES.get(name, 2.0**127), 2, 3)
        )
    return graphls.compile(cell.set_train(), x, y, engine=engine), cell, (x, y)


def history(name: str, engine: str, is_scaled: bool, optimizer: str) -> tuple[np.ndarray, list[bytes]]:
    """The results of each step, and the states behind the last."""
    step, _, inputs = step_of(name, engine, is_scaled, optimizer)
    results = [step(*inputs) for _ in range(STEPS)]
    rows = [[float(r.asnumpy()) for r in (result if is_scaled else (result,))] for result in results]
    return np.array(rows), [p.asnumpy().tobytes() for p in step.parameters.values()]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize(("is_scaled", "optimizer"), [(False, "Momentum"), (True, "Adam")])
def test_losses_flags_and_scales_are_those_of_onnx_runtime(name: str, is_scaled: bool, optimizer: str) -> None:
    found, bits = history(name, "onednn", is_scaled, optimizer)
    expected, _ = history(name, "onnxruntime", is_scaled, optimizer)
    np.testing.assert_allclose(found[:, 0], expected[:, 0], rtol=1e-5, atol=1e-5)
    assert (found[:, 1:] == expected[:, 1:]).all()
    assert not is_scaled or name in SCALES or found[:, 1].any()
    assert history(name, "onednn", is_scaled, optimizer)[1] == bits


def test_the_forward_and_the_backward_are_one_segment() -> None:
    step, _, _ = step_of("convolutional", "onednn", False, "Momentum")
    assert step.plan.segments[0].engine == "onednn" and len(step.plan.segments) <= 2


def test_a_label_out_of_range_is_an_error_at_the_line_and_changes_nothing() -> None:
    step, _, (x, y) = step_of("convolutional", "onednn", False, "Momentum")
    step(x, y)
    before = [p.asnumpy().tobytes() for p in step.parameters.values()]
    with pytest.raises(graphls.GraphlsError, match=r"10"):
        step(x, np.full_like(y, 10))
    assert [p.asnumpy().tobytes() for p in step.parameters.values()] == before
    step(x, y)


def test_a_child_process_goes_on() -> None:
    step, _, inputs = step_of("mlp", "onednn", False, "Momentum")
    step(*inputs)
    assert np.isfinite(in_child(lambda: float(step(*inputs).asnumpy())))
    assert np.isfinite(float(step(*inputs).asnumpy()))
