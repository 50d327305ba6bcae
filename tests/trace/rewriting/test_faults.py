"""What a graph cannot do with a condition says so, with the user's line and the variable; tracing always ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.errors import GraphlsError
from tests.trace.rewriting.agree import compiled, tensor


def value_in_one_branch(x: Any, n: Any) -> Any:
    if x > 0:
        y = x
    return y


def value_in_a_loop(x: Any, n: Any) -> Any:
    while n > 0:
        y = x
        n -= 1
    return y


def another_type_in_a_loop(x: Any, n: Any) -> Any:
    total = 0
    while n > 0:
        total = total + ops.stack([x, x])
        n -= 1
    return total


def another_type_each_time(x: Any, n: Any) -> Any:
    while n > 0:
        x = ops.stack([x, x])
        n -= 1
    return x


def types_of_branches(x: Any, n: Any) -> Any:
    if x > 0:
        y = x
    else:
        y = ops.stack([x, x])
    return y + 1


def raising(x: Any, n: Any) -> Any:
    if x > 0:
        raise ValueError("too large")
    return x


def raising_in_a_try(x: Any, n: Any) -> Any:
    try:
        if x > 0:
            raise ValueError
    except ValueError:
        return x
    return -x


def asserting(x: Any, n: Any) -> Any:
    assert x > 0, "negative"
    return x


def never_ending(x: Any, n: Any) -> Any:
    while n:
        x = x + 1
    return x


def random_numbers(x: Any, n: Any) -> Any:
    while n > 0:
        x = ops.dropout(x, 0.5)
        n -= 1
    return x


def bounds_that_are_no_integers(x: Any, n: Any) -> Any:
    for _ in range(x):
        n = n + 1
    return n


def a_growing_list(x: Any, n: Any) -> Any:
    items: list[Any] = []
    while n > 0:
        items.append(x)
        n -= 1
    return items[0]


def calls_itself(x: Any, n: Any) -> Any:
    return calls_itself(x - 1, n) if x > 0 else x


def elements_of_different_types(x: Any, n: Any) -> Any:
    return [x, ops.stack([x, x])][n]


def elements_that_are_no_tensors(x: Any, n: Any) -> Any:
    return [x, "text"][n]


def several_elements(x: Any, n: Any) -> Any:
    if ops.stack([x, x]) > 0:
        x = x + 1
    return x


def swallowed(x: Any, n: Any) -> Any:
    try:
        y = x
        if max(x, 0) > 1:
            y = x * 2
    except:  # noqa: E722
        y = x * 3
    return y


def swallowed_in_a_branch(x: Any, n: Any) -> Any:
    if x > 0:
        try:
            x = max(x, 1)
        except BaseException:
            x = x * 3
    return x


FAULTS: list[tuple[Callable[..., Any], type[Exception], str]] = [
    (value_in_one_branch, UnboundLocalError, "'y' has no value where this condition is False; give it one before"),
    (value_in_a_loop, UnboundLocalError, "'y' gets a value only in this loop, which may not run"),
    (another_type_in_a_loop, TypeError, r"must keep the type of 'total', i64\[\], and gives f32\[2\]"),
    (another_type_each_time, TypeError, r"must keep the type of 'x', f32\[\], and gives f32\[2\]"),
    (types_of_branches, TypeError, r"must give 'y' the same type, not f32\[\] and f32\[2\]"),
    (raising, TypeError, r"ValueError \(too large\) is raised only where this condition on a tensor is True"),
    (raising_in_a_try, TypeError, "ValueError is raised only where this condition on a tensor is True"),
    (asserting, TypeError, r"AssertionError \(negative\) is raised only where .* is False"),
    (never_ending, TypeError, "This loop does not end once it begins"),
    (random_numbers, TypeError, "A loop draws no random numbers where the graph decides how often it runs"),
    (bounds_that_are_no_integers, TypeError, "The bounds of a range are integers"),
    (a_growing_list, TypeError, "must keep the structure of what it changes, which is a list of [01] before its body"),
    (calls_itself, RecursionError, "it calls itself without end"),
    (elements_of_different_types, TypeError, r"chooses among tensors of one type, not f32\[\] and f32\[2\]"),
    (elements_that_are_no_tensors, TypeError, "chooses among tensors of one type, not 'text'"),
    (several_elements, ValueError, r"Only a tensor of shape \(\) or \(1,\) is true or false, not bool\[2\]"),
    (swallowed, TypeError, "An `except` without a type catches"),
    (swallowed_in_a_branch, TypeError, "An `except` without a type catches"),
]


@pytest.mark.parametrize(("function", "kind", "text"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_a_fault_names_the_line(function: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        compiled(function, (2.0, 1))
    first = function.__code__.co_firstlineno
    assert isinstance(caught.value, GraphlsError) and caught.value.location is not None
    assert caught.value.location.file.endswith("test_faults.py")
    assert first < caught.value.location.line < first + 12


def test_a_variable_that_nobody_reads_may_differ() -> None:
    def unread(x: Any, n: Any) -> Any:
        if x > 0:
            note, shape = "up", ops.stack([x, x])
            y = ops.sum(shape)
        else:
            note, shape = "down", x
            y = shape
        while n > 0:
            note = x  # noqa: F841
            n -= 1
        return y

    step = compiled(unread, (2.0, 1))
    assert float(step(tensor(2.0), tensor(1))) == 4 and float(step(tensor(-2.0), tensor(1))) == -2


def test_the_lines_of_a_graph_are_the_users() -> None:
    def lines(x: Any) -> Any:
        if x > 0:
            y = ops.exp(x)
        else:
            y = ops.sin(x)
        while y > 1:
            y = ops.tanh(y)
        return y

    step = compiled(lines, (2.0,))
    first = lines.__code__.co_firstlineno
    found = {n.primitive.name: n.loc.line - first for n in graphls.ir.walk(step.stages["00_trace"]) if n.loc}
    assert {name: found[name] for name in ("cond", "exp", "sin", "while_loop", "tanh")} == {
        "cond": 1, "exp": 2, "sin": 4, "while_loop": 5, "tanh": 6
    }  # fmt: skip


def test_a_traceback_shows_the_users_lines_and_names() -> None:
    class Broken(nn.Cell):
        def construct(self, x: Any) -> Any:
            if x > 0:
                x = x + undefined  # type: ignore[name-defined]  # noqa: F821
            return x

    with pytest.raises(NameError, match="undefined") as caught:
        graphls.compile(Broken(), np.float32(1), backend="numpy")
    last = list(caught.traceback)[-1]
    assert last.name == "construct" and "x + undefined" in str(last.statement)


def test_functions_without_source_are_traced_as_they_are() -> None:
    names: dict[str, Any] = {}
    exec("def f(x):\n    if x > 0:\n        return x * 2\n    return x - 1\n", names)
    step = compiled(names["f"], (1.0,))
    assert [float(step(tensor(x))) for x in (2.0, -2.0)] == [4, -3]


def test_tracing_a_function_without_source_ends() -> None:
    names: dict[str, Any] = {}
    exec("def f(x, go):\n    while go:\n        x = x + 1\n    return x\n", names)
    with pytest.raises(graphls.TraceError, match="has been evaluated 10000 times and nothing has changed it"):
        compiled(names["f"], (1.0, 1))
