"""Models whose weights are float16: their own precision of updates, and training in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

import graphls
import graphls.onnx
from graphls import nn
from tests.onnx.models import model, node, tensor

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
Y = (X @ np.array([[1], [-2], [0.5], [1]]) + 0.25).astype(np.float32)
WEIGHT = np.full((4, 1), 2, np.float16)


def network(dtype: Any) -> Any:
    """A product with a weight, which the file has in float16, on inputs and outputs in float32."""
    kind = TensorProto.FLOAT16 if dtype == np.float16 else TensorProto.FLOAT
    nodes = [node("Cast", "x", "c", to=kind), node("MatMul", "c w", "p"), node("Cast", "p", "y", to=TensorProto.FLOAT)]
    return graphls.onnx.load(model(nodes, [tensor("x", [8, 4])], ["y"], {"w": WEIGHT.astype(dtype)}))


def weights_after(net: Any, rate: float) -> Any:
    """The weight after ten steps."""
    loss = nn.WithLossCell(net, nn.MSELoss())
    step = graphls.compile(nn.TrainOneStepCell(loss, nn.SGD(net.trainable_params(), rate)), X, Y)
    for _ in range(10):
        step(X, Y)
    (weight,) = net.trainable_params()
    return weight.asnumpy()


def test_updates_below_half_a_last_place_are_lost_in_float16() -> None:
    """The gradients are about 8 in the mean, the last place of a weight is 2e-3."""
    assert np.abs(weights_after(network(np.float32), 5e-5) - WEIGHT).max() > 1e-3
    np.testing.assert_array_equal(weights_after(network(np.float16), 5e-5), WEIGHT)


def test_weights_of_float16_train_in_float32_and_are_saved_in_float16(tmp_path: Path) -> None:
    net = network(np.float16)
    for parameter in net.trainable_params():
        parameter.set_dtype(graphls.float32)
    trained = weights_after(net, 5e-5)
    np.testing.assert_allclose(trained, weights_after(network(np.float32), 5e-5), rtol=1e-5)
    graphls.onnx.save(net, tmp_path / "net.onnx")
    saved = numpy_helper.to_array(onnx.load(tmp_path / "net.onnx").graph.initializer[0])
    np.testing.assert_array_equal(saved, trained.astype(np.float16))
    (y,) = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(None, {"x": X})
    np.testing.assert_allclose(y, X @ trained, atol=1e-2)


def test_numbers_beyond_float16_are_not_saved(tmp_path: Path) -> None:
    net = network(np.float16)
    (weight,) = net.trainable_params()
    weight.set_dtype(graphls.float32)
    weight.set_data(graphls.Tensor(np.full((4, 1), 1e5, np.float32)))
    with pytest.raises(ValueError, match="The model stores 'w' in float16, and trained numbers of it are beyond that"):
        graphls.onnx.save(net, tmp_path / "net.onnx")
    assert not list(tmp_path.iterdir())
