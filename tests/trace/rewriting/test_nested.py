"""Every nest of two and three of MindSpore's control statements, against the same code in plain Python."""

from __future__ import annotations

import itertools
import linecache
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from tests.trace.rewriting.agree import assert_agrees, compiled, tensor

PARTS = {
    "if": "if x {op} {limit}:\n    {inner}\nelse:\n    x = x - {limit}",
    "elif": "if x < -{limit}:\n    x = x + n\nelif x {op} {limit}:\n    {inner}",
    "while": "i{depth} = 0\nwhile i{depth} < n:\n    {inner}\n    i{depth} = i{depth} + 1",
    "while_break": "i{depth} = 0\nwhile i{depth} < n:\n    i{depth} += 1\n    if x > 9:\n        break\n    {inner}",
    "for": "for i{depth} in range(n):\n    if i{depth} == 1:\n        continue\n    {inner}",
    "static_for": "for i{depth} in range(2):\n    {inner}\n    if x > 12:\n        break\nelse:\n    x = x - 0.5",
}
ENDS = {"assign": "x = x * 1.5 + 1", "return": "x = x + 2\nif x > 6:\n    return x * 100"}
CASES = [(1.0, 2), (-2.25, 3), (4.0, 0), (5.5, 1)]


def source_of(parts: tuple[str, ...], end: str) -> str:
    text = ENDS[end]
    for depth, part in reversed(list(enumerate(parts))):
        form = PARTS[part].replace("{depth}", str(depth)).replace("{op}", "<>"[depth % 2])
        lines = form.replace("{limit}", str(3 - depth)).split("\n")
        inner = textwrap.indent(text, "    ")
        text = "\n".join(inner if "{inner}" in line else line for line in lines)
    return "def f(x, n):\n" + textwrap.indent(text + "\nreturn x\n", "    ")


def function_of(parts: tuple[str, ...], end: str) -> Callable[[Any, Any], Any]:
    """The function, with source that a traceback, and so the tracer, finds."""
    text, name = source_of(parts, end), f"<{'_'.join(parts)}_{end}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    names: dict[str, Any] = {}
    exec(compile(text, name, "exec"), names)
    function: Callable[[Any, Any], Any] = names["f"]
    return function


PAIRS = list(itertools.product(PARTS, repeat=2))
TRIPLES = list(itertools.product(("if", "while_break", "for", "static_for"), repeat=3))


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("parts", PAIRS, ids="_in_".join)
def test_a_nest_of_two(parts: tuple[str, ...], end: str) -> None:
    assert_agrees(function_of(parts[::-1], end), CASES)


@pytest.mark.parametrize("parts", TRIPLES, ids="_in_".join)
def test_a_nest_of_three(parts: tuple[str, ...]) -> None:
    end = "return" if TRIPLES.index(parts) % 2 else "assign"
    assert_agrees(function_of(parts[::-1], end), CASES)


@pytest.mark.parametrize("parts", PAIRS[::5], ids="_in_".join)
def test_a_nest_on_the_runtime(parts: tuple[str, ...]) -> None:
    assert_agrees(function_of(parts, "return"), CASES, "onnxruntime")


@pytest.mark.parametrize("parts", PAIRS, ids="_in_".join)
def test_the_gradient_of_a_nest(parts: tuple[str, ...]) -> None:
    function = function_of(parts, "assign")
    step = compiled(graphls.grad(lambda x, n: function(x, n) * 1.0), CASES[0])
    for x, n in CASES:
        slope = (function(x + 1e-6, n) - function(x - 1e-6, n)) / 2e-6
        np.testing.assert_allclose(float(step(tensor(x), tensor(n))), slope, rtol=1e-3, err_msg=str((x, n)))
