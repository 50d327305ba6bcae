"""Products of float8 as such: which ones, the numbers of the interpreter, and what a placement says of them.

No kernel of a card runs here: GemmFloat8 is that of `tests/networks/kernels.py`, with the meaning that ONNX Runtime's
documentation gives it, and XLA computes products of float8 on a CPU as well.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import amp, nn
from graphls.ir import Builder, DType, Graph, Type, Value, interpret, verify
from graphls.ir.build import Names
from graphls.ir.graph import walk
from graphls.ir.types import bfloat16, float8_e4m3fn, float8_e5m2, float16, float32, type_of
from graphls.runtime.low_products import low_products, multiplies_float8, with_scaled_products
from graphls.runtime.lowering import Lowered, lower
from graphls.runtime.onnxruntime.model import Model
from graphls.runtime.onnxruntime.placement import place
from tests.low_precision.steps import RECIPES, named
from tests.networks.evaluator import EvaluatedStep, Evaluator

RUNTIME = "1.31.1"
RNG = np.random.default_rng(4)
X = RNG.standard_normal((4, 16, 64)).astype(np.float32)
LABELS = RNG.integers(0, 10, 64).astype(np.int32)


def network(recipe: amp.Recipe, dtype: DType = float32) -> nn.Cell:
    """Dense layers on a batch of rows, a bias among them, and a last one whose 10 columns 16 does not divide."""
    graphls.set_seed(3)
    net = nn.SequentialCell(nn.Dense(64, 96), nn.ReLU(), nn.Dense(96, 64, has_bias=False), nn.Dense(64, 10))
    if dtype is not float32:
        amp.auto_mixed_precision(net, "O2", dtype)
    return amp.auto_mixed_precision(net, recipe)


class Loss(nn.Cell):
    def __init__(self, net: nn.Cell) -> None:
        super().__init__()
        self.net, self.loss = net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")

    def construct(self, x: Any, labels: Any) -> Any:
        return self.loss(self.net(x).astype(float32).reshape((64, 10)), labels)


def trained(recipe: amp.Recipe, dtype: DType = float32, **options: Any) -> graphls.Compiled:
    loss = Loss(network(recipe, dtype))
    return graphls.compile(
        nn.TrainOneStepCell(loss, nn.Momentum(loss.trainable_params(), 0.1, 0.9)), X, LABELS, **options
    )


def for_a_card(graph: Graph, is_right: Callable[[str, DType], bool] = lambda *_: True) -> Lowered:
    lowered = lower(graph, device="cuda", runtime=RUNTIME, kernel_is_right=is_right)
    onnx.checker.check_model(lowered.model, full_check=True)
    return lowered


def results(lowered: Lowered, arrays: list[Any]) -> list[Any]:
    """What a model gives by ONNX's reference evaluator, which rounds as a GPU does."""
    return Evaluator(lowered.model).run(list(lowered.outputs), dict(zip(lowered.inputs, arrays, strict=True)))


def native(lowered: Lowered) -> list[onnx.NodeProto]:
    return [node for node in lowered.model.graph.node if node.op_type == "GemmFloat8"]


def graph_of(build: Callable[..., Any], arrays: list[Any]) -> Graph:
    values = tuple(Value(f"x{i}", type_of(array)) for i, array in enumerate(arrays))
    e = Builder(Names({value.name for value in values}))
    result = build(e, *values)
    outputs = result if isinstance(result, tuple) else (result,)
    return verify(Graph("products", values, (), tuple(e.nodes), (), outputs))


def low(e: Builder, x: Value, dtype: DType = float8_e4m3fn, wide: DType = float32) -> Value:
    """x after a quantization by one scale, in a wider dtype."""
    block = (0,) * x.type.rank
    scale = e.div(e.constant(100.0, float32), e.absolute_maximum(x, block=block))
    quantized = e.quantize(x, scale, dtype=dtype, block=block)
    return e.dequantize(quantized, e.div(e.constant(1.0, float32), scale), dtype=wide, block=block)


def rewritten(graph: Graph) -> Graph:
    """The graph of a card that multiplies all low operands for which there is an operator."""
    native = (each for each in low_products(graph) if not each.obstacle or not each.obstacle_of_blocks)
    return with_scaled_products(graph, native).graph


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("pair", [(float8_e4m3fn, float8_e4m3fn), (float8_e5m2, float8_e4m3fn)], ids=str)
@pytest.mark.parametrize("dtype", [float32, bfloat16, float16], ids=lambda dtype: dtype.long_name)
@pytest.mark.parametrize("sizes", [(16, 64, 32), (7, 33, 10)], ids=str)
@pytest.mark.parametrize("transposes", [(False, False), (True, False), (False, True), (True, True)], ids=str)
def test_a_product_is_that_of_the_interpreter(
    pair: tuple[DType, DType], dtype: DType, sizes: tuple[int, int, int], transposes: tuple[bool, bool]
) -> None:
    (rows, inner, columns), (first, second) = sizes, transposes

    def build(e: Builder, x: Value, y: Value) -> Value:
        a, b = low(e, x, pair[0], dtype), low(e, y, pair[1], dtype)
        return e.cast(e.matmul(a, b, transpose_a=first, transpose_b=second), dtype=float32)

    arrays = [drawn(rows, inner), drawn(inner, columns)]
    arrays = [x.T.copy() if is_turned else x for x, is_turned in zip(arrays, transposes, strict=True)]
    graph = graph_of(build, arrays)
    lowered = for_a_card(graph)
    assert len(native(lowered)) == 1
    (expected,), (found,) = interpret(graph, arrays)[0], results(lowered, arrays)
    (own,) = interpret(rewritten(graph), arrays)[0]
    # Operands of 16 bits are rounded after their scales, which a product of float8 is not.
    error = {float32: 1e-6, bfloat16: 2e-2, float16: 2e-3}[dtype] * np.abs(expected).max()
    np.testing.assert_allclose(found, expected, rtol=0, atol=error)
    np.testing.assert_allclose(own, found, rtol=0, atol=1e-6 * np.abs(expected).max() if dtype is float32 else error)


def test_what_moves_an_operand_moves_it_in_float8() -> None:
    def build(e: Builder, x: Value, y: Value) -> tuple[Value, Value]:
        a, b = low(e, x), low(e, y)
        turned = e.transpose(a, permutation=(1, 0, 2))
        return e.matmul(e.reshape(turned, shape=(64, 32)), b), e.matmul(turned, b)

    arrays = [drawn(16, 4, 32), drawn(32, 48)]
    graph = graph_of(build, arrays)
    assert not named(rewritten(graph), "dequantize")
    lowered = for_a_card(graph)
    assert len(native(lowered)) == 2
    for found, expected in zip(results(lowered, arrays), interpret(graph, arrays)[0], strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_a_bias_of_16_bits_is_added_before_the_rounding() -> None:
    def build(e: Builder, x: Value, y: Value, bias: Value) -> Value:
        a, b = low(e, x, wide=bfloat16), low(e, y, wide=bfloat16)
        return e.cast(e.matmul_add(a, b, e.cast(bias, dtype=bfloat16)), dtype=float32)

    arrays = [drawn(16, 32), drawn(32, 48), drawn(48)]
    graph = graph_of(build, arrays)
    own = rewritten(graph)
    assert len(named(own, "scaled_matmul")) == 1 and not named(own, "matmul_add")
    (expected,), (found,) = interpret(graph, arrays)[0], interpret(own, arrays)[0]
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-2 * np.abs(expected).max())
    (again,) = results(for_a_card(graph), arrays)
    np.testing.assert_allclose(again, found, rtol=2**-7, atol=1e-5)


def test_products_of_branches_read_float8_of_around() -> None:
    text = """
    graph @g(%x: f32[16,32], %y: f32[32,16], %s: f32[1,1], %c: bool[]) {
      %p = quantize(%x, %s) {dtype=f8e4m3fn, block=[0, 0]} : f8e4m3fn[16,32]
      %a = dequantize(%p, %s) {dtype=f32, block=[0, 0]} : f32[16,32]
      %q = quantize(%y, %s) {dtype=f8e5m2, block=[0, 0]} : f8e5m2[32,16]
      %b = dequantize(%q, %s) {dtype=f32, block=[0, 0]} : f32[32,16]
      %z = cond(%c) : f32[16,16] region {
        %m = matmul(%a, %b) : f32[16,16]
        yield %m
      } region {
        %n = matmul(%b, %a) {transpose_a=true, transpose_b=true} : f32[16,16]
        yield %n
      }
      return %z
    }
    """
    graph = graphls.ir.parse(text)
    own = rewritten(graph)
    assert len(named(own, "scaled_matmul")) == 2 and not named(own, "dequantize")
    arrays = [drawn(16, 32), drawn(32, 16), np.full((1, 1), 2.0, np.float32)]
    for condition in (True, False):
        (expected,), (found,) = (interpret(g, [*arrays, np.array(condition)])[0] for g in (graph, own))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4)


def test_a_nan_and_an_overflow_stay_ones() -> None:
    """A scale that is not finite makes the product so, as loss scaling needs it."""
    arrays = [drawn(16, 32), drawn(32, 16)]
    graph = graph_of(lambda e, x, y: e.matmul(low(e, x), low(e, y)), arrays)
    for number in (np.nan, np.inf):
        arrays[0][3, 5] = number
        with np.errstate(all="ignore"):
            both = results(for_a_card(graph), arrays)[0], interpret(rewritten(graph), arrays)[0][0]
        assert not any(np.isfinite(found[3]).any() for found in both)


@pytest.mark.parametrize("dtype", [float32, bfloat16], ids=lambda dtype: dtype.long_name)
@pytest.mark.parametrize("recipe", ["delayed", "current"])
def test_a_training_step_is_that_of_the_interpreter(recipe: str, dtype: DType) -> None:
    step = trained(RECIPES[recipe], dtype)
    graph = step.graph
    lowered = for_a_card(graph)
    assert len(native(lowered)) == 8
    states = {name: parameter.asnumpy() for name, parameter in step.parameters.items()}
    on_a_card = EvaluatedStep(graph, lowered, states)
    share = 1e-5 if dtype is float32 else 1e-2
    for _ in range(3):
        (loss,), others = interpret(graph, [X, LABELS], dict(states))
        np.testing.assert_allclose(on_a_card(X, LABELS)[0], loss, rtol=share)
        for name, array in others.items():
            # A sum in another order may be rounded to the other neighbour, which is 25 % away in float8_e5m2.
            assert np.linalg.norm(on_a_card.states[name] - array) <= 0.05 * np.linalg.norm(array), name
        states.update(others)
        on_a_card.states.update(others)


def test_a_placement_says_which_products_are_native() -> None:
    def build(e: Builder, x: Value, y: Value) -> tuple[Value, Value]:
        a, b = low(e, x), low(e, y)
        return e.matmul(e.reshape(a, shape=(32, 32)), e.reshape(b, shape=(32, 32))), e.matmul(a, b, transpose_b=True)

    step = trained(RECIPES["current"])
    placement = step.placement(RUNTIME, "cuda")
    assert [product.is_native for product in placement.low_products] == [True] * 8
    assert all(Path(__file__).name in product.line for product in placement.low_products)
    assert str(placement).endswith("GemmFloat8 computes 8 of 8 products of low operands from float8.")
    assert not placement.elsewhere and not placement.refused
    lowered = for_a_card(graph_of(build, [drawn(2, 16, 32)] * 2))
    mixed = place(lowered.model, RUNTIME, low_products=lowered.low_products)
    assert [product.is_native for product in mixed.low_products] == [True, False]
    assert str(mixed).endswith(
        "GemmFloat8 computes 1 of 2 products of low operands from float8.\n"
        "  1 in a wider dtype: a batch of products"
    )


@pytest.mark.parametrize("recipe", ["mx", "nvfp4", "block"])
def test_a_placement_says_why_none_is_native(recipe: str) -> None:
    products = trained(RECIPES[recipe]).placement(RUNTIME, "cuda").low_products
    assert len(products) == 8 and {product.reason for product in products} == {"scales for blocks, or of low dtypes"}


def test_a_runtime_without_casts_to_float8_multiplies_wide() -> None:
    placement = trained(RECIPES["current"]).placement("1.19.2", "cuda")
    assert {product.reason for product in placement.low_products} == {"opset 18 has no Cast to float8"}


def test_a_cpu_and_a_step_without_recipes_have_no_such_lines() -> None:
    assert "GemmFloat8" not in str(trained(RECIPES["current"]).placement())
    assert "GemmFloat8" not in str(graphls.compile(nn.Dense(16, 16), drawn(16, 16)).placement(RUNTIME, "cuda"))


@pytest.mark.parametrize("recipe", [amp.MXFP8(), amp.NVFP4(), amp.NVFP4(False, False)], ids=["mx", "nvfp4", "plain"])
def test_products_of_blocks_are_those_of_the_interpreter(recipe: amp.Recipe) -> None:
    """The operands are the same numbers, of which no rounding is left out: bits differ by the order of sums alone."""
    net = amp.auto_mixed_precision(nn.Dense(64, 32), recipe)
    loss, inputs = nn.WithLossCell(net, nn.MSELoss()), [drawn(64, 64), drawn(64, 32)]
    step = graphls.compile(nn.TrainOneStepCell(loss, nn.SGD(net.trainable_params(), 0.1)), *inputs)
    graph = step.graph
    own = rewritten(graph)
    assert len(named(own, "scaled_matmul")) == len([*low_products(graph)]) == 2
    states = {name: parameter.asnumpy() for name, parameter in step.parameters.items()}
    found, expected = (interpret(g, inputs, dict(states)) for g in (own, graph))
    np.testing.assert_allclose(found[0][0], expected[0][0], rtol=1e-6)
    for name, array in expected[1].items():
        np.testing.assert_allclose(found[1][name], array, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "block", "reason"),
    [((32, 64), (1, 32), ""), ((32, 64), (16, 32), ""), ((24, 64), (16, 32), "no"), ((32, 48), (1, 32), "no"),
     ((32, 64), (1, 16), "no"), ((32, 64), (1, 0), "no"), ((32, 32), (1, 0), "no"), ((32, 64), (0, 32), "")],
    ids=str,
)  # fmt: skip
def test_blocks_that_cards_multiply(shape: tuple[int, int], block: tuple[int, int], reason: str) -> None:
    """Those of 32 along the summed axis, for any number of rows that all have as many."""

    def build(e: Builder, x: Value, y: Value) -> Value:
        operands = []
        for value, own in ((x, block), (y, (1, 32) if shape[1] % 32 == 0 else (1, 48))):
            power = e.shared_power(e.absolute_maximum(value, block=own), largest=448.0, rounds_up=True)
            scale = e.div(e.constant(1.0, float32), e.cast(power, dtype=float32))
            low = e.quantize(value, scale, dtype=float8_e4m3fn, block=own)
            operands.append(e.dequantize(low, power, dtype=float32, block=own))
        return e.matmul(*operands, transpose_b=True)

    arrays = [drawn(*shape), drawn(16, shape[1])]
    graph = graph_of(build, arrays)
    (product,) = low_products(graph)
    assert product.obstacle_of_blocks == (reason and "no blocks of MXFP8 or NVFP4")
    (found,), (expected,) = (interpret(g, arrays)[0] for g in (rewritten(graph), graph))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


def test_two_gradients_batches_and_convolutions_are_wide() -> None:
    def build(e: Builder, x: Value, y: Value, images: Value, kernels: Value) -> tuple[Value, ...]:
        gradients = e.matmul(low(e, x, float8_e5m2), low(e, x, float8_e5m2), transpose_b=True)
        batch = e.matmul(low(e, y), low(e, y), transpose_b=True)
        return gradients, batch, e.convolution(low(e, images), low(e, kernels))

    graph = graph_of(build, [drawn(16, 32), drawn(2, 16, 32), drawn(1, 16, 8, 8), drawn(16, 16, 3, 3)])
    lowered = for_a_card(graph)
    assert not native(lowered)
    assert [*lowered.low_products.values()] == [
        "operands of float8_e5m2 and float8_e5m2", "a batch of products", "no operator for a convolution"
    ]  # fmt: skip


def test_a_block_that_is_the_tensor_with_a_scale_of_8_bits_is_wide() -> None:
    def build(e: Builder, x: Value, y: Value) -> Value:
        power = e.shared_power(e.absolute_maximum(x, block=(1, 32)), largest=448.0, rounds_up=True)
        quantized = e.quantize(x, e.constant(np.ones((1, 1)), float32), dtype=float8_e4m3fn, block=(1, 32))
        return e.matmul(e.dequantize(quantized, power, dtype=float32, block=(1, 32)), low(e, y))

    graph = graph_of(build, [drawn(1, 32), drawn(32, 16)])
    assert [*for_a_card(graph).low_products.values()] == ["scales for blocks, or of low dtypes"]
    assert rewritten(graph) is graph


def test_less_exact_sums_are_those_of_the_forward() -> None:
    def is_right(operator: str, dtype: DType) -> bool:
        return operator != "GemmFloat8" or dtype is float16

    lowered = for_a_card(trained(RECIPES["current"]).graph, is_right)
    phases = {bool(reason): set[str]() for reason in lowered.low_products.values()}
    for node, reason in lowered.low_products.items():
        phases[bool(reason)].add(node.phase)
    assert phases == {False: {"forward"}, True: {"backward"}}
    assert "its sums are less exact than those of float32" in lowered.low_products.values()
    assert len(native(lowered)) == 3


def test_a_card_whose_products_are_wrong_multiplies_wide() -> None:
    lowered = for_a_card(trained(RECIPES["current"]).graph, lambda operator, dtype: operator != "GemmFloat8")
    assert not native(lowered)
    assert set(lowered.low_products.values()) <= {"GemmFloat8 gives other sums here"}


def test_a_model_for_any_runtime_has_no_operator_of_one() -> None:
    graph = trained(RECIPES["current"]).graph
    assert not native(lower(graph, device="cuda", opset=21))
    assert {node.domain for node in lower(graph, device="cuda", opset=21).model.graph.node} == {""}


def test_operators_belong_to_nodes_of_the_step() -> None:
    """So that a profile has their times, and an error the user's line."""
    graph = trained(RECIPES["current"]).graph
    lowered = for_a_card(graph)
    assert set(lowered.origins.values()) <= set(walk(graph))
    assert {lowered.origins[node.name].primitive.name for node in native(lowered)} == {"matmul"}


def test_a_cache_entry_of_another_card_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = trained(RECIPES["current"]).graph
    keys = []
    for right in (True, False):
        monkeypatch.setattr("graphls.runtime.onnxruntime.model.is_right", lambda *_, right=right, **__: right)
        model = Model(graph, graphls.Cuda(), SimpleNamespace(__version__=RUNTIME))
        keys.append(model._compiled_with())
    assert keys[0] != keys[1]


def product_of(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
    return a.astype(np.float32) @ b.astype(np.float32).T * scale_a * scale_b


def cut_off(digits: int) -> Callable[..., Any]:
    """Products that keep so many digits of a sum behind each 32 terms."""

    def multiply(a: Any, b: Any, scale_a: Any, scale_b: Any) -> Any:
        total = np.zeros((len(a), len(b)), np.float32)
        for start in range(0, a.shape[1], 32):
            total += product_of(a[:, start : start + 32], b[:, start : start + 32], 1, 1)
            fraction, exponent = np.frexp(total)
            total = np.ldexp(np.trunc(fraction * 2**digits) / 2**digits, exponent).astype(np.float32)
        return total * scale_a * scale_b

    return multiply


def refused(*operands: Any) -> Any:
    raise RuntimeError("no kernel")


@pytest.mark.parametrize(
    ("multiply", "exact", "coarse"),
    [
        (product_of, True, True), (cut_off(14), False, True), (cut_off(8), False, False), (refused, False, False),
        (lambda a, b, s, t: product_of(a, b, s, s), False, False),
        (lambda a, b, s, t: product_of(np.nan_to_num(a.astype(np.float32)), b, s, t), False, False),
        (lambda a, b, s, t: product_of(a, b[::-1], s, t), False, False),
    ],
    ids=["right", "14 digits", "8 digits", "refused", "one scale", "no nan", "other rows"],
)  # fmt: skip
def test_a_probe_sees_wrong_products(multiply: Callable[..., Any], exact: bool, coarse: bool) -> None:
    with np.errstate(invalid="ignore"):
        assert [multiplies_float8(multiply, dtype) for dtype in (float32, float16)] == [exact, coarse]


@pytest.fixture
def xla(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that decides for XLA, with a CPU that has units for blocks."""
    if not hasattr(pytest.importorskip("jax").lax, "scaled_dot"):
        pytest.skip("a JAX before scaled_dot")
    from graphls.runtime.xla import low_products

    monkeypatch.setattr(low_products, "capability", lambda device: (10, 0))
    return low_products


@pytest.mark.parametrize(
    ("recipe", "native", "dtype"),
    [("delayed", 8, float32), ("current", 8, bfloat16), ("mx", 7, float32), ("nvfp4", 7, bfloat16)],
)
def test_a_step_of_xla_multiplies_low_operands(
    recipe: str, native: int, dtype: DType, xla: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = trained(RECIPES[recipe], dtype, engine="xla")
    (part,) = step._session.parts
    assert len(named(part.graph, "scaled_matmul")) == native
    found = [float(step(X, LABELS)) for _ in range(4)]
    monkeypatch.setattr(xla, "capability", lambda device: (8, 6))
    other = trained(RECIPES[recipe], dtype, engine="xla")
    assert not named(other._session.parts[0].graph, "scaled_matmul")
    expected = [float(other(X, LABELS)) for _ in range(4)]
    np.testing.assert_allclose(found, expected, rtol=1e-3 if dtype is float32 else 1e-2)


def test_what_cards_without_units_multiply_is_wide(xla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax")
    graphs = {recipe: trained(RECIPES[recipe]).graph for recipe in ("current", "mx", "block")}
    for card, native in (((8, 6), {}), ((9, 0), {"current": 8}), ((10, 0), {"current": 8, "mx": 7})):
        monkeypatch.setattr(xla, "capability", lambda device, card=card: card)
        for recipe, graph in graphs.items():
            own = xla.with_low_products(jax, graph, jax.devices("cpu")[0]).graph
            assert len(named(own, "scaled_matmul")) == native.get(recipe, 0)


def test_a_profile_of_xla_has_the_nodes_of_the_step(xla: Any) -> None:
    step = trained(RECIPES["current"], engine="xla")
    nodes = set(walk(step.graph))
    kernels = [kernel for run in step.profile(X, LABELS, steps=2).runs for kernel in run.kernels]
    assert {kernel.node for kernel in kernels if kernel.node} <= nodes
    assert any(kernel.node and kernel.node.primitive.name == "matmul" for kernel in kernels)


def test_what_a_card_of_xla_gets_wrong_is_multiplied_wide(xla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xla, "is_right", lambda jax, device: False)
    monkeypatch.setattr(xla, "are_blocks_right", lambda jax, device: False)
    for recipe in ("current", "mx"):
        graph = trained(RECIPES[recipe]).graph
        assert xla.with_low_products(None, graph, None).graph is graph


def test_a_probe_sees_wrong_products_of_blocks(xla: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    import jax

    product = xla._product
    device = jax.devices("cpu")[0]
    assert xla.are_blocks_right.__wrapped__(jax, device)
    monkeypatch.setattr(xla, "_product", lambda *operands: np.nan_to_num(product(*operands)))
    assert not xla.are_blocks_right.__wrapped__(jax, device)
    monkeypatch.setattr(xla, "_product", lambda *operands: 1.001 * product(*operands))
    assert not xla.are_blocks_right.__wrapped__(jax, device)
    monkeypatch.setattr(xla, "_product", lambda *_: refused())
    assert not xla.are_blocks_right.__wrapped__(jax, device)


@pytest.mark.parametrize(
    ("platform", "text", "expected"),
    [("gpu", "9.0", (9, 0)), ("gpu", "8.9", (8, 9)), ("gpu", "12.0", (12, 0)), ("cpu", None, (0, 0)),
     ("gpu", "gfx942", (0, 0)), ("tpu", "9.0", (0, 0))],
)  # fmt: skip
def test_compute_capabilities(platform: str, text: str | None, expected: tuple[int, int]) -> None:
    pytest.importorskip("jax")
    from graphls.runtime.xla.low_products import capability

    assert capability(SimpleNamespace(platform=platform, compute_capability=text)) == expected


@pytest.mark.parametrize(
    ("types", "text"),
    [
        (("f32[2,3]", "f8e4m3fn[3,2]", "f32[]", "f32[]"), "of which one may be float8_e5m2, not f32[2,3]"),
        (("f8e5m2[2,3]", "f8e5m2[3,2]", "f32[]", "f32[]"), "not f8e5m2[2,3] and f8e5m2[3,2]"),
        (("f8e4m3fn[2,3]", "f8e4m3fn[3,2]", "f32[2]", "f32[]"), "A scale of scaled_matmul is one number"),
        (("f8e4m3fn[2,3]", "f8e4m3fn[2,2]", "f32[]", "f32[]"), "the inner sizes 3 and 2 differ"),
        (("f8e4m3fn[2,64]", "f8e4m3fn[64,2]", "f8e8m0fnu[2,2]", "f32[]"), "two operands with scales for blocks"),
        (("f4e2m1fn[2,64]", "f4e2m1fn[64,2]", "f32[]", "f32[]"), "two operands with scales for blocks"),
        (("f8e4m3fn[2,64]", "f8e4m3fn[64,2]", "f8e8m0fnu[2,3]", "f8e8m0fnu[2,2]"), "of axis 1, not f8e8m0fnu[2,3]"),
        (("f8e4m3fn[2,64]", "f8e4m3fn[64,2]", "f8e8m0fnu[2,2]", "f8e8m0fnu[2,1]"), "of axis 0, not f8e8m0fnu[2,1]"),
    ],
)
def test_wrong_operands_are_refused(types: tuple[str, ...], text: str) -> None:
    kinds = [Type(*_parsed(kind)) for kind in types]
    with pytest.raises(graphls.GraphlsError, match=text.replace("[", r"\[")):
        graphls.ir.registry.lookup("scaled_matmul").result_types(tuple(kinds), {})


def _parsed(text: str) -> tuple[DType, tuple[int, ...]]:
    kind = graphls.ir.parse_type(text)
    return kind.dtype, kind.shape
