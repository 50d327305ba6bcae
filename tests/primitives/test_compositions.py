"""What stands in the place of operators that a GPU or an old opset has not, at the ends of what integers hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.inspect.testing.samples import run
from graphls.ir import Builder, Graph, Value, interpret, verify
from graphls.ir.types import type_of
from graphls.runtime.lowering import lower
from graphls.runtime.onnxruntime.kernel_checks import is_right

INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)


def check(name: str, *arrays: Any, **attrs: Any) -> list[str]:
    """The models for a GPU, at the oldest opset and as usual against NumPy; the operators of the first."""
    inputs = tuple(Value(f"x{i}", type_of(a)) for i, a in enumerate(arrays))
    e = Builder()
    y = getattr(e, name)(*inputs, **attrs)
    graph = verify(Graph("g", inputs, (), tuple(e.nodes), (), (y,)))
    (expected,) = interpret(graph, list(arrays))[0]
    targets: list[dict[str, Any]] = [{"device": "cuda"}, {"opset": 17}, {}]
    models = [lower(graph, kernel_is_right=is_right, **target) for target in targets]
    for lowered in models:
        (found,) = run(lowered, graph, list(arrays))
        np.testing.assert_array_equal(found, expected)
    return [node.op_type for node in models[0].model.graph.node]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_of_all_lengths_and_signs(name: str, dtype: Any) -> None:
    limits = np.iinfo(dtype)
    ends = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1, 85, limits.max // 3, limits.min // 3]
    x = np.array(ends, dtype)
    operators = check(name, x[:, None], x)
    assert not any(operator.startswith("Bitwise") for operator in operators)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["prod", "sum"])
def test_integers_wrap(name: str, dtype: Any) -> None:
    """Kernels of ONNX Runtime 1.31 give the largest number instead, and ReduceProd loses what float64 does."""
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, (3, 7, 2), dtype, endpoint=True)
    for axis in ((1,), (0, 2), None):
        check(name, x, axis=axis)
        check(name, x, axis=axis, keepdims=True)
    check(name, np.array([2**24 + 1, 3]).astype(dtype), axis=(0,))


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float16])
def test_positions_are_those_of_the_first(name: str, dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 3, (5, 4, 9)).astype(dtype)
    if x.dtype.kind == "f":
        x[0, 1, 4:6] = np.nan
        x[1] = np.inf
        x[2] = -np.inf
        x[3, 0, 3] = np.nan
    for axis in range(3):
        for keepdims in (False, True):
            operators = check(name, x, axis=axis, keepdims=keepdims)
            assert not any(operator.startswith("Arg") for operator in operators)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize(
    "bounds",
    [((1, 0), (4, 5), (1, 2)), ((0, 2), (4, 5), (3, 1)), ((2, 1), (3, 2), (1, 1)), ((0, 0), (3, 4), (2, 3))],
)
def test_integers_are_framed_by_zeros(dtype: Any, bounds: Any) -> None:
    starts, stops, steps = bounds
    shape = tuple(len(range(*each)) for each in zip(starts, stops, steps, strict=True))
    x = np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype)
    operators = check("slice_gradient", x, shape=(4, 5), starts=starts, stops=stops, steps=steps)
    assert "Pad" not in operators
