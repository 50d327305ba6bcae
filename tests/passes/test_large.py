"""The passes of every compile take linear time, and keep overflow windows right."""

from __future__ import annotations

import time

import pytest

from graphls.ir import Graph, parse
from graphls.passes import parse_pipeline
from graphls.passes.windows import verify_windows
from graphls.primitives.primitive import Elementwise
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


def seconds(graph: Graph) -> float:
    pipeline = parse_pipeline("fold, cse, dce")
    start = time.thread_time()
    pipeline.run(graph, verify=False)
    return time.thread_time() - start


@pytest.mark.slow
def test_passes_take_linear_time() -> None:
    small, large = chain(200), chain(1600)
    assert min(seconds(large) / seconds(small) for _ in range(3)) < 24, "8 times as long; squared would be 64"


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
