"""What exported networks are as files: external data, metadata, names, and networks that train again."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import nn, ops
from graphls.train import export
from tests.train.exported import F32, NETWORKS, assert_gives, declared, made, rows, session, written


def test_weights_beside_the_file(tmp_path: Path) -> None:
    """From a size on, as one file that ONNX Runtime, onnx and graphls.onnx.load read."""
    network, x = made("convolutional"), rows((3, 10, 10), F32, 2)
    written(tmp_path, network, x, external_data=256)
    model = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    outside = {t.name for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL}
    assert outside == {t.name for t in model.graph.initializer if np.prod(t.dims) * 4 >= 256 and t.data_type == 1}
    assert {path.name for path in tmp_path.iterdir()} == {"net.onnx", "net.onnx.data"}
    assert_gives(session(tmp_path), network, x)
    loaded = graphls.onnx.load(tmp_path / "net.onnx")
    loaded.set_train(False)
    assert_gives(session(tmp_path), loaded, x)


def test_one_weight_at_a_time_is_in_memory(tmp_path: Path) -> None:
    """Twenty weights of one MB, each of which is scaled: written with two of them in memory, not with twenty."""
    layers = [nn.SequentialCell(nn.Dense(512, 512, has_bias=False), Scaled()) for _ in range(20)]
    network, x = nn.SequentialCell(*layers), rows((512,), F32, 2)
    tracemalloc.start()
    try:
        export(network, x, file_name=tmp_path / "net", file_format="ONNX", external_data=1024)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "net.onnx.data").stat().st_size >= 20 * 2**20 and peak < 6 * 2**20


class Scaled(nn.Cell):
    def construct(self, x: Any) -> Any:
        return x * 2


def test_texts_of_the_user_and_of_graphls(tmp_path: Path) -> None:
    model = written(tmp_path, nn.Dense(3, 2), rows((3,), F32, 2), metadata={"author": "A. B.", "licence": "MIT"})
    texts = {entry.key: entry.value for entry in model.metadata_props}
    assert texts["author"] == "A. B." and texts["licence"] == "MIT" and "graphls.base.version" in texts
    assert model.producer_name == "graphls" and session(tmp_path).get_modelmeta().custom_metadata_map == texts


def test_inputs_have_the_names_of_arguments(tmp_path: Path) -> None:
    def attend(query: Any, key: Any, value: Any) -> Any:
        return ops.softmax(query @ key.T) @ value, key

    class Attend(nn.Cell):
        def construct(self, query: Any, key: Any, value: Any) -> Any:
            return attend(query, key, value)

    arrays = [rows((4,), F32, 3) for _ in range(3)]
    for network, opset in ((Attend(), 17), (Attend(), 25), (attend, 20)):
        graph = written(tmp_path, network, *arrays, opset=opset).graph
        assert [info.name for info in graph.input] == ["query", "key", "value"]
        assert [info.name for info in graph.output] == ["output_0", "output_1"]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_is_a_network_that_gives_the_same_gradients(tmp_path: Path, name: str) -> None:
    """`load(export(net))`: the gradients of the input, and of every weight that is one of the cell's as it was."""
    _, shape, dtype = NETWORKS[name]
    network, x = made(name), rows(shape, dtype, 2)
    written(tmp_path, network, declared(shape, dtype))
    loaded = graphls.onnx.load(tmp_path / "net.onnx")
    loaded.set_train(False)
    mine, theirs = gradients(network, x), gradients(loaded, x)
    common = [name for name in theirs if name.removesuffix(".transposed") in mine]
    assert len(common) >= 1
    for each in common:
        expected = mine[each.removesuffix(".transposed")]
        expected = expected.T if each.endswith(".transposed") else expected.reshape(theirs[each].shape)
        scale = max(1e-3, np.abs(expected).max())
        np.testing.assert_allclose(theirs[each], expected, rtol=0, atol=2e-4 * scale, err_msg=each)


def gradients(network: Any, x: Any) -> dict[str, Any]:
    """The gradients of a weighted sum of the outputs, by parameter and, of floats, by the input."""
    parameters = [p for p in network.get_parameters() if p.requires_grad]

    def loss(x: Any) -> Any:
        results = [r for r in graphls.frontend.tensors.pytree.leaves(network(x))]
        return sum((r * ops.cos(ops.arange(r.size).reshape(r.shape).astype(r.dtype))).sum() for r in results)

    position = 0 if x.dtype == F32 else None
    step = graphls.compile(lambda x: graphls.value_and_grad(loss, position, parameters)(x)[1], x)
    found = step(x)
    by_input, by_weight = found if position == 0 else ((), found)
    named = {p.name: g.asnumpy() for p, g in zip(parameters, by_weight, strict=True)}
    return named | ({"": by_input.asnumpy()} if position == 0 else {})


def test_a_file_trains(tmp_path: Path) -> None:
    network, x = made("encoder"), rows((6,), np.int32, 8)
    written(tmp_path, network, declared((6,), np.int32))
    loaded = graphls.onnx.load(tmp_path / "net.onnx")
    labels = (x[:, 0] % 5).astype(np.int32)
    step = nn.TrainOneStepCell(
        nn.WithLossCell(loaded, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")),
        nn.Adam(loaded.trainable_params(), 1e-2),
    )
    run = graphls.compile(step, x, labels)
    losses = [float(run(x, labels).asnumpy()) for _ in range(20)]
    assert losses[-1] < 0.95 * losses[0]
