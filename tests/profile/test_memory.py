"""Memory by liveness: known graphs, and random ones against a plain definition."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given

from graphls.inspect.profile.memory import Memory, memory_of
from graphls.ir import Graph, Node, Value, parse, walk
from tests.ir.graphs import graphs
from tests.profile.steps import STEPS

Place = tuple[int, ...]


def uses_of(graph: Graph, at: Place = ()) -> Iterator[tuple[Value, Place]]:
    """Every use of a value and its place: the index of the node, then of a region and of a node in it, and so on."""
    for index, node in enumerate(graph.nodes):
        here = (*at, index)
        yield from ((value, here) for value in node.inputs)
        for number, region in enumerate(node.regions):
            yield from uses_of(region, (*here, number))
    yield from ((value, (*at, len(graph.nodes))) for value in graph.outputs)


def places(graph: Graph, at: Place = ()) -> Iterator[tuple[Node, Place]]:
    for index, node in enumerate(graph.nodes):
        yield node, (*at, index)
        for number, region in enumerate(node.regions):
            yield from places(region, (*at, index, number))


def plain_peak(graph: Graph) -> int:
    """The largest sum of bytes over the moments of a step, each summed by looking at every value."""
    made: dict[Value, Place] = {}
    same: dict[Value, Value] = {}
    for node, place in places(graph):
        made.update((v, place) for v in node.outputs if node.primitive.name != "constant")
        for number, region in enumerate(node.regions):
            made.update((v, (*place, number, -1)) for v in region.inputs)
            if node.primitive.name == "cond":
                local = {v for n in region.nodes for v in n.outputs}
                same.update((y, v) for y, v in zip(region.outputs, node.outputs, strict=True) if y in local)

    def owner(value: Value) -> Value:
        return owner(same[value]) if value in same else value

    written = {owner(w.value) for w in graph.writes}
    used: dict[Value, list[Place]] = {}
    for value, place in uses_of(graph):
        used.setdefault(owner(value), []).append(place)

    def is_alive(value: Value, moment: Place) -> bool:
        """Whether a moment is in the block that makes a value, not before it is made nor after its last use there."""
        start, depth = made[value], len(made[value])
        if moment[: depth - 1] != start[:-1]:
            return is_parameter(value) and moment == start[:-2]
        last = max([start[-1], *(place[depth - 1] for place in used.get(value, []))])
        return start[-1] <= moment[depth - 1] <= last

    def is_parameter(value: Value) -> bool:
        return made[value][-1] == -1

    values = [v for v in made if v not in same and v not in written]
    moments = [place for _, place in places(graph)]
    return max((sum(v.type.nbytes for v in values if is_alive(v, m)) for m in moments), default=0)


@given(graphs())
def test_the_peak_of_random_graphs(graph: Graph) -> None:
    memory = memory_of(graph, "numpy")
    fixed = memory.states + memory.inputs + memory.constants
    assert memory.peak - fixed == plain_peak(graph)
    assert sum(held.bytes for held in memory.live) == memory.peak - fixed
    assert memory.while_running.keys() == {*walk(graph)}
    assert max(memory.while_running.values(), default=fixed) == memory.peak


def memory(text: str, backend: str = "numpy") -> Memory:
    return memory_of(parse(f"graph @g({text}"), backend)


def names(found: Memory) -> list[str]:
    return [held.value.name for held in found.live]


CHAIN = """%x: f32[1024]) {
  %a = exp(%x) : f32[1024]
  %b = neg(%a) : f32[1024]
  %c = mul(%b, %a) : f32[1024]
  %d = sum(%c) {axis=[0], keepdims=false} : f32[]
  return %d
}"""


def test_a_chain() -> None:
    found = memory(CHAIN)
    assert names(found) == ["a", "b", "c"] and found.at is not None and found.at.output.name == "c"
    assert (found.peak, found.inputs, found.states, found.constants) == (4 * 4096, 4096, 0, 0)
    assert list(found.while_running.values()) == [8192, 12288, 16384, 8196]


def test_sixteen_bit_floats_have_a_twin_on_a_cpu() -> None:
    text = CHAIN.replace("f32", "f16")
    assert memory(text, "cpu").peak == 2048 + 3 * 6 * 1024
    assert memory(text, "cuda").peak == memory(text).peak == 2048 + 3 * 2048


def test_bfloat16_is_wider_at_the_border() -> None:
    text = """%x: bf16[8]) {
  state @s: bf16[8]
  %y = add(%x, @s) : bf16[8]
  return %y
}"""
    assert [(m.inputs, m.states) for m in (memory(text, b) for b in ("cpu", "cuda", "numpy"))] == [
        (32, 32),
        (32, 32),
        (16, 16),
    ]


@pytest.mark.parametrize(("in_place", "states"), [(" in place", 4096), ("", 8192)])
def test_a_new_state_is_in_a_buffer_of_the_state(in_place: str, states: int) -> None:
    found = memory(f"""%x: f32[4]) {{
  state @s: f32[1024]
  %new = neg(@s) : f32[1024]
  @s <- %new{in_place}
  return %x
}}""")
    assert (found.states, found.peak, found.live) == (states, states + 16, ())


def test_views_keep_what_they_show() -> None:
    found = memory("""%x: f32[4,4]) {
  %a = exp(%x) : f32[4,4]
  %b = reshape(%a) {shape=[16]} : f32[16]
  %c = depend(%b) after(%x) : f32[16]
  %d = neg(%c) : f32[16]
  %e = neg(%c) : f32[16]
  return %d, %e
}""")
    assert names(found) == ["a", "d", "e"]


def test_a_branch_makes_its_result_where_it_stays() -> None:
    found = memory("""%x: f32[64], %p: bool[]) {
  %y = cond(%p) : f32[64] region {
    %a = exp(%x) : f32[64]
    %b = neg(%a) : f32[64]
    %c = neg(%b) : f32[64]
    yield %c
  } region {
    %d = neg(%x) : f32[64]
    yield %d
  }
  return %y
}""")
    assert names(found) == ["y", "a", "b"] and found.peak == 257 + 3 * 256


def test_products_that_only_a_check_reads_are_not_made() -> None:
    text = """%x: f32[64,64], %s: f32[]) {
  %status = overflow_start() : token
  %a = matmul(%x, %x) : f32[64,64]
  %b = mul(%s, %a) : f32[64,64]
  %o = overflow_get(%status, %b) : bool[]
  return %o
}"""
    assert names(memory(text)) == ["a", "b"] and names(memory(text, "cpu")) == ["o"]


def test_operands_of_such_products_are_kept_for_the_check() -> None:
    text = """%x: f32[64,64]) {
  %status = overflow_start() : token
  %y = exp(%x) : f32[64,64]
  %a = matmul(%y, %x) : f32[64,64]
  %z = sum(%x) {axis=[0, 1], keepdims=false} : f32[]
  %o = overflow_get(%status, %a) : bool[]
  return %o, %z
}"""
    found = memory(text, "cpu")
    assert names(found) == ["y", "z", "o"] and found.at is not None and found.at.primitive.name == "overflow_get"


@pytest.mark.parametrize("name", STEPS)
def test_numbers_that_the_host_draws_count_twice(name: str) -> None:
    step, inputs = STEPS[name]("numpy")
    drawn = [n for n in walk(step.graph) if n.primitive.on_host]
    given = sum(array.nbytes for array in inputs)
    assert memory_of(step.graph, "numpy").inputs == given + 2 * sum(n.output.type.nbytes for n in drawn)
    assert bool(drawn) == (name in ("dropout", "attention"))


def test_the_largest_values_come_first() -> None:
    step, _ = STEPS["images"]("numpy")
    sizes = [held.bytes for held in memory_of(step.graph, "cpu").live]
    assert sizes == sorted(sizes, reverse=True) and sizes[-1] > 0
