"""Models in which shapes depend on data: they give what ONNX Runtime gives, and train before such operators."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import graphls
import graphls.onnx
from graphls import nn, ops
from tests.onnx.models import INT, model, node, tensor

X = np.random.default_rng(1).normal(size=(6, 3)).astype(np.float32)


def detector() -> onnx.ModelProto:
    """Features, the boxes that are chosen by scores, how they were chosen, and how many there are."""
    draw = np.random.default_rng(0)
    nodes = [
        node("MatMul", "x w", "h"),
        node("Relu", "h", "features"),
        node("MatMul", "features wb", "b"),
        node("Reshape", "b of_boxes", "boxes"),
        node("MatMul", "features ws", "s"),
        node("Sigmoid", "s", "p"),
        node("Reshape", "p of_scores", "scores"),
        node("NonMaxSuppression", "boxes scores most iou least", "chosen", name="/nms"),
        node("Gather", "chosen column", "c", axis=1),
        node("Reshape", "c flat", "places"),
        node("Gather", "boxes places", "kept", axis=1),
        node("Mul", "kept scale", "scaled"),
        node("Shape", "chosen", "shape"),
        node("Cast", "shape", "sizes", to=1),
        node("Add", "sizes shift", "count"),
    ]
    constants = {
        "w": draw.normal(size=(3, 8)).astype(np.float32), "wb": draw.uniform(size=(8, 4)).astype(np.float32),
        "ws": draw.normal(size=(8, 1)).astype(np.float32), "scale": np.array([1, 2, 3, 4], np.float32),
        "shift": np.array([0.5, 0.5], np.float32), "of_boxes": np.array([1, -1, 4]),
        "of_scores": np.array([1, 1, -1]), "most": np.int64(5), "iou": np.float32(0.5), "least": np.float32(0.3),
        "column": np.array([2]), "flat": np.array([-1]),
    }  # fmt: skip
    outputs = ["scaled", "features", tensor("chosen", None, INT), "count"]
    return model(nodes, [tensor("x", ["n", 3])], outputs, constants)


class Trained(nn.Cell):
    """A loss of one of the outputs of a network."""

    def __init__(self, net: Any, number: int) -> None:
        super().__init__()
        self.net = net
        self.number = number

    def construct(self, x: Any) -> Any:
        return ops.sum(ops.square(self.net(x)[self.number]))


def session_of(proto: onnx.ModelProto) -> Any:
    return onnxruntime.InferenceSession(proto.SerializeToString())


def test_a_network_gives_what_depends_on_data_and_trains_what_does_not(tmp_path: Any) -> None:
    net = graphls.onnx.load(detector(), frozen=["shift"])
    assert [p.name for p in net.trainable_params()] == ["w", "wb", "ws", "scale"]
    for x in (X, X[:2], -X):
        for y, wanted in zip(net(x), session_of(detector()).run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-5)
    before = [y.asnumpy() for y in net(x=X)]
    step = nn.TrainOneStepCell(Trained(net, 1), nn.SGD(net.trainable_params(), 0.01))
    losses = [float(step(graphls.Tensor(X)).asnumpy()) for _ in range(3)]
    assert losses[2] < losses[0]
    graphls.onnx.save(net, tmp_path / "tuned.onnx")
    wanted = session_of(onnx.load(tmp_path / "tuned.onnx")).run(None, {"x": X})
    for y, other in zip(net(X), wanted, strict=True):
        np.testing.assert_allclose(y.asnumpy(), other, rtol=1e-5)
    assert not np.array_equal(before[1], wanted[1])
    for y, other in zip(copy.deepcopy(net)(X), wanted, strict=True):
        np.testing.assert_allclose(y.asnumpy(), other, rtol=1e-5)


def test_what_has_a_static_shape_again_is_of_the_graph_and_has_no_gradient_by_data() -> None:
    net = graphls.onnx.load(detector())
    step = graphls.compile(net, X)
    count = step(X)[3].asnumpy()
    np.testing.assert_allclose(count, session_of(detector()).run(["count"], {"x": X})[0])
    assert "py_func" not in str(step.graph)
    found = ops.grad(lambda x: ops.sum(net(x)[1]) * ops.sum(net(x)[3]))(graphls.Tensor(X)).asnumpy()
    alone = ops.grad(lambda x: ops.sum(net(x)[1]))(graphls.Tensor(X)).asnumpy()
    np.testing.assert_allclose(found, alone * count.sum(), rtol=1e-5)


def test_a_loss_of_what_depends_on_data_is_an_error_that_says_what_to_do() -> None:
    net = graphls.onnx.load(detector())
    step = nn.TrainOneStepCell(Trained(net, 0), nn.SGD(net.trainable_params(), 0.01))
    words = r"NonMaxSuppression '/nms': the shape of its result depends on data; call the network by itself"
    with pytest.raises(TypeError, match=words):
        step(graphls.Tensor(X))
    assert graphls.onnx.load(detector(), outputs=["boxes"])(X).shape == (1, 6, 4)


def mean_of_positive() -> onnx.ModelProto:
    """The mean of x[x > 0], as PyTorch exports it."""
    nodes = [
        node("Mul", "x w", "v"), node("Greater", "v zero", "on"), node("NonZero", "on", "where"),
        node("Transpose", "where", "places"), node("GatherND", "v places", "taken"),
        node("ReduceMean", "taken", "mean", keepdims=0), node("Add", "mean one", "y"),
    ]  # fmt: skip
    constants = {"w": np.array([1, 2, 3], np.float32), "zero": np.float32(0), "one": np.array([1], np.float32)}
    return model(nodes, [tensor("x", ["n", 3])], ["y"], constants)


def test_a_gradient_that_goes_through_such_operators_is_an_error() -> None:
    net = graphls.onnx.load(mean_of_positive())
    np.testing.assert_allclose(net(X).asnumpy(), session_of(mean_of_positive()).run(None, {"x": X})[0], rtol=1e-5)
    assert net.to_float(graphls.float16)(X).dtype is graphls.float16
    with pytest.raises(TypeError, match="pure_callback"):
        ops.grad(lambda x: ops.sum(net(x)))(graphls.Tensor(X))


def test_in_branches_and_functions_of_the_model() -> None:
    branch = helper.make_graph([node("NonZero", "x", "n"), node("Cast", "n", "a", to=1)], "a", [], [tensor("a", None)])
    other = helper.make_graph([node("Identity", "x", "b")], "b", [], [tensor("b", None)])
    unique, opset = node("Unique", "v", "k"), helper.make_opsetid("", 17)
    inner = helper.make_function("mine", "Kept", ["v"], ["k"], [unique], [opset])
    nodes = [
        node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "on"),
        helper.make_node("If", ["on"], ["y"], then_branch=branch, else_branch=other),
        helper.make_node("Kept", ["x"], ["z"], domain="mine"),
    ]  # fmt: skip
    proto = model(nodes, [tensor("x", ["n", 3])], ["y", "z"], {"zero": np.float32(0)})
    proto.functions.append(inner)
    proto.opset_import.append(helper.make_opsetid("mine", 1))
    net, relu = graphls.onnx.load(proto), np.maximum(X, 0)
    for x in (relu, -relu):
        for y, wanted in zip(net(x), session_of(proto).run(None, {"x": x}), strict=True):
            np.testing.assert_array_equal(y.asnumpy(), wanted)


def test_known_data_folds_away() -> None:
    nodes = [node("NonZero", "mask", "n"), node("Gather", "x n", "g", axis=1), node("Reshape", "g shape", "y")]
    constants = {"mask": np.array([1.0, 0.0, 1.0], np.float32), "shape": np.array([-1, 2])}
    net = graphls.onnx.load(model(nodes, [tensor("x", ["n", 3])], ["y"], constants))
    assert not list(net.get_parameters())
    np.testing.assert_array_equal(graphls.compile(net, X)(X).asnumpy(), X[:, [0, 2]])


def collecting(*behind: Any) -> Any:
    """A loop that doubles its input at most six times, until the sum is beyond 30, and collects what it had."""
    body = helper.make_graph(
        [node("Mul", "v two", "w"), node("ReduceSum", "w", "s", keepdims=0), node("Less", "s limit", "on"),
         node("Identity", "w", "row")],
        "body", [tensor("i", [], INT), tensor("c", [], TensorProto.BOOL), tensor("v", None)],
        [tensor("on", [], TensorProto.BOOL), tensor("w", None), tensor("row", None)],
    )  # fmt: skip
    loop = helper.make_node("Loop", ["most", "", "x"], ["last", "rows"], body=body)
    constants = {"most": np.int64(6), "two": np.float32(2), "limit": np.float32(30)}
    return model([loop, *behind], [tensor("x", [2])], [behind[-1].output[0] if behind else "rows"], constants)


@pytest.mark.parametrize("x", [[1.0, 2.0], [20.0, 20.0], [0.0, 0.1]])
def test_results_that_a_loop_collects_until_it_ends_itself(x: list[float]) -> None:
    data = np.array(x, np.float32)
    for proto in (collecting(), collecting(node("ReduceSum", "rows", "t", keepdims=0), node("Add", "t last", "y"))):
        expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": data})
        np.testing.assert_array_equal(graphls.onnx.load(proto)(graphls.Tensor(data)).asnumpy(), expected[0])


def test_what_a_loop_carries_beside_results_that_it_collects_has_a_gradient() -> None:
    net = graphls.onnx.load(collecting(node("Identity", "last", "y")))
    gradient = graphls.grad(lambda x: graphls.ops.sum(net(x)))(graphls.Tensor(np.array([1, 2], np.float32)))
    np.testing.assert_array_equal(gradient.asnumpy(), [16, 16])
