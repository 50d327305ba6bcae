"""The demo's network in bfloat16 learns as well on OpenVINO as on ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

import graphls
from examples.digits import BATCH, LeNet, load
from graphls import nn

pytest.importorskip("openvino")
EPOCHS = 24


def accuracy(engine: str) -> float:
    """The share of test images that are right after training as the demo does, in bfloat16 without loss scaling."""
    graphls.set_seed(1)
    images, labels, test_images, test_labels = load()
    network = LeNet().to_float(graphls.bfloat16)
    loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
    optimizer = nn.Momentum(network.trainable_params(), learning_rate=0.1, momentum=0.9)
    cell = nn.TrainOneStepCell(loss, optimizer).set_train()
    step = graphls.compile(cell, images[:BATCH], labels[:BATCH], engine=engine)
    shuffle = np.random.default_rng(1)
    count = len(labels) // BATCH
    for _ in range(EPOCHS):
        for rows in np.split(shuffle.permutation(len(labels))[: count * BATCH], count):
            step(images[rows], labels[rows])
    predict = graphls.compile(network.set_train(False), test_images, engine=engine)
    return float(np.mean(predict(test_images).asnumpy().argmax(1) == test_labels))


@pytest.mark.slow
def test_the_demo_learns_as_well_in_bfloat16_on_both_engines() -> None:
    on_openvino, on_onnxruntime = accuracy("openvino"), accuracy("onnxruntime")
    assert min(on_openvino, on_onnxruntime) > 0.97
    assert abs(on_openvino - on_onnxruntime) <= 4 / 360


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_a_run_that_goes_on_from_its_states_ends_with_the_same_bits(engine: str) -> None:
    images, labels, _, _ = load()

    def begun() -> tuple[nn.Cell, graphls.Compiled]:
        graphls.set_seed(1)
        network = LeNet().to_float(graphls.bfloat16)
        loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        cell = nn.TrainOneStepCell(loss, nn.Adam(network.trainable_params(), 0.01)).set_train()
        return cell, graphls.compile(cell, images[:BATCH], labels[:BATCH], engine=engine)

    def run(step: graphls.Compiled, first: int, last: int) -> None:
        for i in range(first, last):
            step(images[i * BATCH : (i + 1) * BATCH], labels[i * BATCH : (i + 1) * BATCH])

    (whole, step), (half, before), (rest, after) = begun(), begun(), begun()
    run(step, 0, 10)
    run(before, 0, 5)
    for source, target in zip(half.get_parameters(), rest.get_parameters(), strict=True):
        target.set_data(graphls.Tensor(source.asnumpy().copy()))
    run(after, 5, 10)
    for one, other in zip(whole.get_parameters(), rest.get_parameters(), strict=True):
        assert one.asnumpy().tobytes() == other.asnumpy().tobytes(), one.name


@pytest.mark.parametrize("rate", [0.1, [0.1, 0.05]])
def test_a_small_update_is_one_segment_and_skipped_to_the_bit(rate: float | list[float]) -> None:
    """Both branches run; where there was an overflow the states keep their bits, and flags and scales agree."""
    x, y = np.ones((4, 3), np.float32), np.ones((4, 2), np.float32)

    def begun(engine: str) -> tuple[nn.Cell, graphls.Compiled]:
        graphls.set_seed(1)
        network = nn.Dense(3, 2)
        optimizer = nn.Momentum(network.trainable_params(), rate, 0.9)
        manager = nn.DynamicLossScaleUpdateCell(2.0**127, 2, 3)
        cell = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(network, nn.MSELoss()), optimizer, manager)
        return cell, graphls.compile(cell, x, y, engine=engine)

    found = []
    for engine in ("openvino", "onnxruntime"):
        cell, step = begun(engine)
        engines = [segment.engine for segment in step.plan.segments]
        assert engines == [engine] or (rate != 0.1 and engine in engines), "the index of a rate is for ONNX Runtime"
        found.append([])
        for i in range(12):
            before = [p.asnumpy().tobytes() for p in cell.network.get_parameters()]
            _, overflow, scale = step(x * 1e3 if i == 7 else x, y)
            found[-1].append((bool(overflow), float(scale)))
            after = [p.asnumpy().tobytes() for p in cell.network.get_parameters()]
            assert (before == after) == bool(overflow)
    assert found[0] == found[1]
    assert {overflow for overflow, _ in found[0]} == {True, False}


def test_what_a_small_update_shares_with_the_results_may_come_late() -> None:
    """The rate, which the step gives as well, is behind the first value that is selected."""
    x, y = np.ones((2, 4), np.float32), np.zeros((2, 3), np.float32)
    network = nn.Dense(4, 3, weight_init="ones", bias_init="ones")
    optimizer = nn.Momentum(network.trainable_params(), [0.1, 0.2], 0.9)
    cell = nn.MFTrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer)
    step = graphls.compile(cell, x, y, engine="openvino")
    np.testing.assert_allclose([float(step(x, y)[3]) for _ in range(3)], [0.1, 0.2, 0.2], rtol=1e-6)
