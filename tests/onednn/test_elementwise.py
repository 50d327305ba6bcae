"""Elementwise kernels: every function, broadcast and tree of nodes gives what NumPy gives, in one kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphls
from graphls import ops
from graphls.ir import Builder, Graph, Names, Type, Value, interpret, verify
from graphls.ir.types import float32
from graphls.passes.schedule.partition import Partition
from graphls.runtime.onednn.binding import Attributes, Descriptor, Memory, Primitive, Role, arguments
from graphls.runtime.onednn.elementwise.algorithms import ABS, ADD, SUB
from graphls.runtime.onednn.elementwise.expressions import NAMES
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.part import OnednnPart
from graphls.runtime.onednn.rules import takes
from graphls.runtime.plan import PlanSession

Array = np.ndarray[Any, Any]

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, 3.0, -7.25, 1e-30, -1e30], np.float32)
UNARY = sorted(
    {"abs", "exp", "neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sqrt", "square", "tanh"} & NAMES
)
BINARY = sorted({"add", "sub", "mul", "div", "maximum", "minimum", "relu_gradient"} & NAMES)
SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple)


def run(graph: Graph, arrays: Sequence[Array]) -> tuple[list[Array], int]:
    """The results of a graph that is one segment of the engine, and how many elementwise kernels compute them."""
    assert all(map(takes, graph.nodes)), [n.primitive.name for n in graph.nodes if not takes(n)]
    session = PlanSession(Partition("onednn").run(graph), {})
    (part,) = session.first
    assert isinstance(part, OnednnPart)
    count = sum(call.kind == "elementwise" for call in part.program.calls)
    return [np.asarray(r) for r in session.run(arrays)], count


def graph_of(build: Callable[..., Any], shapes: Sequence[tuple[int, ...]]) -> Graph:
    """The graph of a function of the builder and values of these shapes."""
    values = tuple(Value(f"x{i}", Type(float32, shape)) for i, shape in enumerate(shapes))
    builder = Builder(Names([v.name for v in values]))
    results = build(builder, *values)
    results = results if isinstance(results, tuple) else (results,)
    return verify(Graph("elementwise", values, (), tuple(builder.nodes), (), results))


def agree(build: Callable[..., Any], arrays: Sequence[Array], tolerance: float = 2e-6, least: float = 1e-37) -> int:
    """Check that the results are those of NumPy; returns how many kernels compute them."""
    graph = graph_of(build, [a.shape for a in arrays])
    with np.errstate(all="ignore"):
        expected = interpret(graph, arrays)[0]
    results, count = run(graph, arrays)
    for result, wide in zip(results, expected, strict=True):
        assert result.shape == wide.shape and result.dtype == wide.dtype
        np.testing.assert_allclose(result, wide, rtol=tolerance, atol=least)
    return count


def drawn(rng: np.random.Generator, shape: tuple[int, ...], is_special: bool) -> Array:
    array = rng.normal(0, 3, shape).astype(np.float32)
    if is_special:
        array = np.where(rng.random(shape) < 0.5, rng.choice(SPECIAL, shape), array)
    return array.astype(np.float32)


@st.composite
def broadcast(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to another one."""
    sizes = tuple(draw(st.sampled_from((size, 1))) for size in shape)
    return sizes[draw(st.integers(0, len(sizes))) :]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(UNARY), SHAPES, st.integers(0, 99), st.booleans())
def test_functions(name: str, shape: tuple[int, ...], seed: int, is_special: bool) -> None:
    x = drawn(np.random.default_rng(seed), shape, is_special)
    assert agree(lambda e, x: getattr(e, name)(x), [x]) == 1


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(BINARY), SHAPES, st.integers(0, 99), st.booleans(), st.data())
def test_operations_broadcast(
    name: str, shape: tuple[int, ...], seed: int, is_special: bool, data: st.DataObject
) -> None:  # fmt: skip
    shapes = [shape, data.draw(broadcast(shape))]
    if data.draw(st.booleans()):
        shapes.reverse()
    elif data.draw(st.booleans()):
        shapes = [data.draw(broadcast(shape)), data.draw(broadcast(shape))]
    rng = np.random.default_rng(seed)
    arrays = [drawn(rng, s, is_special) for s in shapes]
    graph = graph_of(lambda e, x, y: getattr(e, name)(x, y), [a.shape for a in arrays])
    if takes(graph.nodes[0]):  # others run elsewhere
        assert agree(lambda e, x, y: getattr(e, name)(x, y), arrays) >= 1


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", [((4, 6), (4, 6)), ((4, 6), (6,)), ((4, 6), (4, 1)), ((2, 3, 4, 5), (1, 3, 1, 1))])
def test_common_broadcasts_are_taken(name: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    for order in (shapes, shapes[::-1]):
        if name != "relu_gradient" or order[1] == max(shapes, key=np.prod):
            rng = np.random.default_rng(1)
            agree(lambda e, x, y: getattr(e, name)(x, y), [drawn(rng, s, True) for s in order])


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_both_operands_may_be_broadcast(name: str) -> None:
    x, y = (drawn(np.random.default_rng(i), s, True) for i, s in enumerate(((5, 1, 7), (1, 6, 1))))
    agree(lambda e, x, y: getattr(e, name)(x, y), [x, y])


@pytest.mark.parametrize(("low", "high"), [(0.0, 6.0), (-1.5, 2.0), (-np.inf, 0.0)])
def test_numbers_between_two_others(low: float, high: float) -> None:
    x = drawn(np.random.default_rng(0), (9, 11), True)
    assert agree(lambda e, x: e.minimum(e.maximum(x, low), high), [x]) == 2
    assert agree(lambda e, x: e.mul(e.maximum(low, x), 2.0), [x]) == 1


def momentum(e: Builder, m: Value, g: Value, w: Value, rate: Value, mu: Value) -> tuple[Value, Value]:
    new = e.add(e.mul(m, mu), g)
    return new, e.sub(w, e.mul(new, rate))


def decayed_momentum(e: Builder, m: Value, g: Value, w: Value, rate: Value, mu: Value) -> tuple[Value, Value]:
    return momentum(e, m, e.add(g, e.mul(w, 0.01)), w, rate, mu)


def adam(e: Builder, m: Value, g: Value, w: Value, rate: Value, scale: Value, v: Value) -> tuple[Value, ...]:
    g = e.mul(g, scale)
    m = e.add(e.mul(m, 0.9), e.mul(g, 0.1))
    v = e.add(e.mul(v, 0.999), e.mul(e.square(g), 0.001))
    return m, v, e.sub(w, e.div(e.mul(m, rate), e.add(e.sqrt(v), 1e-8)))


@pytest.mark.parametrize(("update", "count"), [(momentum, 2), (decayed_momentum, 2), (adam, 3)])
@pytest.mark.parametrize("shape", [(64, 33), (5,), (1,), (), (3, 4, 1, 1)])
def test_an_update_is_one_kernel_for_each_state(
    update: Callable[..., Any], count: int, shape: tuple[int, ...]
) -> None:  # fmt: skip
    rng = np.random.default_rng(3)
    m, g, w, v = (rng.normal(size=shape).astype(np.float32) for _ in range(4))
    arrays = [m, g, w, np.float32(0.1), np.float32(0.5), np.abs(v)]
    arrays = list(map(np.asarray, arrays[:6] if update is adam else arrays[:5]))
    kernels = agree(update, arrays, least=1e-6)
    assert kernels == count or shape in ((), (1,))


def test_factors_that_are_zero_in_this_step_are_right() -> None:
    m, g, w = (drawn(np.random.default_rng(i), (8, 3), False) for i in range(3))
    agree(momentum, [m, g, w, np.zeros((), np.float32), np.zeros((), np.float32)])


@pytest.mark.parametrize("number", [1e-30, 1e30, 0.0, np.inf, -0.0])
def test_extreme_numbers(number: float) -> None:
    x, y = (drawn(np.random.default_rng(i), (7, 5), True) for i in range(2))
    agree(lambda e, x, y: e.add(e.mul(e.square(x), number), e.mul(y, number)), [x, y])
    agree(lambda e, x, y: e.sub(e.square(y), e.add(e.mul(x, number), number)), [x, y])
    agree(lambda e, x, y: e.div(number, e.div(x, 3.0)), [x, y])


TREES = st.recursive(
    st.sampled_from(["x", "y", "b", "r", 2.0, -0.3]),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["abs", "neg", "square", "tanh", "sigmoid", "relu"]), inner),
        st.tuples(st.sampled_from(["add", "sub", "mul", "maximum", "relu_gradient"]), inner, inner),
    ),
    max_leaves=12,
)
SIZES = {"x": (3, 4, 5), "y": (3, 4, 5), "b": (4, 1), "r": ()}


def built(e: Builder, tree: Any, leaves: dict[str, Value]) -> Any:
    if isinstance(tree, tuple):
        operands = [built(e, operand, leaves) for operand in tree[1:]]
        return getattr(e, tree[0])(*operands) if any(isinstance(o, Value) for o in operands) else operands[0]
    return leaves[tree] if isinstance(tree, str) else tree


@settings(max_examples=150, deadline=None)
@given(TREES, TREES, st.integers(0, 99))
def test_trees(first: Any, second: Any, seed: int) -> None:
    def build(e: Builder, *values: Value) -> tuple[Value, ...]:
        leaves = dict(zip(SIZES, values, strict=True))
        results = (built(e, ("add", tree, "x"), leaves) for tree in (first, second))
        return tuple(e.add(result, leaves["y"]) for result in results)

    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(0.5, 1.5, shape).astype(np.float32) for shape in SIZES.values()]
    graph = graph_of(build, [a.shape for a in arrays])
    if all(map(takes, graph.nodes)):
        expected = interpret(graph, arrays)[0]
        for result, wide in zip(run(graph, arrays)[0], expected, strict=True):
            np.testing.assert_allclose(result, wide, rtol=1e-4, atol=1e-4 * np.abs(wide).max())


CLIPPED = {
    "relu6": lambda x: ops.relu6(x * 1.0) * 3.0,
    "clamp": lambda x: ops.clamp(x * 1.0, -1.0, 2.0) * 3.0,
    "below": lambda x: ops.minimum(x * 1.0, -1.0) * 3.0,
    "above": lambda x: ops.maximum(1.0, x * 1.0) * 3.0,
}


@pytest.mark.parametrize("name", CLIPPED)
def test_gradients_of_clipped_numbers_are_one_kernel(name: str) -> None:
    values = [-np.inf, -7.0, -1.0, -1e-20, 0.0, 1e-20, 1.0, 2.0, 5.999999, 6.0, 6.000001, np.inf, np.nan]
    x = np.array([values, values[::-1]] * 3, np.float32)
    g = np.random.default_rng(0).normal(size=x.shape).astype(np.float32)

    def gradient(x: Any, g: Any) -> Any:
        return graphls.grad(lambda x: ops.sum(CLIPPED[name](x) * g))(x)

    step = graphls.compile(gradient, x, g, engine="onednn")
    expected = graphls.compile(gradient, x, g, engine="onnxruntime")(x, g).asnumpy()
    np.testing.assert_allclose(step(x, g).asnumpy(), expected, rtol=2e-6)
    (part,) = (part for part in step._session.first if isinstance(part, OnednnPart))
    kinds = [call.kind for call in part.program.calls]
    assert kinds.count("elementwise") <= 3 and not {"less", "greater", "where"} & {*kinds}


ACTIVATIONS = {
    "gelu": lambda x: ops.gelu(x, approximate="tanh"),
    "exact gelu": lambda x: ops.gelu(x, approximate="none"),
    "silu": ops.silu,
    "leaky": lambda x: ops.leaky_relu(x, 0.2),
}


@pytest.mark.parametrize("shape", [(40, 33), (2, 3, 5, 7), (13,)])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_are_one_kernel_in_each_direction(name: str, shape: tuple[int, ...]) -> None:
    def both(x: Any, g: Any) -> Any:
        y, slope = graphls.value_and_grad(lambda x: ops.sum(ACTIVATIONS[name](x) * g))(x)
        return ACTIVATIONS[name](x), y, slope

    rng = np.random.default_rng(0)
    x, g = (rng.normal(0, 3, shape).astype(np.float32) for _ in range(2))
    x.flat[:6] = -np.inf, np.nan, 0.0, -0.0, 30.0, 2.0 if name == "exact gelu" else np.inf
    step = graphls.compile(both, x, g, engine="onednn")
    expected = graphls.compile(both, x, g, engine="onnxruntime")(x, g)
    for result, wide in zip(step(x, g), expected, strict=True):
        np.testing.assert_allclose(result.asnumpy(), wide.asnumpy(), rtol=1e-5, atol=5e-6)
    (part,) = (part for part in step._session.first if isinstance(part, OnednnPart))
    kinds = [call.kind for call in part.program.calls if call.kind != "reorder"]
    assert kinds.count("elementwise") + kinds.count("activation, gradient") <= 3, kinds


@pytest.mark.parametrize("place", [Role.SOURCE, Role.SOURCE_1, Role.POST_OPERATION * 2 | Role.SOURCE_1])
@pytest.mark.parametrize("shape", [(1,), (7,), (1000,), (100_003,), (3, 5, 7, 2)])
def test_the_result_may_take_over_the_memory_of_an_operand(place: int, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, y, z, result = (rng.normal(size=shape).astype(np.float32) for _ in range(4))
    factors = np.float32([0.9]), np.float32([0.1])
    expected = np.abs(x * factors[0] - y * factors[1]) + z
    layout, attributes = Descriptor.plain(shape), Attributes()
    attributes.scale(Role.SOURCE)
    attributes.scale(Role.SOURCE_1)
    attributes.function(ABS, 0.0, 0.0)
    behind = attributes.binary(ADD, layout)
    kernel = Primitive("elementwise", "binary", library().engine, SUB, layout, layout, layout, attributes)
    arrays = {Role.SOURCE: x, Role.SOURCE_1: y, behind: z, Role.RESULT: result}
    arrays[Role.RESULT] = arrays[place]
    memories = {int(role): Memory(layout, array.ctypes.data) for role, array in arrays.items()}
    for role, factor in zip((Role.SOURCE, Role.SOURCE_1), factors, strict=True):
        memories[Role.SCALES | role] = Memory(Descriptor.plain((1,)), factor.ctypes.data)
    c = library().c
    assert c.dnnl_primitive_execute(kernel.handle, library().stream, len(memories), arguments(memories)) == 0
    assert not kernel.is_reference
    np.testing.assert_allclose(arrays[place], expected, rtol=1e-6, atol=1e-6)


def test_error_function() -> None:
    x = np.concatenate([np.geomspace(1e-30, 1e30, 5000), np.linspace(-5, 5, 5001), SPECIAL]).astype(np.float32)
    agree(lambda e, x: e.erf(x), [x], 5e-7)
