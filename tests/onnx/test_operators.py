"""Operators beyond what ONNX's own node tests cover."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

import graphls
import graphls.onnx
from graphls import ops
from tests.onnx.models import INT, model, node, tensor
from tests.onnx.node_tests import Case, check_gradient

DRAW = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return DRAW.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("size", [600, 521])
def test_long_fourier_transforms(size: int) -> None:
    x = floats(2, size, 2)
    for inverse, exact in ((0, np.fft.fft), (1, np.fft.ifft)):
        proto = model([node("DFT", "x", "y", axis=1, inverse=inverse)], [tensor("x", [2, size, 2])], ["y"])
        y = graphls.onnx.load(proto)(x).asnumpy()
        wanted = exact(x[..., 0] + 1j * x[..., 1], axis=1)
        np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], wanted, atol=2e-6 * abs(wanted).max())
        assert size == 521 or not check_gradient(Case("DFT", proto, [([x], [])]))


def test_the_largest_of_boxes_is_that_of_the_runtime() -> None:
    x, boxes = floats(2, 3, 9, 8), np.array([[0, 0, 0, 7, 8], [1, 2, 3, 5, 4], [1, 6, 6, 3, 3], [0, 10, 2, 20, 30]])
    given = {"x": x, "boxes": boxes.astype(np.float32)}
    nodes = [node("MaxRoiPool", "x boxes", "y", pooled_shape=[3, 2], spatial_scale=0.7)]
    proto = model(nodes, [tensor("x", x.shape), tensor("boxes", boxes.shape)], ["y"])
    wanted = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, given)[0]
    np.testing.assert_array_equal(graphls.onnx.load(proto)(*given.values()).asnumpy(), wanted)


def test_classes_are_drawn_by_their_probabilities() -> None:
    proto = model([node("Multinomial", "x", "y", sample_size=4000)], [tensor("x", [1, 3])], [tensor("y", None, 6)])
    drawn = graphls.onnx.load(proto)(np.log(np.array([[0.2, 0.5, 0.3]], np.float32))).asnumpy()
    assert drawn.dtype == np.int32
    np.testing.assert_allclose(np.bincount(drawn[0]) / 4000, [0.2, 0.5, 0.3], atol=0.04)


def test_sequences_of_an_exporter_fold_away() -> None:
    """What comes of `for part in x.split(2): ...; torch.cat(parts)`, with a loop over the parts."""
    loop = helper.make_graph(
        [
            node("SequenceAt", "parts i", "part"),
            node("Mul", "part w", "scaled"),
            node("SequenceInsert", "done scaled", "more"),
            node("Identity", "go", "on"),
        ],
        "body",
        [tensor("i", [], INT), tensor("go", [], TensorProto.BOOL),
         helper.make_tensor_sequence_value_info("done", 1, None)],
        [tensor("on", [], TensorProto.BOOL), helper.make_tensor_sequence_value_info("more", 1, None)],
    )  # fmt: skip
    nodes = [
        node("SplitToSequence", "x two", "parts", axis=1),
        node("SequenceLength", "parts", "count"),
        node("SequenceEmpty", "", "none"),
        helper.make_node("Loop", ["count", "", "none"], ["all"], body=loop),
        node("ConcatFromSequence", "all", "y", axis=1),
    ]
    constants = {"two": np.int64(2), "w": np.array([[2.0, 3.0]], np.float32)}
    proto = model(nodes, [tensor("x", [3, 24])], ["y"], constants)
    net, x = graphls.onnx.load(proto), floats(3, 24)
    np.testing.assert_allclose(net(x).asnumpy(), x * np.tile([2, 3], 12), rtol=1e-6)
    slope = ops.grad(lambda x: ops.sum(net(x)))(graphls.Tensor(x)).asnumpy()
    np.testing.assert_array_equal(slope, np.tile([2, 3], (3, 12)))


def test_optional_values_and_places_that_are_not_there() -> None:
    nodes = [
        node("Optional", "x", "maybe"),
        node("OptionalHasElement", "maybe", "has"),
        node("OptionalGetElement", "maybe", "got"),
        node("Cast", "has", "number", to=1),
        node("Add", "got number", "y"),
    ]
    assert graphls.onnx.load(model(nodes, [tensor("x", [2])], ["y"], opset=18))(floats(2)).shape == (2,)
    nodes = [node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s three", "y")]
    net = graphls.onnx.load(model(nodes, [tensor("x", [2])], ["y"], {"three": np.int64(3)}))
    with pytest.raises(ValueError, match="SequenceAt 'y': the position 3 is none in a sequence of 2"):
        net(floats(2))


@pytest.mark.parametrize(
    "kind, attributes",
    [("ReduceL2", {}), ("GlobalLpPool", {}), ("GlobalLpPool", {"p": 3}), ("LpPool", {"kernel_shape": [2, 2]}),
     ("LpNormalization", {"axis": 3}), ("MeanVarianceNormalization", {})],
)  # fmt: skip
def test_slopes_of_norms_of_zeros_are_finite(kind: str, attributes: dict[str, Any]) -> None:
    """As PyTorch has them: 0, where the slope of a root is infinite."""
    proto = model([node(kind, "x", "y", **attributes)], [tensor("x", (1, 1, 2, 2))], ["y"])
    x = graphls.Tensor(np.zeros((1, 1, 2, 2), np.float32))
    net = graphls.onnx.load(proto)
    assert np.all(ops.grad(lambda x: ops.sum(net(x)))(x).asnumpy() == 0)
