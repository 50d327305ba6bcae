"""Constants of a model that follow its open sizes, as operators that compute them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from graphls.ir.errors import GraphValueError
from graphls.runtime.lowering.dynamic_sizes import with_dynamic_sizes
from graphls.runtime.lowering.size_terms import float_formula, integer_formula

SIZES = [{"batch": 67, "length": 71}, {"batch": 73, "length": 79}, {"batch": 83, "length": 89}]


def of_size(array: Any, batch: int, length: int) -> ModelProto:
    """A model that gives an array as its constant, and takes an input of the sizes."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, length])
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    y = helper.make_tensor_value_info("y", kind, array.shape)
    node = helper.make_node("Identity", ["constant"], ["y"])
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(np.ascontiguousarray(array), "constant")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def opened(make: Callable[[int, int], Any]) -> ModelProto:
    """The model for all sizes."""
    return with_dynamic_sizes([of_size(make(*of.values()), *of.values()) for of in SIZES], SIZES)


ARRAYS: dict[str, Callable[[int, int], Any]] = {
    "shapes": lambda b, n: np.array([b, -1, n * 3, b * n, n + 1, 7, n * n, b * (n + 1), (b - 1) * (n + 2)]),
    "a number": lambda b, n: np.array(b * n),
    "means": lambda b, n: np.float32([1 / b, 0.5 / (b * n), 1 / (n + 1), 0.25]),
    "a mean of axes": lambda b, n: np.full((1, 1), 2 / (b * n), np.float32),
    "roots": lambda b, n: np.array([n**-0.5, 3 * (b * n) ** 0.5]),
    "zeros": lambda b, n: np.zeros((b, 4, n), np.float32),
    "rows that repeat": lambda b, n: np.broadcast_to(np.float32([3, 1, 2]), (b, 3)),
    "positions": lambda b, n: np.arange(n)[None, :] + 2,
    "positions backwards": lambda b, n: np.broadcast_to(np.arange(n, 0, -1, np.int32), (b, n)),
    "places in a flat array": lambda b, n: np.arange(b * n).reshape(b, 1, n),
    "positions as floats": lambda b, n: np.arange(0, 2 * n, 2, np.float32),
    "differences of positions": lambda b, n: np.arange(n)[:, None] - np.arange(n),
    "a causal mask": lambda b, n: np.tril(np.ones((1, 1, n, n), bool)),
    "its opposite": lambda b, n: np.triu(np.ones((n, n), bool), 1),
    "a strict mask": lambda b, n: np.tril(np.ones((n, n), np.float32), -2),
    "a wide mask": lambda b, n: np.broadcast_to(np.where(np.tri(n, k=3), np.float32(0), -np.float32(np.inf)),
                                                (b, n, n)),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_a_constant_follows_the_sizes(name: str) -> None:
    model = opened(ARRAYS[name])
    assert [dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim] == ["batch", "length"]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for batch, length in ((1, 2), (4, 1), (3, 8), (100, 33)):
        expected = ARRAYS[name](batch, length)
        (found,) = session.run(None, {"x": np.zeros((batch, length), np.float32)})
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_equal_constants_stay() -> None:
    model = opened(lambda b, n: np.arange(300, dtype=np.float32))
    assert [node.op_type for node in model.graph.node] == ["Identity"]


@pytest.mark.parametrize("make", [lambda b, n: np.sin(np.arange(n)), lambda b, n: np.array([b // 2]),
                                  lambda b, n: np.sin(np.arange(100.0) * b)])  # fmt: skip
def test_what_no_formula_gives_is_an_error(make: Callable[[int, int], Any]) -> None:
    with pytest.raises(GraphValueError, match="The sizes batch, length cannot stay open: Identity"):
        opened(make)


def test_other_operators_are_an_error() -> None:
    models = [of_size(np.zeros(1), *of.values()) for of in SIZES]
    models[2].graph.node[0].op_type = "Neg"
    with pytest.raises(GraphValueError, match="the operators differ"):
        with_dynamic_sizes(models, SIZES)
    models[2].graph.node.add(op_type="Abs", input=["y"], output=["z"])
    with pytest.raises(GraphValueError, match="has 1 and 1 and 2 operators"):
        with_dynamic_sizes(models, SIZES)


def test_formulas_are_the_simplest_ones() -> None:
    found = integer_formula([of["batch"] * of["length"] for of in SIZES], SIZES)
    assert found is not None and found.scale == 1
    assert [factor.names for factor in found.term.factors] == [("batch",), ("length",)]
    assert integer_formula([of["length"] for of in SIZES], SIZES).size == "length"  # type: ignore[union-attr]
    assert float_formula([0.0, 1.0, 2.0], SIZES) is None
