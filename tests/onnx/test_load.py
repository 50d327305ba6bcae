"""Models as cells: their parameters and inputs, what is known while they are traced, modes, precision, errors."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import graphls
import graphls.onnx
from graphls import amp, nn, ops
from tests.onnx.models import FLOAT, INT, model, node, perceptron, tensor

X = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
Y = np.random.default_rng(2).normal(size=(5, 2)).astype(np.float32)


def on_runtime(proto: onnx.ModelProto, *arrays: Any) -> list[Any]:
    """What ONNX Runtime gives."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    return list(session.run(None, dict(zip((i.name for i in session.get_inputs()), arrays, strict=True))))


def test_constants_are_parameters_under_their_names_and_inputs_arguments() -> None:
    net = graphls.onnx.load(perceptron())
    assert {p.name: p.shape for p in net.get_parameters()} == {"w": (3, 8), "b": (8,), "v": (8, 2)}
    for batch in (5, 2):
        np.testing.assert_allclose(net(X[:batch]).asnumpy(), on_runtime(perceptron(), X[:batch])[0], rtol=1e-6)
    np.testing.assert_array_equal(net(x=graphls.Tensor(X)).asnumpy(), net(X).asnumpy())


def test_models_come_from_paths_bytes_and_protos(tmp_path: Path) -> None:
    proto = perceptron()
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    nets = [graphls.onnx.load(source) for source in (path, str(path), path.read_bytes(), proto)]
    assert len({net(X).asnumpy().tobytes() for net in nets}) == 1
    with pytest.raises(TypeError, match="named by a string or a path"):
        graphls.onnx.load(7)


def test_what_is_trained_is_chosen_by_patterns_and_functions() -> None:
    def trained(**choice: Any) -> set[str]:
        return {p.name for p in graphls.onnx.load(perceptron(), **choice).trainable_params()}

    assert trained() == {"w", "b", "v"}
    assert trained(trainable="w") == {"w"}
    assert trained(trainable=["[wb]"], frozen="b") == {"w"}
    assert trained(frozen=lambda name: name == "v") == {"w", "b"}
    with pytest.raises(ValueError, match="model is called 'wx', as trainable asks; near are 'w'"):
        graphls.onnx.load(perceptron(), trainable=["wx"])


def test_numbers_without_axes_are_trained_only_where_they_are_named() -> None:
    proto = model([node("Mul", "x scale", "y")], [tensor("x", [2])], ["y"], {"scale": np.float32(2)})
    assert not list(graphls.onnx.load(proto).get_parameters())
    assert [p.name for p in graphls.onnx.load(proto, trainable="scale").trainable_params()] == ["scale"]


def test_a_number_that_a_node_gives_is_trained_only_where_it_is_named() -> None:
    """As PyTorch's older exporter writes the values of masks, infinities among them."""
    held = numpy_helper.from_array(np.array([-np.inf], np.float32))
    nodes = [node("Constant", "", "hidden", value=held), node("Where", "seen x hidden", "y")]
    inputs = [tensor("seen", [2], onnx.TensorProto.BOOL), tensor("x", [2])]
    assert not list(graphls.onnx.load(model(nodes, inputs, ["y"])).get_parameters())
    slope = model([node("PRelu", "x slope", "y")], [tensor("x", [2])], ["y"], {"slope": np.ones(1, np.float32)})
    assert [p.name for p in graphls.onnx.load(slope).trainable_params()] == ["slope"]


def test_training_is_that_of_the_same_network_in_cells() -> None:
    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            held = {p.name: p.asnumpy() for p in graphls.onnx.load(perceptron()).get_parameters()}
            self.w, self.b, self.v = (graphls.Parameter(held[name], name) for name in "wbv")

        def construct(self, x: Any) -> Any:
            return ops.matmul(ops.relu(ops.matmul(x, self.w) + self.b), self.v)

    losses = []
    for net in (Net(), graphls.onnx.load(perceptron())):
        step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Adam(net.trainable_params(), 1e-2))
        losses.append([float(step(graphls.Tensor(X), graphls.Tensor(Y)).asnumpy()) for _ in range(5)])
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-6)
    assert losses[0][-1] < losses[0][0]


def test_a_model_inside_of_cells_and_a_copy_of_it() -> None:
    class Twice(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.one = graphls.onnx.load(perceptron())
            self.other = copy.deepcopy(self.one)

        def construct(self, x: Any) -> Any:
            return self.one(x) + self.other(x)

    cell = Twice()
    assert [p.name for p in cell.get_parameters()] == [f"{n}.{p}" for n in ("one", "other") for p in ("w", "b", "v")]
    np.testing.assert_allclose(cell(X).asnumpy(), 2 * on_runtime(perceptron(), X)[0], rtol=1e-6)
    cell.other.parameters_dict()["other.w"].set_data(np.zeros((3, 8), np.float32))
    np.testing.assert_allclose(cell(X).asnumpy(), on_runtime(perceptron(), X)[0], rtol=1e-6)


def test_names_that_cells_use_themselves() -> None:
    names = ["training", "_params", "construct", "a.b/c:0"]
    nodes = [node("Add", f"t{i} {name}", f"t{i + 1}") for i, name in enumerate(names)]
    constants = {name: np.ones(2, np.float32) for name in names}
    net = graphls.onnx.load(model(nodes, [tensor("t0", [2])], ["t4"], constants))
    assert sorted(net.parameters_dict()) == sorted(names)
    assert net(np.zeros(2, np.float32)).asnumpy().tolist() == [4, 4]
    assert net.set_train().training is True


def test_arithmetic_of_shapes_folds_away() -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Unsqueeze", "n axis", "n1"),
        node("Mul", "n1 two", "n2"),
        node("Concat", "n2 minus", "wanted", axis=0),
        node("Reshape", "x wanted", "y"),
        node("ConstantOfShape", "wanted2", "zeros"),
        node("Range", "zero n one", "steps"),
        node("Cast", "steps", "floats", to=FLOAT),
        node("ReduceSum", "floats", "total"),
        node("Add", "y total", "z"),
        node("Shape", "z", "wanted2"),
        node("Add", "z zeros", "out"),
    ]
    ints = {"zero": 0, "one": 1, "axis": [0], "two": [2], "minus": [-1]}
    proto = model(nodes, [tensor("x", ["n", 4])], ["out"], {k: np.int64(v) for k, v in ints.items()})
    for n in (2, 3):
        x = np.ones((n, 4), np.float32)
        step = graphls.compile(graphls.onnx.load(proto), x)
        assert {n.primitive.name for n in step.graph.nodes} <= {"reshape", "add", "constant"}
        np.testing.assert_array_equal(step(x).asnumpy(), on_runtime(proto, x)[0])


def test_floats_that_sizes_come_from_are_no_parameters() -> None:
    constants = {"scales": np.array([1, 1, 2, 2], np.float32), "w": np.ones((1, 1, 1, 1), np.float32)}
    nodes = [node("Conv", "x w", "y"), node("Resize", "y _ scales", "z", mode="linear")]
    net = graphls.onnx.load(model(nodes, [tensor("x", [1, 1, 2, 2])], ["z"], constants))
    assert list(net.parameters_dict()) == ["w"]
    assert net(np.ones((1, 1, 2, 2), np.float32)).shape == (1, 1, 4, 4)


def test_inputs_on_which_shapes_depend_are_given_when_the_model_is_loaded() -> None:
    proto = model([node("Reshape", "x shape", "y")], [tensor("x", [4]), tensor("shape", [2], INT)], ["y"])
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(ValueError, match="The operator Reshape 'y': its input 'shape' must be known"):
        graphls.onnx.load(proto)(x, np.array([2, 2]))
    net = graphls.onnx.load(proto, fixed={"shape": [2, 2]})
    assert net(x).asnumpy().tolist() == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="has no input 'size'"):
        graphls.onnx.load(proto, fixed={"size": 1})


def test_fixed_inputs_have_the_dtype_that_the_model_declares() -> None:
    """A list of Python's floats is float64, which made float64 of all that came out."""
    shapes = [tensor("x", ["n"]), tensor("s", [2])]
    proto = model([node("Mul", "x s", "y")], shapes, [tensor("y", ["n"])])
    for value in ([0.5, 2.0], [1, 2], np.ones(2)):
        net = graphls.onnx.load(proto, fixed={"s": value})
        assert net(np.ones(2, np.float32)).dtype is graphls.float32


def norm_and_dropout(training_mode: int) -> onnx.ModelProto:
    """Batch normalisation, then dropout, as exported in one mode."""
    nodes = [
        node("BatchNormalization", "x scale bias mean var", "y" if not training_mode else "y m v",
             training_mode=training_mode, momentum=0.75),
        node("Dropout", "y ratio training", "z"),
    ]  # fmt: skip
    constants = {
        "scale": np.array([1, 2], np.float32), "bias": np.array([0, 1], np.float32), "mean": np.zeros(2, np.float32),
        "var": np.ones(2, np.float32), "ratio": np.float32(0.5), "training": np.bool_(training_mode),
    }  # fmt: skip
    return model(nodes, [tensor("x", ["n", 2])], ["z"], constants)


@pytest.mark.parametrize("mode", [0, 1])
def test_normalisation_and_dropout_follow_set_train(mode: int) -> None:
    net = graphls.onnx.load(norm_and_dropout(mode))
    assert [p.name for p in net.trainable_params()] == ["scale", "bias"]
    x = np.random.default_rng(0).normal(3, 2, (400, 2)).astype(np.float32)
    held = net.parameters_dict()
    np.testing.assert_allclose(net(x).asnumpy(), x / np.sqrt(1 + 1e-5) * [1, 2] + [0, 1], rtol=1e-5)
    assert held["mean"].asnumpy().tolist() == [0, 0]
    net.set_train()
    y = net(x).asnumpy()
    assert 300 < np.count_nonzero(y == 0) < 500
    np.testing.assert_allclose(held["mean"].asnumpy(), 0.25 * x.mean(0), rtol=1e-5)
    np.testing.assert_allclose(held["var"].asnumpy(), 0.75 + 0.25 * x.var(0), rtol=1e-4)


@pytest.mark.parametrize("level", ["O1", "O2", "O3", "auto"])
def test_mixed_precision(level: str) -> None:
    net = amp.auto_mixed_precision(graphls.onnx.load(perceptron()), level)
    products = [n for n in graphls.api.trace_graph(net, X).graph.nodes if n.primitive.name == "matmul"]
    assert {n.inputs[0].type.dtype.name for n in products} == {"f16"}
    np.testing.assert_allclose(net(X).asnumpy(), on_runtime(perceptron(), X)[0], atol=2e-2)


def test_float16_with_constants_of_the_model() -> None:
    nodes = [node("Mul", "x c", "y"), node("Cast", "i", "f", to=FLOAT), node("Add", "y f", "z")]
    nodes.append(node("Mul", "z w", "o"))
    constants = {"c": np.full((1, 3), 0.5, np.float32), "w": np.ones(3, np.float32)}
    proto = model(nodes, [tensor("x", ["n", 3]), tensor("i", ["n", 3], INT)], ["o"], constants)
    net = graphls.onnx.load(proto, trainable="w").to_float(graphls.float16)
    assert net(X, np.ones((5, 3), np.int64)).dtype is graphls.float16


def test_training_in_float16_with_a_loss_scale() -> None:
    net = graphls.onnx.load(perceptron())
    optimizer, manager = nn.SGD(net.trainable_params(), 0.05), amp.DynamicLossScaleManager(1024.0)
    step = amp.build_train_network(net, optimizer, nn.MSELoss(), "O2", loss_scale_manager=manager)
    losses = [float(step(graphls.Tensor(X), graphls.Tensor(Y))[0].asnumpy()) for _ in range(8)]
    assert losses[-1] < losses[0]


def test_an_overflow_is_explained_by_the_node_of_the_model() -> None:
    net = graphls.onnx.load(perceptron()).to_float(graphls.float16)
    net.parameters_dict()["v"].set_data(np.full((8, 2), 6e4, np.float32))
    step = graphls.compile(net, X)
    assert "second.MatMul" in str(step.explain_overflow(100 * X))


def test_nodes_have_the_scopes_and_lines_of_their_producer() -> None:
    proto = perceptron()
    trace = 'File "/home/me/net.py", line 12, in forward'
    proto.graph.node[1].metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    graph = graphls.api.trace_graph(graphls.onnx.load(proto), X).graph
    places = {n.scope: str(n.loc) for n in graph.nodes}
    assert list(places) == ["first.MatMul", "first.Add", "act.Relu", "second.MatMul"]
    assert places["first.MatMul"] == "/home/me/net.py:12"
    assert graphls.ir.dump(graphls.ir.parse(graphls.ir.dump(graph))) == graphls.ir.dump(graph)


def branches(condition: str) -> onnx.ModelProto:
    """x * 2 or x + w, which the branch takes from around it."""
    graphs = [
        helper.make_graph([node(kind, f"x {other}", f"{kind}_y")], kind, [], [tensor(f"{kind}_y", None)])
        for kind, other in (("Mul", "two"), ("Add", "w"))
    ]
    nodes = [
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Greater", "sum zero", "is_positive"),
        node("Shape", "x", "shape"),
        node("Gather", "shape index", "rows"),
        node("Greater", "rows index", "has_rows"),
        node("If", condition, "y", then_branch=graphs[0], else_branch=graphs[1]),
    ]
    constants = {"two": np.float32(2), "w": np.ones(3, np.float32), "zero": np.float32(0), "index": np.int64(0)}
    return model(nodes, [tensor("x", ["n", 3])], ["y"], constants)


@pytest.mark.parametrize(("condition", "kept"), [("is_positive", True), ("has_rows", False)])
def test_a_condition_that_is_known_takes_one_branch(condition: str, kept: bool) -> None:
    proto = branches(condition)
    net = graphls.onnx.load(proto)
    step = graphls.compile(net, X)
    assert ("cond" in {n.primitive.name for n in step.graph.nodes}) is kept
    for x in (X, -X):
        np.testing.assert_allclose(step(x).asnumpy(), on_runtime(proto, x)[0], rtol=1e-6)


def test_functions_of_the_model_are_followed_with_their_attributes() -> None:
    inner = helper.make_function(
        "mine", "Scaled", ["a"], ["c"],
        [helper.make_node("LeakyRelu", ["a"], ["c"], name="leak")], [helper.make_opsetid("", 17)], ["slope"],
    )  # fmt: skip
    inner.node[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=1))
    nodes = [helper.make_node("Scaled", ["x"], ["y"], domain="mine", slope=0.5)]
    proto = model(nodes, [tensor("x", ["n", 3])], ["y"])
    proto.functions.append(inner)
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    np.testing.assert_allclose(graphls.onnx.load(proto)(X).asnumpy(), np.where(X < 0, X / 2, X))


def test_missing_operators_are_one_error_before_anything_runs() -> None:
    nodes = [
        helper.make_node("Magic", ["x"], ["y"], name="first", domain="vendor"),
        node("Wonder", "y", "z"),
        node("Relu", "x", "r", alpha=1.0),
    ]
    proto = model(nodes, [tensor("x", ["n", 3])], ["z", "r"])
    with pytest.raises(ValueError, match=r"vendor\.Magic 'first'.* Wonder 'z'.* Relu 'r' .*unexpected"):
        graphls.onnx.load(proto)
    proto.graph.node[2].ClearField("attribute")
    assert graphls.onnx.load(proto, outputs=["r"])(X).shape == (5, 3)


def test_errors_name_the_node_and_inputs_of_a_wrong_kind() -> None:
    proto = perceptron()
    net = graphls.onnx.load(proto)
    with pytest.raises(ValueError, match="The operator MatMul '/first/MatMul': "):
        net(np.ones((5, 4), np.float32))
    with pytest.raises(ValueError, match="The input 'x' of the model has 2 axes, not the shape"):
        net(np.ones(3, np.float32))
    tokens = model([node("Gather", "w i", "y")], [tensor("i", ["n"], INT)], ["y"], {"w": np.ones((4, 2), np.float32)})
    with pytest.raises(TypeError, match="The input 'i' of the model takes int64, not float32"):
        graphls.onnx.load(tokens)(np.ones(2, np.float32))
    assert graphls.onnx.load(tokens)(np.ones(2, np.int32)).shape == (2, 2)


def test_quantized_pairs_pass_gradients_straight_through() -> None:
    nodes = [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y"), node("Mul", "y w", "o")]
    constants = {"s": np.float32(0.1), "z": np.int8(0), "w": np.array([1, 2, 3], np.float32)}
    net = graphls.onnx.load(model(nodes, [tensor("x", ["n", 3])], ["o"], constants))
    x = np.array([[0.26, -0.11, 99.0]], np.float32)
    np.testing.assert_allclose(net(x).asnumpy(), [[0.3, -0.2, 38.1]], rtol=1e-6)
    slope = ops.grad(lambda x: ops.sum(net(x)))(graphls.Tensor(x)).asnumpy()
    np.testing.assert_allclose(slope, [[1, 2, 0]])


def test_weights_of_early_models_that_are_listed_as_inputs() -> None:
    proto = perceptron()
    proto.graph.input.append(tensor("w", [3, 8]))
    assert graphls.onnx.load(proto).open_inputs == ("x",)


def test_sparse_constants_are_known() -> None:
    values = numpy_helper.from_array(np.array([2.0], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([1], np.int64)), [3])
    proto = model([node("Mul", "x w", "y")], [tensor("x", ["n", 3])], ["y"])
    proto.graph.sparse_initializer.append(sparse)
    np.testing.assert_array_equal(graphls.onnx.load(proto)(X).asnumpy(), X * [0, 2, 0])
