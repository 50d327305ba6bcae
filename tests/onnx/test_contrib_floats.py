"""Float operators of com.microsoft: ONNX Runtime's kernels, or NumPy for those that only GPUs have; gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

import graphls
import graphls.onnx
from tests.onnx.contrib_cases import RECENT, Operator
from tests.onnx.node_tests import Case, check_gradient

DRAW = np.random.default_rng(13)


def floats(*shape: int) -> Any:
    return DRAW.normal(size=shape).astype(np.float32)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def on_cpus() -> Iterator[Operator]:
    """Operators with a kernel for CPUs."""
    x = floats(2, 3, 4)
    yield Operator("ExpandDims", [x, np.array(1, np.int32)], constants=(1,))
    yield Operator("ExpandDims", [x, np.array(-1, np.int32)], constants=(1,))
    yield Operator("GatherND", [x, np.array([[0, 1], [1, 2]], np.int64)])
    yield Operator("Inverse", [floats(2, 3, 3) + 3 * np.eye(3, dtype=np.float32)])
    yield Operator("Pad", [x, np.array([0, 1, 0, 0, 0, 2]), np.array([0.5], np.float32)], constants=(1,))
    for upper, k in product((0, 1), (-1, 1)):
        yield Operator("Trilu", [x, np.array(k)], {"upper": upper}, constants=(1,))
    yield Operator("Range", [np.array(n, np.float32) for n in (1, 4, 0.5)], constants=(0, 1, 2))
    yield Operator("Range", [np.array(n, np.float32) for n in (1, 4)], constants=(0, 1))
    yield Operator("UnfoldTensor", [floats(2, 7, 3)], {"dim": 1, "size": 3, "step": 2})
    for metric in ("euclidean", "sqeuclidean"):
        yield Operator("CDist", [floats(3, 4), floats(5, 4)], {"metric": metric})
    for align, mode in product((0, 1), ("bilinear", "nearest")):
        attributes = {"align_corners": align, "mode": mode}
        yield Operator("GridSample", [floats(1, 2, 5, 4), floats(1, 3, 3, 2) / 2], attributes)
    yield Operator("GatedAdd", [x, floats(2, 3, 4), floats(2, 3, 1)])
    yield Operator("ScaledSiLU", [x], {"alpha": 1.7})
    yield Operator("ScaledSiLU", [x, np.array(0.6, np.float32)])
    for activation in ("silu", "swish", "sigmoid"):
        operands = [floats(2, 3, 8), floats(4), floats(2, 3, 8)]
        yield Operator("GatedRMSNorm", operands, {"activation": activation, "epsilon": 1e-3})
    for shape in ((4,), (3, 4), (12,)):
        yield Operator("BranchwiseRMSNorm", [floats(2, 3, 4), floats(*shape)], {"epsilon": 1e-3})
        yield Operator("BranchwiseRMSNorm", [floats(2, 12), floats(*shape)], {"num_branches": 3, "epsilon": 1e-3})


def on_gpus() -> Iterator[tuple[Operator, Any]]:
    """Operators without a kernel for CPUs, with NumPy's results."""
    x, bias = floats(2, 3, 4), floats(4)
    yield Operator("BiasAdd", [x, bias, floats(2, 3, 4)]), lambda x, b, s: x + b + s

    def gelu(x: Any) -> Any:
        return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2

    yield Operator("BiasSplitGelu", [x, bias]), lambda x, b: (x + b)[..., :2] * gelu((x + b)[..., 2:])
    yield Operator("GemmFastGelu", [x, floats(4, 5), floats(5)]), lambda x, w, b: gelu(x @ w + b)
    yield Operator("IsAllFinite", [x, bias]), lambda *xs: np.array(True)
    yield Operator("IsAllFinite", [x, np.full(4, np.inf, np.float32)], {"isnan_only": 1}), lambda *xs: np.array(True)
    yield Operator("IsAllFinite", [x, np.full(4, np.inf, np.float32)]), lambda *xs: np.array(False)
    yield Operator("BiasDropout", [x, bias, floats(2, 3, 4)]), lambda x, b, r: x + b + r

    def dense(x: Any, w: Any, b: Any) -> Any:
        return np.einsum("nijc,oc->nijo", x, w[:, 0, 0]) + b

    yield Operator("NhwcConv", [floats(2, 3, 5, 4), floats(6, 1, 1, 4), floats(6)]), dense

    def distances(table: Any, *sizes: Any, both: int) -> Any:
        biases = np.zeros((1, 2, 9, 9))
        for i, j in product(range(9), range(9)):
            count, start, apart = 8, 0, i - j
            if both:
                count, start, apart = 4, 4 * (j > i), abs(apart)
            apart = max(apart, 0)
            bucket = apart
            if apart >= count // 2:
                share = math.log(apart / (count // 2)) / math.log(6 / (count // 2))
                bucket = min(count // 2 + int(share * (count - count // 2)), count - 1)
            biases[0, :, i, j] = table.reshape(2, 8)[:, start + bucket]
        return biases

    for both in (0, 1):
        attributes = {"max_distance": 6, "is_bidirectional": both}
        case = Operator("RelativePositionBias", [floats(8, 2), *[np.array([9])] * 2], attributes, constants=(1, 2))
        yield case, partial(distances, both=both)

    def soft(x: Any) -> Any:
        y = np.exp(x - x.max(-1, keepdims=True))
        return y / y.sum(-1, keepdims=True)

    inner = {"axis": 2, "is_inner_broadcast": 1}
    yield Operator("BiasSoftmax", [floats(2, 3, 4), floats(2, 1, 4)], inner), lambda x, b: soft(x + b)
    outer = {"axis": 2, "is_inner_broadcast": 0}
    yield Operator("BiasSoftmax", [floats(2, 3, 4), floats(3, 4)], outer), lambda x, b: soft(x + b)
    for last, activation in product((0, 1), (0, 1)):

        def normal(x: Any, gamma: Any, beta: Any, last: int = last, activation: int = activation) -> Any:
            x = np.moveaxis(x, -1, 1) if last else x
            rows = x.reshape(2, 2, -1)
            y = ((rows - rows.mean(-1, keepdims=True)) / np.sqrt(rows.var(-1, keepdims=True) + 1e-5)).reshape(x.shape)
            y = y * gamma.reshape(1, -1, 1, 1) + beta.reshape(1, -1, 1, 1)
            y = y * sigmoid(y) if activation else y
            return np.moveaxis(y, 1, -1) if last else y

        attributes = {"groups": 2, "activation": activation, "channels_last": last}
        image = floats(2, 3, 5, 4) if last else floats(2, 4, 3, 5)
        yield Operator("GroupNorm", [image, floats(4), floats(4)], attributes), normal
        where = (slice(None), None, None) if last else (slice(None), slice(None), None, None)

        def skipped(x: Any, g: Any, b: Any, skip: Any, where: Any = where, normal: Any = normal) -> Any:
            return normal(x + skip[where], g, b)

        yield Operator("SkipGroupNorm", [image, floats(4), floats(4), floats(2, 4)], attributes), skipped


def results(case: Operator) -> list[Any]:
    arrays = list(case.inputs.values())
    found = graphls.compile(graphls.onnx.load(case.model()), *arrays, backend="numpy")(*arrays)
    return [y.asnumpy() for y in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.skipif(not RECENT, reason="the kernels of this release differ")
def test_operators_give_what_onnx_runtime_gives() -> None:
    for case in on_cpus():
        for found, wanted in zip(results(case), case.expected(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5, err_msg=str(case))


def test_operators_of_gpus_give_what_numpy_gives() -> None:
    for case, function in on_gpus():
        tolerance = 2e-3 if case.kind == "GemmFastGelu" else 1e-5  # which has the formula with tanh
        expected = function(*case.arrays)
        np.testing.assert_allclose(results(case)[0], expected, rtol=1e-4, atol=tolerance, err_msg=str(case))


def test_gradients() -> None:
    chosen = {case.kind: case for case in (*on_cpus(), *(case for case, _ in on_gpus()))}
    for kind in ("BranchwiseRMSNorm", "GatedRMSNorm", "SkipGroupNorm", "CDist", "Inverse", "BiasSoftmax", "ScaledSiLU"):
        case = chosen[kind]
        assert not check_gradient(Case(kind, case.model(), [(list(case.inputs.values()), [])])), kind
