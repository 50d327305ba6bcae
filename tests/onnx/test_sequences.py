"""Sequences of tensors between operators that make and take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphls
import graphls.onnx
from graphls import ops
from tests.onnx.models import model, node, tensor

X = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
CONSTANTS = {"one": np.array(1), "minus": np.array(-2), "three": np.array(3), "sizes": np.array([1, 4, 2])}
AT = [node("SequenceAt", "parts one", "a"), node("SequenceAt", "parts minus", "b"), node("Sum", "a b", "y")]
CASES: dict[str, list[Any]] = {
    "single elements": [node("SplitToSequence", "x", "parts", axis=1, keepdims=0), *AT],
    "parts of one size": [node("SplitToSequence", "x three", "parts", axis=1),
                          node("SequenceErase", "parts minus", "left"),
                          node("ConcatFromSequence", "left", "y", axis=-1)],
    "parts of sizes": [node("SplitToSequence", "x sizes", "parts", axis=-1),
                       node("SequenceInsert", "parts x one", "more"), node("SequenceErase", "more", "left"),
                       node("ConcatFromSequence", "left", "y", axis=1)],
    "of the model": [node("SequenceConstruct", "x x x", "parts"), node("SequenceInsert", "parts x", "more"),
                     node("ConcatFromSequence", "more", "stacked", axis=1, new_axis=1),
                     node("SequenceLength", "more", "count"), node("Cast", "count", "factor", to=1),
                     node("Mul", "stacked factor", "y")],
    "nothing at first": [node("SequenceEmpty", "", "none"), node("SequenceInsert", "none x", "items"),
                         node("ConcatFromSequence", "items", "y", axis=0)],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_sequences_are_those_of_onnx_runtime_and_have_gradients(name: str) -> None:
    proto = model(CASES[name], [tensor("x", [2, 7])], ["y"], CONSTANTS)
    (wanted,) = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": X})
    net = graphls.onnx.load(proto)
    np.testing.assert_allclose(net(X).asnumpy(), wanted, rtol=1e-6)
    gradient = ops.grad(lambda x: ops.sum(net(x)))(graphls.Tensor(X)).asnumpy()
    moved = X + np.float32(1) * (gradient != 0)
    difference = net(moved).asnumpy().sum() - wanted.sum()
    np.testing.assert_allclose(gradient.sum(), difference, rtol=1e-4)


def test_a_position_that_is_none_is_an_error_with_the_operator() -> None:
    nodes = [node("SplitToSequence", "x", "parts"), node("SequenceAt", "parts three", "y")]
    net = graphls.onnx.load(model(nodes, [tensor("x", [2, 7])], ["y"], CONSTANTS))
    with pytest.raises(ValueError, match="SequenceAt 'y': the position 3 is none in a sequence of 2"):
        net(X)
