"""Models as files again: the same bytes where nothing has changed, and only trained tensors where something has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import graphls
import graphls.onnx
from graphls import nn
from tests.onnx import node_tests
from tests.onnx.models import FLOAT, model, node, perceptron, tensor

X = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)


def external(tmp_path: Path, proto: onnx.ModelProto) -> Path:
    """The model with all data in a file of its own."""
    folder = tmp_path / "source"
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


def test_a_model_that_nobody_trained_is_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(perceptron(), path)
    net = graphls.onnx.load(path)
    net(X)
    graphls.onnx.save(net, tmp_path / "again.onnx")
    assert (tmp_path / "again.onnx").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", ["gemm", "batch_normalization", "loop", "if_", "scan", "constant"])
def test_models_of_node_tests_are_the_same_bytes(tmp_path: Path, name: str) -> None:
    cases = [c for c in node_tests.collect([name]) if not node_tests.verdict_of_loading(c)]
    for case in cases[-12:]:
        graphls.onnx.save(graphls.onnx.load(case.model), tmp_path / "m.onnx")
        assert (tmp_path / "m.onnx").read_bytes() == case.model.SerializeToString()


def test_only_trained_tensors_change(tmp_path: Path) -> None:
    proto = perceptron()
    proto.metadata_props.add(key="author", value="somebody")
    net = graphls.onnx.load(proto, frozen="v")
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1))
    step(graphls.Tensor(X), graphls.Tensor(X[:, :2]))
    graphls.onnx.save(net, tmp_path / "tuned.onnx")
    tuned = onnx.load(tmp_path / "tuned.onnx")
    held = {t.name: numpy_helper.to_array(t) for t in tuned.graph.initializer}
    for name in ("w", "b"):
        np.testing.assert_array_equal(held[name], net.parameters_dict()[name].asnumpy())
        assert not np.array_equal(held[name], numpy_helper.to_array(proto.graph.initializer["wb".index(name)]))
    for tensor_of, original in zip(tuned.graph.initializer, proto.graph.initializer, strict=True):
        tensor_of.CopyFrom(original)
    assert tuned.SerializeToString(deterministic=True) == proto.SerializeToString(deterministic=True)


def in_branches() -> onnx.ModelProto:
    """Constants in a branch, in a function, as plain float_data, as float16 in int32_data, and as an attribute."""
    inner = helper.make_graph(
        [node("Constant", "", "k", value=numpy_helper.from_array(np.ones(3, np.float32))), node("Add", "x k", "o")],
        "branch", [], [tensor("o", None)],
    )  # fmt: skip
    function = helper.make_function(
        "mine", "Shifted", ["a"], ["c"],
        [node("Constant", "", "s", value=numpy_helper.from_array(np.ones(3, np.float32))), node("Add", "a s", "c")],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    nodes = [
        node("If", "on", "y", then_branch=inner, else_branch=inner),
        helper.make_node("Shifted", ["y"], ["z"], domain="mine"),
        node("Mul", "z p", "u"),
        node("Cast", "q", "r", to=FLOAT),
        node("Mul", "u r", "v"),
    ]
    inputs = [tensor("x", ["n", 3]), tensor("on", [], onnx.TensorProto.BOOL)]
    proto = model(nodes, inputs, ["v"])
    proto.graph.initializer.append(helper.make_tensor("p", FLOAT, [3], [1.0, 1.0, 1.0]))
    proto.graph.initializer.append(helper.make_tensor("q", onnx.TensorProto.FLOAT16, [3], [1.0, 1.0, 1.0]))
    proto.functions.append(function)
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    return proto


def test_constants_anywhere_go_back_to_where_they_were(tmp_path: Path) -> None:
    net = graphls.onnx.load(in_branches())
    parameters = list(net.get_parameters())
    assert sorted(p.name for p in parameters) == ["k", "k_1", "p", "q", "s"]
    for number, parameter in enumerate(parameters):
        parameter.set_data(np.full(3, number + 2.0, parameter.dtype.numpy))
    graphls.onnx.save(net, tmp_path / "m.onnx")
    again = graphls.onnx.load(tmp_path / "m.onnx").parameters_dict()
    assert {n: p.asnumpy()[0] for n, p in again.items()} == {p.name: p.asnumpy()[0] for p in parameters}
    onnxruntime.InferenceSession(tmp_path / "m.onnx")


def test_data_in_a_file_of_its_own_is_mapped_and_stays_there(tmp_path: Path) -> None:
    path = external(tmp_path, perceptron())
    before = {name: (path.parent / name).read_bytes() for name in ("model.onnx", "weights.bin")}
    net = graphls.onnx.load(path)
    target = tmp_path / "target" / "tuned.onnx"
    graphls.onnx.save(net, target)
    assert target.read_bytes() == before["model.onnx"]
    assert (target.parent / "weights.bin").read_bytes() == before["weights.bin"]
    net.parameters_dict()["b"].set_data(np.ones(8, np.float32))
    graphls.onnx.save(net, target)
    assert target.read_bytes() == before["model.onnx"]
    assert graphls.onnx.load(target).parameters_dict()["b"].asnumpy().tolist() == [1] * 8
    graphls.onnx.save(net, path)
    assert (path.parent / "weights.bin").read_bytes() == (target.parent / "weights.bin").read_bytes()
    assert graphls.onnx.load(path)(X).asnumpy().tobytes() == net(X).asnumpy().tobytes()


def test_large_data_is_not_read_before_it_is_needed(tmp_path: Path) -> None:
    folder = tmp_path
    proto = perceptron()
    entry = proto.graph.initializer.add(name="big", data_type=FLOAT, dims=[1 << 16, 1 << 16])
    entry.data_location = onnx.TensorProto.EXTERNAL
    entry.external_data.add(key="location", value="big.bin")
    proto.graph.node.add(op_type="Gather", input=["big", "row"], output=["picked"])
    proto.graph.output.append(tensor("picked", None))
    proto.graph.initializer.append(numpy_helper.from_array(np.int64(7), "row"))
    (folder / "model.onnx").write_bytes(proto.SerializeToString())
    with open(folder / "big.bin", "wb") as file:  # 16 GiB, of which the disk holds nothing
        file.truncate(1 << 34)
    net = graphls.onnx.load(folder / "model.onnx")
    assert net.parameters_dict()["big"].shape == (1 << 16, 1 << 16)


@pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "sub/../../secret.bin", "link.bin", ""])
def test_data_outside_of_the_folder_is_not_read(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "source"
    path = external(tmp_path, perceptron())
    (tmp_path / "secret.bin").write_bytes(bytes(1000))
    os.symlink(tmp_path / "secret.bin", folder / "link.bin")
    proto = onnx.load(path, load_external_data=False)
    for held in proto.graph.initializer:
        held.external_data[0].value = location
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(ValueError, match="which is not in the folder of the model"):
        graphls.onnx.load(path)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [("offset", "100000", "takes 96 bytes from 100000"), ("length", "4", "takes"), ("offset", "-4", "takes"),
     ("offset", "many", "damaged"), ("location", "nothing.bin", "cannot be read")],
)  # fmt: skip
def test_data_that_does_not_fit_its_file(tmp_path: Path, key: str, value: str, words: str) -> None:
    path = external(tmp_path, perceptron())
    proto = onnx.load(path, load_external_data=False)
    entries = proto.graph.initializer[0].external_data
    entry = next((e for e in entries if e.key == key), None) or entries.add(key=key)
    entry.value = value
    path.write_bytes(proto.SerializeToString())
    with pytest.raises((ValueError, OSError), match=words):
        graphls.onnx.load(path)


def test_damaged_models_and_cells_that_are_none(tmp_path: Path) -> None:
    data = perceptron().SerializeToString()
    for cut in (b"", b"no model", data[:40], data[:-7]):
        with pytest.raises(ValueError, match="is not an ONNX model"):
            graphls.onnx.load(cut)
    proto = perceptron()
    proto.graph.initializer[0].dims[0] = 1 << 40
    with pytest.raises(ValueError, match="The tensor 'w' of the model is damaged"):
        graphls.onnx.load(proto)
    with pytest.raises(TypeError, match="this is none"):
        graphls.onnx.save(nn.Dense(2, 2), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_bytes_of_every_half_of_a_model_are_an_error_or_a_model() -> None:
    data, draw = perceptron().SerializeToString(), np.random.default_rng(0)
    for _ in range(300):
        damaged: Any = bytearray(data)
        for _ in range(int(draw.integers(1, 4))):
            damaged[int(draw.integers(len(data)))] = int(draw.integers(256))
        try:
            graphls.compile(graphls.onnx.load(bytes(damaged)), X, backend="numpy")
        except graphls.GraphlsError:
            continue


@pytest.mark.parametrize("through", ["by name", "by Identity", "in a function"])
def test_statistics_that_share_a_tensor_with_weights_are_states_of_their_own(tmp_path: Path, through: str) -> None:
    """What exporters write of a normalisation that has not been trained, in which many numbers are the same."""
    taken = ("mean", "var") if through != "by name" else ("zero", "one")
    nodes = [node("Identity", "zero", "mean"), node("Identity", "one", "var")] if through != "by name" else []
    nodes += [node("BatchNormalization", f"x one zero {' '.join(taken)}", "y", name="first")]
    constants = {"one": np.ones(3, np.float32), "zero": np.zeros(3, np.float32)}
    proto = model([*nodes, node("Relu", "y", "z")], [tensor("x", ["n", 3])], ["z"], constants)
    if through == "in a function":
        held = [node("Constant", "", name, value=numpy_helper.from_array(a)) for name, a in constants.items()]
        opset = helper.make_opsetid("", 17)
        proto.functions.append(helper.make_function("mine", "F", ["x"], ["y"], [*held, *nodes], [opset]))
        proto.ClearField("graph")
        call = helper.make_node("F", ["x"], ["z"], domain="mine")
        proto.graph.CopyFrom(model([call], [tensor("x", ["n", 3])], ["z"]).graph)
        proto.opset_import.append(helper.make_opsetid("mine", 1))
    net = graphls.onnx.load(proto)
    assert sorted(p.name for p in net.trainable_params()) == ["one", "zero"]
    graphls.onnx.save(net, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").read_bytes() == proto.SerializeToString()
    net.set_train()
    net(3 * X + 1)
    net.set_train(False)
    assert [net.parameters_dict()[name].asnumpy().tolist() for name in ("one", "zero")] == [[1] * 3, [0] * 3]
    graphls.onnx.save(net, tmp_path / "m.onnx")
    wanted = net(X).asnumpy()
    assert not np.allclose(wanted, np.maximum(X, 0))
    (found,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(None, {"x": X})
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_array_equal(graphls.onnx.load(tmp_path / "m.onnx")(X).asnumpy(), wanted)


def test_statistics_that_several_share_by_identities_are_states_of_each_and_not_trained() -> None:
    """As PyTorch's older exporter writes a network of which no normalisation has been trained."""
    weights = {name: np.full(3, i + 1, np.float32) for i, name in enumerate(("a", "b", "c", "d"))}
    constants = {**weights, "mean": np.zeros(3, np.float32), "var": np.ones(3, np.float32)}
    nodes = [
        node("Identity", "mean", "mean_2"), node("Identity", "var", "var_2"),
        node("BatchNormalization", "x a b mean var", "y"), node("BatchNormalization", "y c d mean_2 var_2", "z"),
    ]  # fmt: skip
    net = graphls.onnx.load(model(nodes, [tensor("x", ["n", 3])], ["z"], constants))
    assert [p.name for p in net.trainable_params()] == ["a", "b", "c", "d"]
    assert sorted(p.name for p in net.untrainable_params()) == ["mean", "mean_2", "var", "var_2"]
