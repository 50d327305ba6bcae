"""Stacks: what a while loop keeps of each round, which loops alone may take."""

from __future__ import annotations

import numpy as np
import pytest

from graphls.ir import dump, interpret, parse, verify
from graphls.ir.errors import GraphlsError

STACKS = """
graph @f(%x: f32[4], %h: f32[4]) {
  %v, %s, %t = while_loop(%h) : f32[4], f32[?,4], f32[?,4] region(%a: f32[4]) {
    %q = sum(%a) {axis=none, keepdims=false} : f32[]
    %p = greater(%q, %q) : bool[]
    yield %p
  } region(%b: f32[4]) {
    yield %b, %b, %x
  }
  %last, %all = scan(%v, %s, %t) {carries=1, length=none, reverse=true} : f32[4], f32[?,4]
  region(%c: f32[4], %d: f32[4], %e: f32[4]) {
    yield %c, %d
  }
  %y = exp(%last) : f32[4]
  return %y
}
"""


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("return %y", "return %s", "the stack %s cannot leave the graph"),
        ("exp(%last) : f32[4]", "exp(%all) : f32[?,4]", "exp takes no stacks"),
        ("scan(%v, %s, %t)", "scan(%v, %s, %x)", r"scan without a length takes stacks, .* not f32\[\?,4\], f32\[4\]"),
        ("length=none", "length=4", r"scan of length 4 takes arrays of that length, not f32\[\?,4\]"),
        ("yield %c, %d", "yield %c, %s", r"scan stacks no stacks, .* yields f32\[\?,4\]"),
        ("@f(%x: f32[4]", "@f(%z: f32[?], %x: f32[4]", "the input %z cannot be a stack"),
        (" {\n  %v", " {\n  state @z: f32[?]\n  %v", "the state @z cannot be a stack"),
        ("f32[?,4]\n  region(%c", "f32[?,5]\n  region(%c", r"scan gives f32\[4\], f32\[\?,4\] here"),
    ],
)
def test_what_is_no_use_of_a_stack_does_not_verify(old: str, new: str, text: str) -> None:
    assert dump(verify(parse(STACKS))) == dump(parse(dump(parse(STACKS))))
    assert old in STACKS
    with pytest.raises(GraphlsError, match=text):
        verify(parse(STACKS.replace(old, new, 1)))


OTHER = """
  %w, %u = while_loop(%h) : f32[4], f32[?,4] region(%f: f32[4]) {
    %g = sum(%f) {axis=none, keepdims=false} : f32[]
    %o = less(%g, %r) : bool[]
    yield %o
  } region(%i: f32[4]) {
    %j = add(%i, %x) : f32[4]
    yield %j, %j
  }
  %last"""


def test_stacks_of_one_scan_have_one_length() -> None:
    two = STACKS.replace("  %last", OTHER).replace("%s, %t)", "%s, %u)").replace("f32[4]) {", "f32[4], %r: f32[]) {", 1)
    ones, bound = np.ones(4, np.float32), np.array(9, np.float32)
    with pytest.raises(GraphlsError, match="scan takes stacks of one length, not of 0 and 2"):
        interpret(verify(parse(two)), [ones, ones, bound])
