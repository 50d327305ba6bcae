"""How many floating point operations a primitive says it takes: by hand, and what holds for all of them."""

from __future__ import annotations

from typing import Any

import pytest

from graphls.inspect.testing.samples import single
from graphls.ir import Builder, Graph, Type, Value, parse
from graphls.ir.flops import flops, own_flops, runs
from graphls.ir.types import bool_, float16, int32, int64
from graphls.primitives.primitive import Elementwise, FloatElementwise, Primitive, f32, of
from tests.primitives.test_every_primitive import CASES, PRIMITIVES

MOVES = {
    "broadcast_to", "cast", "check_labels", "composition", "concat", "cond", "constant", "custom_gradient", "depend",
    "gather", "gather_elements", "gradient", "one_hot", "overflow_start", "pack", "random_bernoulli", "random_bytes",
    "random_integers", "random_normal", "random_permutation", "random_uniform", "reshape", "reverse", "scan", "segment",
    "shard", "slice", "slice_gradient", "stop_gradient", "transpose", "unpack", "where", "while_loop",
}  # fmt: skip
GEOMETRY: dict[str, Any] = {"strides": (2, 2), "pads": (1, 1, 1, 1)}
BY_HAND: list[tuple[str, tuple[Type, ...], dict[str, Any], int]] = [
    ("add", (f32(4, 1), f32(1, 3)), {}, 12),
    ("add", (of(int32, 5), of(int32, 5)), {}, 0),
    ("exp", (f32(2, 0),), {}, 0),
    ("tanh", (of(float16, 5),), {}, 5),
    ("less", (f32(5), f32()), {}, 5),
    ("less", (of(int64, 5), of(int64, 5)), {}, 0),
    ("where", (of(bool_, 5), f32(5), f32(5)), {}, 0),
    ("logical_and", (of(bool_, 5), of(bool_, 5)), {}, 0),
    ("cast", (of(int32, 5),), {"dtype": float16}, 0),
    ("matmul", (f32(2, 3), f32(3, 4)), {}, 2 * 2 * 3 * 4),
    ("matmul", (f32(3, 2), f32(4, 3)), {"transpose_a": True, "transpose_b": True}, 2 * 2 * 3 * 4),
    ("matmul", (f32(7, 1, 2, 3), f32(5, 3, 4)), {}, 7 * 5 * 2 * 2 * 3 * 4),
    ("matmul", (f32(2, 0), f32(0, 4)), {}, 0),
    # 3 x 3 windows of 4 channels in each of two groups; 3 x 4 of them on each padded image of 5 x 7
    ("convolution", (f32(2, 8, 5, 7), f32(6, 4, 3, 3)), {**GEOMETRY, "groups": 2}, 2 * (2 * 6 * 3 * 4) * (4 * 9)),
    ("convolution", (f32(2, 3, 9), f32(5, 3, 4)), {}, 2 * (2 * 5 * 6) * (3 * 4)),
    (
        "convolution_input_gradient",
        (f32(2, 6, 3, 4), f32(6, 4, 3, 3)),
        {"shape": (2, 8, 5, 7), **GEOMETRY, "groups": 2},
        2 * (2 * 6 * 3 * 4) * (4 * 9),
    ),
    (
        "convolution_weight_gradient",
        (f32(2, 8, 5, 7), f32(2, 6, 3, 4)),
        {"shape": (6, 4, 3, 3), **GEOMETRY, "groups": 2},
        2 * (2 * 6 * 3 * 4) * (4 * 9),
    ),
    ("max_pool", (f32(2, 3, 4, 6),), {"kernel": (2, 3), "strides": (2, 3)}, (2 * 3 * 2 * 2) * 6),
    ("avg_pool", (f32(2, 3, 4, 6),), {"kernel": (2, 3), "strides": (2, 3)}, (2 * 3 * 2 * 2) * 6),
    (
        "avg_pool_gradient",
        (f32(2, 3, 2, 2),),
        {"shape": (2, 3, 4, 6), "kernel": (2, 3), "strides": (2, 3)},
        (2 * 3 * 2 * 2) * 7,
    ),
    ("sum", (f32(4, 5),), {"axis": (1,)}, 20),
    ("mean", (f32(4, 5),), {}, 20),
    ("max", (of(int32, 4, 5),), {"axis": (0,)}, 0),
    ("any", (of(bool_, 4, 5),), {}, 0),
    ("argmax", (f32(4, 5),), {"axis": 1}, 20),
    ("top_k", (f32(4, 5),), {"k": 2, "axis": 1, "largest": True}, 20),
    ("softmax", (f32(4, 5),), {"axis": -1}, 100),
    ("cumsum", (f32(4, 5),), {"axis": 1}, 20),
    ("gather", (f32(4, 3), of(int64, 9)), {"axis": 0}, 0),
    ("gather_gradient", (f32(9, 3), of(int64, 9)), {"axis": 0, "size": 100}, 27),
    ("gather_elements_gradient", (f32(3, 1), of(int64, 3, 1)), {"axis": 1, "size": 40}, 3),
    ("scatter_max", (f32(40, 3), of(int64, 6, 3), f32(6, 3)), {"axis": 0}, 18),
    ("overflow_get", (f32(2, 3), of(bool_), of(float16, 5)), {}, 11),
]


@pytest.mark.parametrize(("name", "types", "attrs", "expected"), BY_HAND)
def test_by_hand(name: str, types: tuple[Type, ...], attrs: dict[str, Any], expected: int) -> None:
    inputs = [Value(f"x{i}", t) for i, t in enumerate(types)]
    e = Builder()
    e.emit(name, inputs, attrs)
    assert flops(e.nodes[0]) == own_flops(e.nodes[0]) == expected


@pytest.mark.parametrize(("primitive", "sample"), CASES)
def test_every_sample_has_a_count(primitive: Any, sample: Any) -> None:
    """Moves take none, elementwise functions of floats one for each element, everything else some."""
    (node,) = single(primitive, sample, sample.types).nodes
    count, touched = flops(node), [*(v.type for v in node.inputs), *(v.type for v in node.outputs)]
    assert isinstance(count, int)
    if primitive.name in MOVES or not any(t.dtype.is_float for t in touched):
        assert count == 0
    elif isinstance(primitive, Elementwise):
        assert count == node.output.type.size
    else:
        assert count > 0 or 0 in [t.size for t in touched]


def test_moves_are_those_that_say_so() -> None:
    assert {p.name for p in PRIMITIVES if p.flops_per_element == 0} == MOVES


def test_a_new_primitive_has_a_count() -> None:
    class Halved(FloatElementwise, abstract=True):
        pass

    class Doubled(Primitive, abstract=True):
        flops_per_element = 3

    assert Halved().flops((f32(2, 3),), (f32(2, 3),), {}) == 6
    assert Doubled().flops((f32(2, 3),), (f32(2), f32(2, 9)), {}) == 54


REGIONS = """
graph @main(%x: f32[6,4], %flag: bool[]) {
  %zero = slice(%x) {starts=[0, 0], stops=[1, 4], steps=[1, 1]} : f32[1,4]  // forward
  %last, %all = scan(%zero, %x) {carries=1, length=6, reverse=false} : f32[1,4], f32[6,1,4] region(%c: f32[1,4], %e: f32[4]) {
    %chosen = cond(%flag) : f32[1,4] region {
      %a = exp(%c) : f32[1,4]  // forward
      yield %a
    } region {
      %b = add(%c, %e) : f32[1,4]  // forward
      %d = tanh(%b) : f32[1,4]  // forward
      yield %d
    }  // forward
    %n = mul(%chosen, %c) : f32[1,4]  // forward
    yield %n, %chosen
  }  // forward
  return %last, %all
}
"""  # noqa: E501


def nodes_by_name(graph: Graph) -> dict[str, int]:
    return {node.outputs[0].name: times for node, times in runs(graph.nodes)}


def test_a_scan_counts_its_length_and_a_branch_its_dearer_answer() -> None:
    graph = parse(REGIONS)
    assert sum(map(flops, graph.nodes)) == 6 * (4 + 4 + 4)
    assert nodes_by_name(graph) == {"zero": 1, "a": 0, "b": 6, "d": 6, "chosen": 6, "n": 6, "last": 1}
    assert sum(own_flops(node) * times for node, times in runs(graph.nodes)) == 6 * 12


def test_the_body_of_a_while_loop_counts_once() -> None:
    graph = parse("""
graph @main(%x: f32[4]) {
  %y = while_loop(%x) : f32[4] region(%a: f32[4]) {
    %s = sum(%a) {axis=none, keepdims=false} : f32[]  // forward
    %one = constant() {value=1.0} : f32[]  // forward
    %go = less(%s, %one) : bool[]  // forward
    yield %go
  } region(%b: f32[4]) {
    %c = add(%b, %b) : f32[4]  // forward
    yield %c
  }  // forward
  return %y
}
""")
    assert flops(graph.nodes[0]) == 4 + 1 + 4
