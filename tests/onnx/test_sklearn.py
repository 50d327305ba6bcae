"""Models of scikit-learn: outputs of ONNX Runtime, gradients of differences in float64, training and the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphls
import graphls.onnx
from graphls import nn, ops
from tests.onnx.doubling import gradients_difference
from tests.onnx.exports.sklearn import FOLDER, X, scores

NAMES = sorted(path.stem for path in FOLDER.glob("*.onnx"))


def on_runtime(path: Path) -> Any:
    return onnxruntime.InferenceSession(path).run(None, {"X": X})


class Loss(nn.Cell):
    """A loss to which every output counts by another weight."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def construct(self, x: Any) -> Any:
        y = self.net(x)
        return ops.mean(ops.square(y - ops.arange(y.shape[-1]).astype(y.dtype)))


@pytest.mark.parametrize("name", NAMES)
def test_outputs_are_those_of_onnx_runtime(name: str) -> None:
    wanted = on_runtime(FOLDER / f"{name}.onnx")
    found = graphls.onnx.load(FOLDER / f"{name}.onnx")(X)
    for y, right in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        np.testing.assert_allclose(y.asnumpy(), right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("tensors")])
def test_gradients_are_differences_in_float64(name: str) -> None:
    net, x = scores(name, is_double=True), graphls.Tensor(X.astype(np.float64))
    assert gradients_difference(Loss(net), list(net.trainable_params()), [x]) < 1e-6


@pytest.mark.parametrize("name", ["logistic.tensors", "perceptron.tensors"])
def test_training_lowers_the_loss_and_the_file_gives_what_was_trained(name: str, tmp_path: Path) -> None:
    net = scores(name)
    step = nn.TrainOneStepCell(Loss(net), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    losses = [float(step(graphls.Tensor(X)).asnumpy()) for _ in range(10)]
    assert losses[-1] < losses[0]
    graphls.onnx.save(net, tmp_path / "trained.onnx")
    np.testing.assert_allclose(net(X).asnumpy(), on_runtime(tmp_path / "trained.onnx")[-1], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith("attributes")])
def test_gradients_flow_through_weights_that_are_attributes(name: str) -> None:
    ways = [ops.grad(Loss(scores(f"{name.partition('.')[0]}.{kind}")))(graphls.Tensor(X)).asnumpy()
            for kind in ("tensors", "attributes")]  # fmt: skip
    np.testing.assert_allclose(ways[1], ways[0], rtol=1e-4, atol=1e-7)
