"""Steps on OpenVINO: their numbers, their states, and what is told where something is wrong."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir import Builder, Graph, Value, interpret, parse, verify
from graphls.ir.errors import GraphMemoryError, GraphRuntimeError, GraphTypeError
from graphls.ir.types import Type, bfloat16, float32
from graphls.primitives.primitive import f32
from graphls.runtime.lowering.writer import Writer
from graphls.runtime.openvino.runtime import has_bfloat16, load_openvino
from graphls.runtime.openvino.target import target
from tests.engine_sessions import session_on

pytest.importorskip("openvino")
F32 = np.float32
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(8, 3, 12, 12)).astype(F32), RANDOM.normal(size=(8, 5)).astype(F32)


def trained(engine: str, dtype: Any, steps: int = 4) -> tuple[list[float], dict[str, Any]]:
    """The losses of some steps of a small convolutional network, and the states behind them."""
    graphls.set_seed(3)
    net: Any = nn.SequentialCell(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, 2), nn.ReLU(),
        nn.Flatten(), nn.Dense(288, 5),
    )  # fmt: skip
    cell = nn.TrainOneStepCell(
        nn.WithLossCell(net.to_float(dtype), nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.01, 0.9)
    )
    step = graphls.compile(cell, X, Y, engine=engine)
    losses = [float(step(X, Y)) for _ in range(steps)]
    return losses, {name: p.asnumpy() for name, p in step.parameters.items()}


@pytest.mark.parametrize(("dtype", "tolerance"), [(graphls.float32, 1e-4), (graphls.bfloat16, 3e-2)], ids=str)
def test_a_network_trains_as_on_onnxruntime(dtype: Any, tolerance: float) -> None:
    (losses, states), (expected, wanted) = (trained(engine, dtype) for engine in ("openvino", "onnxruntime"))
    np.testing.assert_allclose(losses, expected, rtol=tolerance)
    assert losses[-1] < losses[0]
    for name, value in wanted.items():
        np.testing.assert_allclose(states[name], value, rtol=tolerance, atol=tolerance * np.abs(value).max())


def layers(graph: Graph) -> dict[str, set[str]]:
    """The precisions in which the kernels of a session compute, by what they are."""
    found: dict[str, set[str]] = {}
    for node in session_on("openvino", graph).first[0].compiled.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        found.setdefault(info["layerType"].value, set()).add(info["runtimePrecision"].value)
    return found


def product_and_sum(kind: Type) -> tuple[Graph, list[Any]]:
    """A product in a dtype and the sum of its squares, in float32."""
    x, w = Value("x", f32(32, 64)), Value("w", f32(64, 32))
    e = Builder()
    y = e.cast(e.matmul(e.cast(x, dtype=kind.dtype), e.cast(w, dtype=kind.dtype)), dtype=float32)
    total = e.sum(e.mul(y, y), axis=(0,))
    arrays = [RANDOM.normal(size=v.type.shape).astype(F32) for v in (x, w)]
    return verify(Graph("g", (x, w), (), tuple(e.nodes), (), (total, y))), arrays


@pytest.mark.skipif(not has_bfloat16(), reason="this processor has no products of bfloat16")
def test_products_are_bfloat16_and_all_else_is_float32() -> None:
    graph, arrays = product_and_sum(Type(bfloat16))
    kernels = layers(graph)
    assert kernels["MatMul"] == {"bf16"} and kernels["Reduce"] == {"f32"}
    assert layers(product_and_sum(Type(float32))[0])["MatMul"] == {"f32"}
    total, y = session_on("openvino", graph).run(arrays)
    np.testing.assert_allclose(y, interpret(graph, arrays)[0][1], rtol=2**-7, atol=1e-5)
    np.testing.assert_allclose(total, np.sum(y * y, axis=0), rtol=1e-6)
    assert np.array_equal(y, y.astype(bfloat16.numpy).astype(F32)), "the product is rounded where the graph rounds"


def test_float32_is_float32() -> None:
    graph, arrays = product_and_sum(Type(float32))
    _, y = session_on("openvino", graph).run(arrays)
    np.testing.assert_allclose(y, arrays[0].astype(float) @ arrays[1].astype(float), rtol=1e-4, atol=1e-5)


def test_nan_is_kept() -> None:
    def special(x: Any, y: Any) -> Any:
        extremes = ops.maximum(x, y), ops.minimum(x, y), ops.reduce_max(x)
        return *extremes, ops.relu(x), ops.exp(x), x > y, x >= y, x.isnan()

    x, y = np.array([np.nan, 1, np.nan, -np.inf], F32), np.array([1, np.nan, np.nan, 2], F32)
    arrays = x, y
    found = graphls.compile(special, *arrays, engine="openvino")(*arrays)
    wanted = graphls.compile(special, *arrays)(*arrays)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)


def test_steps_share_states_with_other_engines() -> None:
    weight = graphls.Parameter(np.zeros(3, F32), name="weight")

    class Count(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def construct(self, x: Any) -> Any:
            self.weight = self.weight + x
            return self.weight * 2

    cell = Count()
    steps = [graphls.compile(cell, F32(1), engine=name) for name in ("openvino", "onnxruntime")]
    for turn in range(6):
        assert float(steps[turn % 2](F32(1))[0]) == 2 * (turn + 1)
        assert weight.asnumpy()[1] == turn + 1
    weight.set_data(np.full(3, 10, F32))
    assert float(steps[0](F32(1))[0]) == 22


def test_results_of_earlier_steps_keep_their_values() -> None:
    step = graphls.compile(lambda x: x * 2, X, engine="openvino")
    first = step(X)
    step(X + 1)
    np.testing.assert_array_equal(first.asnumpy(), X * 2)


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(GraphRuntimeError, match=r"OpenVINO is not installed .* run pip install"):
        load_openvino()


@pytest.mark.parametrize("total", [True, False])
def test_a_step_that_no_memory_holds_says_so(total: bool) -> None:
    def large(x: Any) -> Any:
        rows = ops.exp(ops.broadcast_to(x, (2**20, 2**20)))
        return ops.sum(rows) if total else rows

    one = np.ones((1, 1), F32)
    with pytest.raises(GraphMemoryError, match="too small for this step; give smaller sizes"):
        graphls.compile(large, one, engine="openvino")(one)


def test_attributes_that_no_operator_has_are_an_error_where_it_has_another_form() -> None:
    e = Writer("main", target())
    x = e.add_parameter("x", Type(float32, (2,)))
    with pytest.raises(GraphTypeError, match="Unrecognized attribute: axis for operator Relu"):
        e.operator("Relu", [x], {"axis": 3})
    with pytest.raises(GraphTypeError, match=r"Relu cannot have an attribute 'axis' of \{\}"):
        e.operator("Relu", [x], {"axis": {}})


def picked(kind: str) -> Any:
    count = graphls.Parameter(np.zeros((), F32), name="count")

    def gather(x: Any, i: Any) -> Any:
        return ops.assign_add(count, 1.0) + ops.gather(x, i, 0)

    def scattered(x: Any, i: Any) -> Any:
        return ops.assign_add(count, 1.0) + ops.tensor_scatter_elements(x, i, x[:2], 0, "add")

    return count, {"gather": gather, "scatter": scattered}[kind]


@pytest.mark.parametrize("kind", ["gather", "scatter"])
@pytest.mark.parametrize("wrong", [4, -5, 2**24 + 1, -(2**31)])
def test_an_index_out_of_range_changes_nothing(kind: str, wrong: int) -> None:
    x, good, bad = np.arange(4, dtype=F32), np.array([0, -4], np.int32), np.array([0, wrong], np.int32)
    count, function = picked(kind)
    step = graphls.compile(function, x, good, engine="openvino")
    with pytest.raises(GraphRuntimeError, match=r"out of range for an axis of size 4.*test_session.py"):
        step(x, bad)
    assert float(count) == 0.0
    wanted = graphls.compile(picked(kind)[1], x, good)(x, good)
    np.testing.assert_array_equal(step(x, good).asnumpy(), wanted.asnumpy())
    assert float(count) == 1.0


def test_inputs_that_are_converted_live_as_long_as_the_step_reads_them() -> None:
    function = lambda a, b: a + b  # noqa: E731
    arrays = [RANDOM.normal(size=(2, 4)).astype(bfloat16.numpy) for _ in range(2)]
    found = graphls.compile(function, *arrays, engine="openvino")(*arrays)
    np.testing.assert_array_equal(found.asnumpy().astype(F32), (arrays[0] + arrays[1]).astype(F32))


def test_what_nobody_needs_is_in_no_segment() -> None:
    graph = parse(
        """graph @dead(%x: f32[3]) {
          %y = exp(%x) : f32[3]
          %half = cast(%y) {dtype=f16} : f16[3]
          %wide = cast(%half) {dtype=f32} : f32[3]
          %z = add(%y, %x) : f32[3]
          return %z
        }"""
    )
    session = session_on("openvino", graph)
    assert [part.graph.nodes[0].primitive.name for part in session.first] == ["exp"]
    np.testing.assert_allclose(session.run([np.zeros(3, F32)])[0], np.ones(3), rtol=1e-6)


def test_one_element_that_is_joined_with_itself() -> None:
    def function(x: Any) -> Any:
        y = ops.concat((x, x), 0)
        return ops.relu(y) + ops.exp(-ops.abs(y))

    x = np.array([-3.5], F32)
    np.testing.assert_allclose(graphls.compile(function, x, engine="openvino")(x).asnumpy(), np.exp([-3.5] * 2), 1e-6)


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_integers_are_compared_to_the_last_digit(compare: Callable[[Any, Any], Any]) -> None:
    x = RANDOM.integers(-(2**31), 2**31 - 2, 200).astype(np.int32)
    y = np.where(RANDOM.random(200) < 0.5, x + RANDOM.integers(0, 2, 200), RANDOM.permutation(x)).astype(np.int32)
    step = graphls.compile(compare, x, y, engine="openvino")
    assert [segment.engine for segment in step.plan.segments] == ["openvino"]
    np.testing.assert_array_equal(step(x, y).asnumpy(), compare(x, y))


@pytest.mark.parametrize("axis", [0, -2])
def test_rows_that_are_joined_do_not_cut_a_step(axis: int) -> None:
    def function(x: Any) -> Any:
        y = ops.concat((x, x, ops.sin(x)), axis)
        return ops.relu(y) + ops.exp(-ops.abs(y))

    x = RANDOM.normal(size=(2, 1, 3) if axis else (1, 3, 2)).astype(F32)
    step = graphls.compile(function, x, engine="openvino")
    assert [segment.engine for segment in step.plan.segments] == ["openvino"]
    np.testing.assert_allclose(step(x).asnumpy(), graphls.compile(function, x)(x).asnumpy(), 1e-6)


def test_an_input_may_be_read_only() -> None:
    x = np.arange(4, dtype=F32)
    x.flags.writeable = False
    np.testing.assert_array_equal(graphls.compile(lambda x: x + 1, x, engine="openvino")(x).asnumpy(), x + 1)


def test_what_an_earlier_segment_writes_stays_where_an_index_is_out_of_range() -> None:
    count = graphls.Parameter(np.zeros((), np.int32), name="count")

    def function(x: Any, i: Any) -> Any:
        return ops.gather(x, i, 0) * ops.cast(ops.assign_add(count, 1) % 2, graphls.float32)

    x, good = np.arange(4, dtype=F32), np.array([0], np.int32)
    step = graphls.compile(function, x, good, engine="openvino")
    assert [segment.engine for segment in step.plan.segments] == ["onnxruntime", "openvino"]
    with pytest.raises(GraphRuntimeError, match=r"out of range for an axis of size 4.*test_session.py"):
        step(x, good + 4)
    assert int(count) == 0


def test_quotients_are_rounded_once() -> None:
    x = np.arange(1, 400, dtype=F32)
    step = graphls.compile(lambda x, d: (ops.floor(x / d), x / d), x, F32(41), engine="openvino")
    for a, b in zip(step(x, F32(41)), (x // F32(41), x / F32(41)), strict=True):
        np.testing.assert_array_equal(a.asnumpy(), b)


def test_a_sum_is_divided_by_a_constant() -> None:
    x = RANDOM.normal(size=(4, 3, 3)).astype(F32)
    step = graphls.compile(lambda x: ops.sum(ops.relu(x), (1, 2)) / 3.0, x, engine="openvino")
    np.testing.assert_allclose(step(x).asnumpy(), np.maximum(x, 0).sum((1, 2)) / 3, rtol=1e-6)


def test_a_constant_is_divided_by_what_a_reduction_gives() -> None:
    x = RANDOM.normal(size=(4, 3, 2, 2)).astype(F32)

    def scaled(x: Any) -> Any:
        root = ops.sqrt(ops.mean(x * x, (0, 2, 3), keep_dims=True) + 1e-5)
        return x * ops.rsqrt(ops.mean(x * x, (0, 2, 3), keep_dims=True)), 3.0 / root, ops.full((1, 3, 1, 1), 2.0) / root

    found, wanted = (graphls.compile(scaled, x, engine=name)(x) for name in ("openvino", "onnxruntime"))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.asnumpy(), b.asnumpy(), rtol=1e-6)


@pytest.mark.parametrize("kind", [float32, bfloat16], ids=str)
def test_a_product_is_one_kernel(kind: Any) -> None:
    if kind is bfloat16 and not has_bfloat16():
        pytest.skip("this processor has no products of bfloat16")
    x, w = Value("x", f32(32, 64)), Value("w", f32(64, 64))
    e = Builder()
    low = e.cast(w, dtype=kind)
    y = e.cast(e.matmul(e.matmul(e.cast(x, dtype=kind), low), low, transpose_b=True), dtype=float32)
    graph = verify(Graph("g", (x, w), (), tuple(e.nodes), (), (y,)))
    model = session_on("openvino", graph).first[0].compiled.get_runtime_model()
    kinds = [node.get_rt_info()["layerType"].value for node in model.get_ordered_ops()]
    casts = 3 if kind is bfloat16 else 0
    assert len(kinds) == 3 + 2 + casts, "two inputs and the result, two products, and casts"


@pytest.mark.parametrize("dtype", [graphls.int32, float32], ids=str)
def test_a_constant_is_a_result_and_two_states(dtype: Any) -> None:
    class Counting(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = (graphls.Parameter(graphls.Tensor(3, dtype), name=name) for name in "ab")

        def construct(self, x: Any) -> Any:
            self.first = 4
            self.second = 4
            return x * 2.0, self.first

    cell, x = Counting(), np.ones(2, F32)
    step = graphls.compile(cell, x, engine="openvino")
    for _ in range(2):
        assert [y.tolist() for y in step(x)] == [[2, 2], 4]
        assert (float(cell.first), float(cell.second)) == (4, 4)
