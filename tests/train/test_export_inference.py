"""Exported networks are inference graphs: weights folded, single operators, nothing that only training needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.train import export
from tests.train.exported import (
    F32,
    NETWORKS,
    Encoder,
    assert_gives,
    kinds,
    made,
    rows,
    session,
    written,
)


@pytest.mark.parametrize("opset", [17, 20, 21])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_numbers_of_the_network_at_every_opset(tmp_path: Path, name: str, opset: int) -> None:
    _, shape, dtype = NETWORKS[name]
    network, x = made(name), rows(shape, dtype, 2)
    model = written(tmp_path, network, graphls.Tensor(x), opset=opset)
    assert model.opset_import[0].version == opset
    assert_gives(session(tmp_path), network, x)


def test_a_convolutional_network_is_convolutions(tmp_path: Path) -> None:
    """Before, it were 96 operators: batch normalisations as such, and MaxPool with the positions that a gradient needs.

    A batch normalisation that no convolution stands before is two operators; one behind Dense is part of it.
    """
    _, shape, dtype = NETWORKS["convolutional"]
    found = kinds(written(tmp_path, made("convolutional"), rows(shape, dtype, 2)))
    assert found == {
        "Conv": 5, "Relu": 1, "Mul": 2, "Add": 4, "HardSwish": 2, "MaxPool": 1, "Reshape": 1, "Gemm": 1, "Softmax": 1,
    }  # fmt: skip


def test_an_encoder_has_no_transposed_weights_left(tmp_path: Path) -> None:
    model = written(tmp_path, made("encoder"), rows((6,), np.int32, 2))
    found = kinds(model)
    assert found["LayerNormalization"] == 2 and found["Gelu"] == 1 and found["Transpose"] == 4
    weights = {tensor.name for tensor in model.graph.initializer}
    transposed = [node for node in model.graph.node if node.op_type == "Transpose" and weights & set(node.input)]
    assert not transposed and not {"Erf", "Sqrt", "Reciprocal", "Sub"} & found.keys()


def test_recurrent_layers_are_operators(tmp_path: Path) -> None:
    model = written(tmp_path, made("recurrent"), rows((3, 3), F32, 2))
    found = kinds(model)
    assert (found["LSTM"], found["GRU"], found["RNN"]) == (2, 1, 1) and not {"Scan", "Loop", "Expand"} & found.keys()


@pytest.mark.parametrize("opset", [17, 21])
def test_groups_are_normalised_as_channels_are(tmp_path: Path, opset: int) -> None:
    found = kinds(written(tmp_path, made("groups"), rows((4, 6, 6), F32, 2), opset=opset))
    assert found["InstanceNormalization"] == 2 and "GroupNormalization" not in found
    assert found["Gelu"] == (opset == 21)


def test_groups_with_a_large_mean_keep_their_digits(tmp_path: Path) -> None:
    """ONNX Runtime's own operator for groups is wrong by 0.5 here."""
    x = np.random.default_rng(5).normal(1000, 1, (2, 8, 12, 12)).astype(np.float32)
    by_group = x.astype(np.float64).reshape(2, 2, -1)
    centred = by_group - by_group.mean(-1, keepdims=True)
    expected = (centred / by_group.std(-1, keepdims=True)).reshape(x.shape)
    written(tmp_path, nn.GroupNorm(2, 8), x)
    (found,) = session(tmp_path).run(None, {"x": x})
    np.testing.assert_allclose(found, expected, atol=2e-3)


ACTIVATIONS: dict[str, Any] = {
    "Gelu": nn.GELU(approximate=False),
    "HardSwish": nn.HSwish(),
    "HardSigmoid": nn.HSigmoid(),
    "Clip": nn.ReLU6(),
    "LeakyRelu": nn.LeakyReLU(0.1),
    "Elu": nn.ELU(),
    "Selu": nn.SeLU(),
    "Mish": nn.Mish(),
    "Softmax": nn.Softmax(),
    "LogSoftmax": nn.LogSoftmax(1),
    "PRelu": nn.PReLU(),
}


@pytest.mark.parametrize("operator", ACTIVATIONS)
def test_activations_are_single_operators(tmp_path: Path, operator: str) -> None:
    network, x = ACTIVATIONS[operator], (4 * rows((2, 3, 3), F32, 3)).astype(F32)
    assert kinds(written(tmp_path, network, x)) == {operator: 1}
    assert_gives(session(tmp_path), network, x)


def test_no_operator_is_dead_and_no_weight_unused(tmp_path: Path) -> None:
    for name, (_, shape, dtype) in NETWORKS.items():
        graph = written(tmp_path, made(name), rows(shape, dtype, 2)).graph
        read = {tensor for node in graph.node for tensor in node.input} | {info.name for info in graph.output}
        assert all(read.intersection(node.output) for node in graph.node), name
        assert {tensor.name for tensor in graph.initializer} <= read, name


def test_weights_have_the_names_of_parameters_unless_their_numbers_changed(tmp_path: Path) -> None:
    network = made("convolutional")
    graph = written(tmp_path, network, rows((3, 10, 10), F32, 2)).graph
    weights = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    parameters = {parameter.name: parameter.asnumpy() for parameter in network.get_parameters()}
    for name in ("3.second.weight", "3.second.bias"):
        np.testing.assert_array_equal(weights[name], parameters[name])
    bn = [parameters[f"1.{name}"] for name in ("gamma", "beta", "moving_mean", "moving_variance")]
    scale = bn[0] / np.sqrt(bn[3] + 1e-5)
    expected = parameters["0.weight"] * scale[:, None, None, None]
    np.testing.assert_allclose(weights["0.weight.folded"], expected, rtol=1e-5)
    np.testing.assert_allclose(weights["0.bias.folded"], bn[1] - bn[2] * scale, rtol=1e-5)
    assert "0.weight" not in weights


def test_what_is_read_twice_is_not_folded(tmp_path: Path) -> None:
    class Twice(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.bn = nn.Conv2d(3, 4, 3, pad_mode="valid"), nn.BatchNorm2d(4)

        def construct(self, x: Any) -> Any:
            y = self.conv(x)
            return self.bn(y) * 3 - 1, ops.exp(y)

    network, x = Twice(), rows((3, 5, 5), F32, 2)
    network.set_train(False)
    assert kinds(written(tmp_path, network, x)) == {"Conv": 1, "Mul": 1, "Add": 1, "Exp": 1}
    assert_gives(session(tmp_path), network, x)


def test_weights_of_condition_and_loop_stay(tmp_path: Path) -> None:
    class Branches(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense, self.bn = nn.Dense(3, 4), nn.BatchNorm1d(4)

        def construct(self, x: Any) -> Any:
            if x.sum() > 0:
                y = self.bn(self.dense(x))
            else:
                y = -self.dense(x)
            return y

    network, x = Branches(), rows((3,), F32, 2)
    network.set_train(False)
    written(tmp_path, network, x)
    for given in (np.abs(x), -np.abs(x)):
        assert_gives(session(tmp_path), network, given)


def test_float16_is_computed_as_such(tmp_path: Path) -> None:
    for name, (_, shape, dtype) in NETWORKS.items():
        network, x = made(name), rows(shape, dtype, 3)
        model = written(tmp_path, network, x, precision="float16", opset=21)
        types = {tensor.data_type for tensor in model.graph.initializer if tensor.data_type != onnx.TensorProto.INT64}
        assert types == {onnx.TensorProto.FLOAT16}, name
        assert {info.type.tensor_type.elem_type for info in model.graph.output} == {onnx.TensorProto.FLOAT}
        assert_gives(session(tmp_path), network, x, tolerance=4e-3)


def test_what_float16_does_not_hold_stays_float32(tmp_path: Path) -> None:
    class Masked(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.dense = nn.Dense(3, 4)

        def construct(self, x: Any, mask: Any) -> Any:
            scores = self.dense(x) + (1 - mask) * -1e9
            return ops.softmax(scores) @ ops.ones((4, 2)), ops.exp(self.dense(x)).sum()

    network, x, mask = Masked(), rows((3,), F32, 2), np.zeros((2, 4), F32)
    written(tmp_path, network, x, mask, precision="float16")
    assert_gives(session(tmp_path), network, x, mask, tolerance=2e-3)


def test_wrong_options(tmp_path: Path) -> None:
    x = graphls.Tensor(np.ones((2, 6), np.int32))
    wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"precision": "int8"}, GraphValueError, "'precision' must be one of"),
        ({"opset": 12}, GraphValueError, "opset 17 to 25, not 12"),
        ({"external_data": -1}, GraphTypeError, "'external_data' must be a number of bytes"),
        ({"metadata": {"a": 1}}, GraphTypeError, "'metadata' must be texts by texts"),
    ]
    for options, error, text in wrong:
        with pytest.raises(error, match=text):
            export(Encoder(), x, file_name=tmp_path / "net", file_format="ONNX", **options)
    assert not list(tmp_path.iterdir())
