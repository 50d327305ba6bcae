"""The passes of every compile take linear time, and keep overflow windows right."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.api import CPU_PASSES
from graphls.ir import Graph, dump, parse, verify
from graphls.passes import parse_pipeline
from graphls.passes.schedule import cut
from graphls.passes.schedule.partition import Partition
from graphls.passes.simplify import dce
from graphls.passes.windows import verify_windows
from graphls.primitives.primitive import Elementwise
from graphls.runtime.lowering import lower
from graphls.testing import check_pass


def chain(length: int) -> Graph:
    """Each link holds work for fold, cse and dce, a branch, and a control edge to a dead node."""
    links = "".join(
        f"""
  %one{i} = constant() {{value=array(f32[], [1.0])}} : f32[]
  %a{i} = mul(%v{i}, %one{i}) : f32[4]
  %b{i} = exp(%a{i}) : f32[4]
  %c{i} = exp(%v{i}) : f32[4]
  %dead{i} = neg(%b{i}) : f32[4]
  %d{i} = depend(%c{i}) after(%dead{i}) : f32[4]
  %e{i} = cond(%p) : f32[4] region {{
    %n{i} = neg(%d{i}) : f32[4]
    yield %n{i}
  }} region {{
    yield %d{i}
  }}
  %v{i + 1} = tanh(%e{i}) : f32[4]"""
        for i in range(length)
    )
    return parse(f"graph @g(%p: bool[], %v0: f32[4]) {{{links}\n  return %v{length}\n}}")


def test_passes_make_calls_in_proportion_to_a_graph_of_all_they_work_on() -> None:
    pipeline = parse_pipeline("fold, cse, dce")
    small, large = (calls_of(partial(pipeline.run, chain(n), verify=False)) for n in (100, 200))
    assert large < 2.1 * small


STEP = """
graph @step(%x: f32[4], %scale: f32[]) {
  state @w: f32[4]
  %one = constant() {value=array(f32[], [1.0])} : f32[]
  %y = mul(%x, @w) : f32[4]  // forward
  %mask = greater(%y, %one) : bool[4]  // forward
  %r = where(%mask, %y, %x) : f32[4]  // forward
  %loss = sum(%r) {axis=[0]} : f32[]  // forward
  %unscaled = exp(%y) : f32[4]  // forward
  %seed = mul(%scale, %one) : f32[]  // forward
  %g1, %g2 = gradient(%loss, %seed, @w, %x) {of=1, wrt=2} : f32[4], f32[4]  // backward
  %same = where(%mask, %g1, %g1) : f32[4]  // backward
  %twice = neg(%same) : f32[4]  // backward
  %back = neg(%twice) : f32[4]  // backward
  %overflow = overflow_get(%back, %g2) : bool[]  // check
  %new = cond(%overflow) : f32[4] region {
    yield @w
  } region {
    %d = sub(@w, %back) : f32[4]  // update
    yield %d
  }  // update
  @w <- %new
  return %loss, %overflow, %unscaled
}
"""


@pytest.mark.parametrize("mode", ["outputs", "window"])
@pytest.mark.parametrize("rest", ["fold", "cse", "merge", "dce", "fold, cse, merge, dce", "cse, fold, merge, order"])
def test_windows_stay_right(mode: str, rest: str) -> None:
    verify_windows(parse_pipeline(f"gradient, overflow{{mode={mode}}}, {rest}").run(parse(STEP)).graph)


def test_an_elementwise_operand_need_not_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Elementwise, "elementwise", True, raising=False)
    text = """
graph @g(%x: f32[8,4], %s: f32[], %r: f32[4]) {{
  %a = broadcast_to(%s) {{shape=[8, 4]}} : f32[8,4]
  %b = broadcast_to(%r) {{shape=[8, 4]}} : f32[8,4]
  %y = mul({0}, %x) : f32[8,4]
  %z = add(%x, {1}) : f32[8,4]
  return %y, %z
}}"""
    check_pass("fold", text.format("%a", "%b"), text.format("%s", "%r"))


def test_what_is_made_of_repeated_operands_alone_is_repeated_itself() -> None:
    before = """
graph @g(%r: f32[4], %x: f32[8,4]) {
  %c = constant() {value=array(f32[], [2.0])} : f32[]
  %b = broadcast_to(%r) {shape=[8, 4]} : f32[8,4]
  %y = mul(%b, %c) : f32[8,4]
  %z = mul(%y, %x) : f32[8,4]
  return %z
}"""
    after = """
graph @g(%r: f32[4], %x: f32[8,4]) {
  %c = constant() {value=array(f32[], [2.0])} : f32[]
  %mul = mul(%r, %c) : f32[4]
  %z = mul(%mul, %x) : f32[8,4]
  return %z
}"""
    check_pass("fold, dce", before, after)


def calls_of(work: Callable[[], object]) -> int:
    """How many functions of Python and C are called, which no load of the machine changes."""
    count = 0

    def counted(*ignored: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


class Repeated(nn.Cell):
    """Dense layers, a condition in a loop for each."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.layers = nn.CellList([nn.Dense(2, 2) for _ in range(length)])

    def construct(self, x: Any) -> Any:
        for layer in self.layers:
            x = ops.fori_loop(0, 2, lambda i, y: ops.cond(ops.sum(y) > i, lambda: ops.sin(y), lambda: y), layer(x))
        return x


def phases(length: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """What a compile does with a step of so many layers, and what is done with its graph."""
    x = np.ones((2, 2), np.float32)
    loss = nn.WithLossCell(nn.SequentialCell([nn.Dense(2, 2) for _ in range(2 * length)]), nn.MSELoss())
    optimizer = nn.Momentum(loss.trainable_params(), 0.1, 0.9)
    train = nn.TrainOneStepWithLossScaleCell(loss, optimizer, nn.DynamicLossScaleUpdateCell(2**16, 2, 100))
    steps: dict[str, tuple[nn.Cell, tuple[Any, ...]]] = {"train": (train, (x, x)), "loops": (Repeated(length), (x,))}
    for name, (cell, inputs) in steps.items():
        yield f"trace {name}", lambda cell=cell, inputs=inputs: graphls.trace_graph(cell, *inputs)  # type: ignore[misc]
        graph = graphls.trace_graph(cell, *inputs).graph
        for each in parse_pipeline(CPU_PASSES).passes:
            yield f"{each.name} {name}", lambda each=each, graph=graph: each.run(graph)  # type: ignore[misc]
            graph = each.run(graph)
        for work in (verify, verify_windows, Partition().run, lower, dump):
            title = f"{getattr(work, '__name__', 'partition')} {name}"
            yield title, lambda work=work, graph=graph: work(graph)  # type: ignore[misc]


def test_twice_the_graph_takes_twice_the_calls() -> None:
    large = dict(phases(40))
    for name, work in phases(20):
        small = calls_of(work)
        assert small < 200 or calls_of(large[name]) < 2.2 * small, name


def test_a_sweep_of_many_loops_copies_no_values_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    sweep = dce.sweep
    monkeypatch.setattr(dce, "sweep", lambda nodes, live: (sizes.append(len(live)), sweep(nodes, live))[1])
    dce.Dce().run(graphls.trace_graph(Repeated(20), np.ones((2, 2), np.float32)).graph)
    assert sizes[0] == 1 and sorted(sizes)[len(sizes) // 2] < 5


def test_a_deep_graph_asks_for_no_recursion() -> None:
    length = 20_000
    links = "".join(f"  %v{i + 1} = sin(%v{i}) : f32[]\n" for i in range(length))
    graph = parse(f"graph @g(%v0: f32[]) {{\n{links}  return %v{length}\n}}")
    assert len(lower(parse_pipeline("cse, dce, order").run(graph, verify=False).graph).model.graph.node) == length


def test_a_graph_in_which_many_wait_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    sines = "".join(f"  %s{i} = sin(%x) : f32[]\n" for i in range(40))
    sums = "".join(f"  %a{i + 1} = add(%{f'a{i}' if i else 'x'}, %s{i}) : f32[]\n" for i in range(40))
    wide = parse(f"graph @g(%x: f32[]) {{\n{sines}{sums}  return %a40\n}}")
    links = "".join(f"  %v{i + 1} = sin(%v{i}) : f32[]\n" for i in range(80))
    chain = parse(f"graph @g(%v0: f32[]) {{\n{links}  return %v80\n}}")
    # Each sine waits for those in front of it, and the first sum for those behind the first sine.
    assert (cut.waits(wide), cut.waits(chain)) == (sum(range(40)) + 39, 0)
    monkeypatch.setattr(cut, "MOST_LOOKUPS", 850)
    assert cut.is_too_large(wide) and not cut.is_too_large(wide, on_host=False) and not cut.is_too_large(chain)
    monkeypatch.setattr(cut, "MOST_UNCUT", 79)
    assert cut.is_too_large(chain)
