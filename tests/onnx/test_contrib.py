"""Operators that the optimizers of ONNX Runtime write give what ONNX Runtime gives, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import helper

import graphls
import graphls.onnx
from tests.onnx.contrib_cases import RECENT, Operator
from tests.onnx.models import model, tensor
from tests.onnx.node_tests import Case, check_gradient

DRAW = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return DRAW.normal(size=shape).astype(np.float32)


def halves(count: int, size: int) -> Any:
    angles = np.arange(count)[:, None] * 0.3 ** np.arange(size)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


X, BIAS = floats(2, 3, 8), floats(8)
MASK = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
IDS = np.array([[1, 2, 3], [0, 1, 4]], np.int32)
COS, SIN = halves(6, 2)
Q, K, V = floats(2, 3, 8), floats(2, 5, 8), floats(2, 5, 8)

CASES: list[tuple[str, list[Any], dict[str, Any], int]] = [
    ("Gelu", [X], {}, 1),
    ("BiasGelu", [X, BIAS], {}, 1),
    ("FastGelu", [X, BIAS], {}, 1),
    ("QuickGelu", [X], {"alpha": 1.5}, 1),
    ("FusedMatMul", [floats(2, 4, 3), floats(2, 5, 4)], {"transA": 1, "transB": 1, "alpha": 0.5}, 1),
    ("FusedGemm", [floats(3, 4), floats(4, 2), floats(2)], {"activation": "Relu", "alpha": 2.0}, 1),
    ("FusedConv", [floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3)], {"activation": "Relu", "pads": [1] * 4}, 1),
    ("SkipLayerNormalization", [X, floats(2, 3, 8), BIAS, floats(8), floats(8)], {"epsilon": 1e-5}, 1),
    ("SkipSimplifiedLayerNormalization", [X, floats(2, 3, 8), BIAS], {"epsilon": 1e-5}, 1),
    ("EmbedLayerNormalization",
     [IDS, IDS // 3, floats(5, 8), floats(4, 8), floats(2, 8), floats(8), floats(8), MASK], {}, 2),
    ("Attention", [X, floats(8, 24), floats(24), MASK], {"num_heads": 2}, 1),
    ("Attention", [X, floats(8, 24), floats(24), np.array([2, 3], np.int32)], {"num_heads": 2}, 1),
    ("Attention", [X, floats(8, 24), floats(24)], {"num_heads": 4, "unidirectional": 1}, 1),
    ("MultiHeadAttention", [Q, K, V, floats(24)], {"num_heads": 2}, 1),
    ("MultiHeadAttention", [Q, K, V, None, np.ones((2, 5), np.int32)], {"num_heads": 4, "scale": 0.3}, 1),
    ("RotaryEmbedding", [floats(2, 3, 8), np.array([[0, 1, 2], [2, 3, 4]]), COS, SIN], {}, 1),
    ("RotaryEmbedding", [floats(2, 2, 3, 4), np.array([1]), COS, SIN], {"interleaved": 1}, 1),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)), ids=[f"{case[0]}-{i}" for i, case in enumerate(CASES)])
def test_an_operator(number: int) -> None:
    kind, arrays, attributes, outputs = CASES[number]
    given = {f"x{i}": a for i, a in enumerate(arrays) if a is not None}
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(arrays)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, names, results, domain="com.microsoft", **attributes)
    infos = [tensor(n, a.shape, helper.np_dtype_to_tensor_dtype(a.dtype)) for n, a in given.items()]
    kinds = [1, 6]
    proto = model([node], infos, [tensor(y, None, kinds[i]) for i, y in enumerate(results)])
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, given)
    found = graphls.onnx.load(proto)(*given.values())
    for y, wanted in zip(found if isinstance(found, tuple) else (found,), expected, strict=True):
        np.testing.assert_allclose(y.asnumpy(), wanted, rtol=1e-4, atol=2e-5)
    assert not check_gradient(Case(kind, proto, [(list(given.values()), expected)]))


def test_what_is_optimized_for_one_processor_is_refused_with_advice() -> None:
    nodes = [helper.make_node("ReorderInput", ["x"], ["y"], domain="com.microsoft.nchwc")]
    proto = model(nodes, [tensor("x", [1, 16, 4, 4])], ["y"])
    proto.opset_import.append(helper.make_opsetid("com.microsoft.nchwc", 1))
    with pytest.raises(graphls.GraphlsError, match="optimize it up to the level ORT_ENABLE_EXTENDED only"):
        graphls.onnx.load(proto)


@pytest.mark.skipif(not RECENT, reason="the kernels of this release differ")
@pytest.mark.parametrize("kind", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "MatMulNBits"])
def test_an_operator_in_float16(kind: str) -> None:
    if kind == "MatMulNBits":
        packed, scales = DRAW.integers(0, 256, (6, 2, 8)).astype(np.uint8), abs(floats(6, 2)) / 10
        shape = {"K": 32, "N": 6, "bits": 4, "block_size": 16}
        case = Operator(kind, [floats(3, 32), packed, scales], shape, constants=(1, 2)).in_half()
    else:
        arrays, attributes = next((case[1], case[2]) for case in CASES if case[0] == kind)
        case = Operator(kind, arrays, attributes).in_half()
    found = graphls.onnx.load(case.model())(*map(graphls.Tensor, case.inputs.values())).asnumpy()
    (expected,) = case.expected()
    assert found.dtype == expected.dtype == np.float16
    np.testing.assert_allclose(found.astype(np.float32), expected.astype(np.float32), rtol=4e-3, atol=4e-3)
