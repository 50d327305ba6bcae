"""The overflow check on ONNX Runtime: bounds decide where they can, exact tests where they cannot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.ir.graph import Graph
from graphls.ir.parse import parse
from graphls.passes import as_pipeline
from graphls.runtime.numpy.reference import ReferenceSession
from graphls.runtime.onnxruntime.session import OrtSession
from graphls.runtime.session import Session

PRODUCT = """
graph @product(%x: f32[2,256], %g: f32[2,256], %s: f32[]) {
  %status = overflow_start() : token
  %h = depend(%g) after(%status) : f32[2,256]
  %p = matmul(%x, %h) {transpose_a=true} : f32[256,256]
  %u = mul(%p, %s) : f32[256,256]
  %overflow = overflow_get(%status, %u) : bool[]
  return %u, %overflow
}
"""


def arrays(x: float, g: float, s: float, at: float | None = None) -> list[Any]:
    first = np.full((2, 256), x, np.float32)
    if at is not None:
        first[1, 37] = at
    return [first, np.full((2, 256), g, np.float32), np.float32(s)]


CASES = {
    "small": (arrays(1.0, 2.0, 0.5), False),
    "an infinity": (arrays(1.0, 2.0, 0.5, np.inf), True),
    "a nan": (arrays(1.0, 2.0, 0.5, np.nan), True),
    "an infinity times zero": (arrays(1.0, 0.0, 0.5, np.inf), True),
    "a scaled product that overflows": (arrays(1e20, 1e20, 1e-30), True),
    "an unscaled product that overflows": (arrays(1e15, 1e15, 1e15), True),
    "a bound that overflows and a product that does not": (arrays(2e18, 2e19, 0.5), False),
    "large values whose bound says too little": (arrays(1e20, 1.0, 1.0), False),
    "a factor of nan": (arrays(1.0, 2.0, np.nan), True),
    "a factor of infinity": (arrays(1.0, 2.0, np.inf), True),
    "a factor of zero": (arrays(1.0, 2.0, 0.0), False),
}


def on_onnxruntime(graph: Graph) -> Session:
    return OrtSession(graph, {})


@pytest.mark.parametrize("passes", ["dce", "factor, dce"])
@pytest.mark.parametrize("case", CASES)
def test_the_flag_of_a_scaled_product(case: str, passes: str) -> None:
    inputs, expected = CASES[case]
    graph = as_pipeline(passes).run(parse(PRODUCT)).graph
    exact, raised = ReferenceSession(parse(PRODUCT), {}).run(inputs)
    product, overflow = on_onnxruntime(graph).run(inputs)
    assert bool(raised) == expected == bool(overflow)
    if not expected:
        np.testing.assert_allclose(product, exact, rtol=1e-6)


KERNELS = """
graph @kernels(%x: f32[1,64,4,4], %g: f32[1,32,4,4], %s: f32[]) {
  %status = overflow_start() : token
  %h = depend(%g) after(%status) : f32[1,32,4,4]
  %p = convolution_weight_gradient(%x, %h) {shape=[32, 64, 3, 3], pads=[1, 1, 1, 1]} : f32[32,64,3,3]
  %u = mul(%p, %s) : f32[32,64,3,3]
  %overflow = overflow_get(%status, %u) : bool[]
  return %u, %overflow
}
"""


def images(x: float, g: float, s: float, at: float | None = None) -> list[Any]:
    first = np.full((1, 64, 4, 4), x, np.float32)
    if at is not None:
        first[0, 37, 2, 2] = at
    return [first, np.full((1, 32, 4, 4), g, np.float32), np.float32(s)]


IMAGES = {
    "small": (images(1.0, 2.0, 0.5), False),
    "an infinity": (images(1.0, 2.0, 0.5, np.inf), True),
    "a nan": (images(1.0, 2.0, 0.5, np.nan), True),
    "a scaled gradient that overflows": (images(1e20, 1e20, 1e-30), True),
    "an unscaled gradient that overflows": (images(1e15, 1e15, 1e15), True),
    "a bound that overflows and a gradient that does not": (images(1e18, 1e18, 0.5), False),
    "a factor of nan": (images(1.0, 2.0, np.nan), True),
}


@pytest.mark.parametrize("passes", ["dce", "factor, dce"])
@pytest.mark.parametrize("case", IMAGES)
def test_the_flag_of_a_scaled_gradient_of_kernels(case: str, passes: str) -> None:
    inputs, expected = IMAGES[case]
    graph = as_pipeline(passes).run(parse(KERNELS)).graph
    exact, raised = ReferenceSession(parse(KERNELS), {}).run(inputs)
    gradient, overflow = on_onnxruntime(graph).run(inputs)
    assert bool(raised) == expected == bool(overflow)
    if not expected:
        np.testing.assert_allclose(gradient, exact, rtol=1e-5)


def test_a_scaled_gradient_of_kernels_costs_no_pass_over_it() -> None:
    session = OrtSession(as_pipeline("factor, dce").run(parse(KERNELS)).graph, {})
    kinds = [node.op_type for node in session.lowered.model.graph.node]
    assert kinds.count("MatMul") == kinds.count("If") == 1, "the other product is in a branch"
    assert "ReduceL1" not in kinds


SLICES = """
graph @slices(%g: f32[4,64], %i: i32[4], %s: f32[]) {
  %status = overflow_start() : token
  %h = depend(%g) after(%status) : f32[4,64]
  %p = gather_gradient(%h, %i) {axis=0, size=512} : f32[512,64]
  %u = mul(%p, %s) : f32[512,64]
  %overflow = overflow_get(%status, %u) : bool[]
  return %u, %overflow
}
"""
"""A large gradient of a gather, as that of an embedding is."""


def slices(g: float, s: float, at: float | None = None) -> list[Any]:
    rows = np.full((4, 64), g, np.float32)
    if at is not None:
        rows[2, 5] = at
    return [rows, np.array([7, 500, 7, 0], np.int32), np.float32(s)]


ADDED = {
    "small": (slices(1.0, 0.5), False),
    "an infinity": (slices(1.0, 0.5, np.inf), True),
    "a nan": (slices(1.0, 0.5, np.nan), True),
    "a sum that overflows": (slices(3e38, 1e-30), True),
    "an unscaled slice that overflows": (slices(1e15, 1e30), True),
    "a bound that overflows and a sum that does not": (slices(1e38, 0.5), False),
    "a factor of nan": (slices(1.0, np.nan), True),
    "a factor of infinity where most rows are zeros": (slices(1.0, np.inf), True),
}


@pytest.mark.parametrize("passes", ["dce", "factor, dce"])
@pytest.mark.parametrize("case", ADDED)
def test_the_flag_of_scaled_slices(case: str, passes: str) -> None:
    inputs, expected = ADDED[case]
    gradient, overflow = on_onnxruntime(as_pipeline(passes).run(parse(SLICES)).graph).run(inputs)
    assert bool(overflow) == expected
    if not expected:
        np.testing.assert_allclose(gradient, ReferenceSession(parse(SLICES), {}).run(inputs)[0], rtol=1e-5)


def test_scaled_slices_cost_no_pass_over_what_they_are_added_to() -> None:
    model = OrtSession(as_pipeline("factor, dce").run(parse(SLICES)).graph, {}).lowered.model
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("ScatterElements") == kinds.count("If") == kinds.count("ReduceL1") == 1
    (summed,) = (node for node in model.graph.node if node.op_type == "ReduceL1")
    assert "gather_gradient" not in summed.input[0]


LARGE = """
graph @large(%a: f32[4,8,3], %b: f32[40,4], %c: f32[2,5], %s: f32[]) {
  %status = overflow_start() : token
  %d = depend(%a) after(%status) : f32[4,8,3]
  %u = mul(%d, %s) : f32[4,8,3]
  %v = mul(%s, %b) : f32[40,4]
  %w = mul(%c, %s) : f32[2,5]
  %overflow = overflow_get(%status, %u, %v, %w) : bool[]
  return %u, %v, %w, %overflow
}
"""


@pytest.mark.parametrize("bad", [None, "a", "c", "s"])
def test_gradients_are_looked_at_before_they_are_multiplied(bad: str | None) -> None:
    graph = parse(LARGE)
    fed = {v.name: np.ones(v.type.shape, np.float32) for v in graph.inputs}
    if bad is not None:
        fed[bad][(-1,) * fed[bad].ndim] = np.inf
    assert bool(on_onnxruntime(graph).run(list(fed.values()))[-1]) == (bad is not None)


def test_a_scaled_operand_that_overflows_alone_raises_the_flag() -> None:
    """The product that is used must never be wrong without the flag, even where the unscaled one is finite."""
    graph = as_pipeline("factor, dce").run(parse(PRODUCT)).graph
    product, overflow = OrtSession(graph, {}).run(arrays(1e25, 1e-25, 1e20))
    assert bool(overflow) or np.isfinite(product).all()


@pytest.mark.parametrize(("rows", "is_bounded"), [(64, True), (128, False)])
def test_a_product_that_is_larger_than_its_operands_is_not_looked_at(rows: int, is_bounded: bool) -> None:
    """Of a gradient [256,256] the operands are looked at, where they are half as large; a transformer's often are."""
    text = PRODUCT.replace("[2,256]", f"[{rows},256]").replace("(%status, %u)", "(%status, %p)")
    kinds = [node.op_type for node in OrtSession(parse(text), {}).lowered.model.graph.node]
    assert kinds.count("ReduceL2") == 2 * is_bounded and kinds.count("ReduceL1") == 1 - is_bounded


def test_what_is_only_checked_is_computed_only_in_the_branch() -> None:
    graph = as_pipeline("factor, dce").run(parse(PRODUCT)).graph
    model = OrtSession(graph, {}).lowered.model
    kinds = [node.op_type for node in model.graph.node]
    branch = next(node for node in model.graph.node if node.op_type == "If")
    inner = {a.name: [n.op_type for n in a.g.node] for a in branch.attribute}
    assert kinds.count("Gemm") == 1 and "Gemm" in inner["else_branch"] and "Gemm" not in inner["then_branch"]


TWO = """
graph @two(%x: f32[2,256], %g: f32[2,256], %s: f32[], %b: bool[]) {
  %p = matmul(%x, %g) {transpose_a=true} : f32[256,256]
  %u = mul(%p, %s) : f32[256,256]
  %first = overflow_get(%u) : bool[]
  %second = overflow_get(%p, %b) : bool[]
  %third = cond(%b) : bool[] region {
    %inner = overflow_get(%u) : bool[]
    yield %inner
  } region {
    %other = matmul(%g, %x) {transpose_a=true} : f32[256,256]
    %inner_2 = overflow_get(%other) : bool[]
    yield %inner_2
  }
  return %first, %second, %third
}
"""


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("x", [1.0, np.inf])
def test_checks_that_share_values_and_checks_in_branches(x: float, flag: bool) -> None:
    inputs = [*arrays(1.0, 2.0, 0.5, x), np.array(flag)]
    expected = [bool(r) for r in ReferenceSession(parse(TWO), {}).run(inputs)]
    assert expected == [x == np.inf, x == np.inf or flag, x == np.inf]
    for passes in ("dce", "factor, dce"):
        graph = as_pipeline(passes).run(parse(TWO)).graph
        assert [bool(r) for r in OrtSession(graph, {}).run(inputs)] == expected
