"""Loops and branches that users get wrong: one sentence, the user's line, the builtin that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.ir import dump, parse, verify
from graphls.ir.errors import GraphlsError

X = np.ones((4, 3), np.float32)
WEIGHT = graphls.Parameter(np.zeros((), np.float32), name="weight")


def written(c: Any) -> Any:
    ops.assign(WEIGHT, 1.0)
    return ops.sum(c) < 3


EVERYWHERE: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: ops.scan(3, x, x), TypeError, r"The f of scan is a function, not 3\."),
    (lambda x: ops.cond(True, None, abs, x), TypeError, r"The true_fn of cond is a function, not None\."),
    (lambda x: ops.scan(lambda c, a: c, x, x), TypeError, r"function of scan gives a pair of a carry and results, not"),
    (lambda x: ops.scan(lambda c, a: ((c, c), a), x, x), TypeError, r"a carry of the structure of the one that it"),
    (lambda x: ops.scan(lambda c, a: (c[0], a), x, x), TypeError, r"takes f32\[4,3\] in its carry and gives f32\[3\];"),
    (lambda x: ops.scan(lambda c, a: (None, a), x, x), TypeError, r"takes f32\[4,3\] in its carry and gives None;"),
    (lambda x: ops.scan(lambda c, a: (c, "y"), x, x), TypeError, r"results of the function of scan are .* not 'y'\."),
    (lambda x: ops.scan(lambda c, a: (c, a), x), ValueError, r"scan takes arrays to run along, or a length\."),
    (lambda x: ops.scan(lambda c, a: (c, a), x, x, 5), ValueError, r"takes one length of 1 or more .* not 4 and 5\."),
    (lambda x: ops.scan(lambda c, a: (c, a), x, (x, x[:2])), ValueError, r"scan takes one length .* not 2 and 4\."),
    (lambda x: ops.scan(lambda c, a: (c, a), x, x, 4.0), TypeError, "'length' must be int"),
    (lambda x: ops.scan(lambda c, a: (c, a), x, length=0), ValueError, r"takes one length of 1 or more .* not 0\."),
    (lambda x: ops.scan(lambda c, a: (c, a), x, x[0, 0]), ValueError, r"along the first axis .* a f32\[\] has none\."),
    (lambda x: ops.while_loop(lambda c: c > 3, lambda c: c, x), ValueError, r"A condition is a bool of one element,"),
    (lambda x: ops.while_loop(lambda c: ops.sum(c) < 99, ops.sum, x), TypeError, r"takes f32\[4,3\] in its carry and"),
    (lambda x: ops.while_loop(ops.sum, abs, x, 0), ValueError, "'max_iterations' must be at least 1"),
    (lambda x: ops.while_loop(ops.sum, abs, x, 2.5), TypeError, "'max_iterations' must be int"),
    (lambda x: ops.fori_loop(0, x[0, 0], lambda i, c: c, x), TypeError, r"The bounds of fori_loop are integers, not"),
    (lambda x: ops.fori_loop(0, 2.5, lambda i, c: c, x), TypeError, r"The bounds of fori_loop are integers, not 2.5\."),
]
TRACED: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: ops.while_loop(written, abs, x), GraphlsError, r"condition of while_loop cannot write parameters"),
    (
        lambda x: ops.while_loop(lambda c: ops.sum(c) < 3, lambda c: ops.dropout(c, 0.5), x),
        GraphlsError,
        r"while_loop draws no random numbers, .*; give max_iterations\.",
    ),
    (
        lambda x: ops.cond(ops.sum(x) > 0, lambda c: c, lambda c: c[0], x),
        GraphlsError,
        r"must give the same type, not f32\[4,3\] and f32\[3\]\.",
    ),
]


@pytest.mark.parametrize(("use", "kind", "text"), EVERYWHERE + TRACED, ids=range(len(EVERYWHERE + TRACED)))
def test_wrong_uses_in_a_graph(use: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        graphls.compile(use, X, backend="numpy")
    check(caught.value)


@pytest.mark.parametrize(("use", "kind", "text"), EVERYWHERE, ids=range(len(EVERYWHERE)))
def test_wrong_uses_outside_of_a_graph(use: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        use(graphls.Tensor(X))
    check(caught.value)


def check(error: BaseException) -> None:
    assert isinstance(error, GraphlsError)
    assert "tests/ops/test_control_flow_faults.py:" in str(error) and "\n" not in str(error)


SCAN = """
graph @f(%x: f32[4], %h: f32[]) {
  %last, %rows = scan(%h, %x) {carries=1, length=4} : f32[], f32[4] region(%c: f32[], %r: f32[]) {
    yield %c, %r
  }
  %v = while_loop(%h) : f32[] region(%d: f32[]) {
    %p = greater(%d, %h) : bool[]
    yield %p
  } region(%e: f32[]) {
    %p2 = greater(%e, %h) : bool[]
    yield %e
  }
  return %last, %rows, %v
}
"""


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("length=4", "length=3", r"scan of length 3 takes arrays of that length, not f32\[4\]"),
        ("length=4", "length=0", "scan runs once or more, not 0 times"),
        ("f32[], f32[4] region", "f32[], f32[5] region", r"scan gives f32\[\], f32\[4\] here, not f32\[\], f32\[5\]"),
        ("%r: f32[])", "%r: f32[4])", r"A region of scan takes f32\[\], f32\[\], not f32\[\], f32\[4\]"),
        ("{carries=1", "{carries=2", r"The region of scan|length 4 takes|A region of scan takes"),
        ("yield %p", "yield %d", r"The condition of while_loop is one bool\[\], not f32\[\]"),
        ("yield %e", "yield %e, %e", r"while_loop gives f32\[\], f32\[\?\] here, not f32\[\]"),
        ("yield %e", "yield %p2", r"The region of while_loop carries f32\[\] and yields bool\[\]"),
        ("} region(%e: f32[]) {\n    %p2 = greater(%e, %h) : bool[]\n    yield %e\n  }", "}", "takes 2 regions, not 1"),
    ],
)
def test_loops_whose_parts_do_not_fit_do_not_verify(old: str, new: str, text: str) -> None:
    assert dump(verify(parse(SCAN))) == dump(parse(dump(parse(SCAN))))
    assert old in SCAN
    with pytest.raises(GraphlsError, match=text):
        verify(parse(SCAN.replace(old, new)))
