"""Attention of rows that may look at nothing: they give 0, and gradients stay finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphls
import graphls.onnx
from graphls import ops
from tests.onnx.models import model, node, tensor

DRAW = np.random.default_rng(0)
Q, K, V = (DRAW.normal(size=(1, 2, 3, 4)).astype(np.float32) for _ in range(3))
SEEN = np.array([[False, False, False], [True, False, True], [True, True, True]])
BIAS = np.where(SEEN, 0, -np.inf).astype(np.float32)
INPUTS = [tensor(name, [1, 2, 3, 4]) for name in "qkv"]


def by_operator() -> onnx.ModelProto:
    """The operator of ONNX, which is followed by its definition."""
    return model([node("Attention", "q k v seen", "y")], INPUTS, ["y"], {"seen": SEEN}, 24)


def as_exported() -> onnx.ModelProto:
    """What PyTorch's exporters write of scaled_dot_product_attention."""
    nodes = [
        node("Transpose", "k", "t", perm=[0, 1, 3, 2]),
        node("MatMul", "q t", "raw"),
        node("Mul", "raw half", "scaled"),
        node("Add", "scaled bias", "scores"),
        node("Softmax", "scores", "shares", axis=-1),
        node("IsNaN", "shares", "is_nan"),
        node("Where", "is_nan zero shares", "kept"),
        node("MatMul", "kept v", "y"),
    ]
    return model(nodes, INPUTS, ["y"], {"half": np.float32(0.5), "zero": np.float32(0), "bias": BIAS})


def by_microsoft() -> onnx.ModelProto:
    """The operator that ONNX Runtime's optimizer writes, on heads behind each other."""
    nodes = [
        *(node("Transpose", name, f"{name}t", perm=[0, 2, 1, 3]) for name in "qkv"),
        *(node("Reshape", f"{name}t joined", f"{name}j") for name in "qkv"),
        helper.make_node("MultiHeadAttention", ["qj", "kj", "vj", "", "", "bias"], ["a"], domain="com.microsoft",
                         num_heads=2),
        node("Reshape", "a heads", "h"),
        node("Transpose", "h", "y", perm=[0, 2, 1, 3]),
    ]  # fmt: skip
    constants = {"joined": np.array([1, 3, 8]), "heads": np.array([1, 3, 2, 4]), "bias": BIAS[None, None]}
    return model(nodes, INPUTS, ["y"], constants)


@pytest.mark.parametrize("make", [by_operator, as_exported, by_microsoft])
def test_rows_that_see_nothing_are_0_with_finite_gradients(make: Any) -> None:
    net = graphls.onnx.load(make(), frozen=lambda name: True)
    tensors = [graphls.Tensor(a) for a in (Q, K, V)]
    y = net(*tensors).asnumpy()
    scores = np.where(SEEN, (Q @ K.swapaxes(-1, -2)) / 2, -1e30)
    shares = np.where(SEEN, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    shares = shares / np.maximum(shares.sum(-1, keepdims=True), 1e-30)
    np.testing.assert_allclose(y, shares @ V, rtol=1e-4, atol=1e-6)
    found = [g.asnumpy() for g in ops.grad(lambda *xs: ops.sum(net(*xs)), (0, 1, 2))(*tensors)]
    assert all(np.isfinite(g).all() for g in found)
    assert not found[0][:, :, 0].any()
    assert found[0][:, :, 1:].all()
    np.testing.assert_allclose(found[2], np.broadcast_to(shares.sum(-2)[..., None], V.shape), rtol=1e-4)


def test_a_row_that_overflowed_still_has_a_gradient_of_nan() -> None:
    nodes = [node("Softmax", "x", "s"), node("IsNaN", "s", "n"), node("Where", "n zero s", "y")]
    net = graphls.onnx.load(model(nodes, [tensor("x", [2, 2])], ["y"], {"zero": np.float32(0)}))
    x = np.array([[np.inf, 1], [-np.inf, -np.inf]], np.float32)
    found = ops.grad(lambda x: ops.sum(net(x)))(graphls.Tensor(x)).asnumpy()
    assert np.isnan(found[0]).all()
    assert not found[1].any()

