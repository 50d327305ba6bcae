"""Hooks that give nothing are known by their code, on every version of Python."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from graphls.nn.hook_kinds import returns_none

SEEN: list[Any] = []
FOUND: dict[str, Any] = {}


def appends(cell: Any, inputs: Any, output: Any) -> None:
    SEEN.append(output)


def returns_early(cell: Any, inputs: Any, output: Any) -> None:
    if not output:
        return
    for each in inputs:
        try:
            print(each)
        finally:
            with open(each) as file:
                SEEN.append(file)


def named(name: str, cell: Any, inputs: Any, output: Any) -> None:
    FOUND[name] = output


def doubles(cell: Any, inputs: Any, output: Any) -> Any:
    return output * 2


def either(cell: Any, inputs: Any, output: Any) -> Any:
    return output or None


def sometimes(cell: Any, inputs: Any, output: Any) -> Any:
    if output:
        return output


async def later(cell: Any, inputs: Any, output: Any) -> None:
    SEEN.append(output)


def one_by_one(cell: Any, inputs: Any, output: Any) -> Any:
    yield output


class Kept:
    """Hooks that are methods, and a hook that is an object."""

    def __call__(self, cell: Any, inputs: Any, output: Any) -> None:
        self.output = output

    def looks(self, cell: Any, inputs: Any, output: Any) -> None:
        self.output = output

    def gives(self, cell: Any, inputs: Any, output: Any) -> Any:
        return self.output

    @staticmethod
    def static(cell: Any, inputs: Any, output: Any) -> None:
        SEEN.append(output)


def around() -> tuple[Any, Any, Any]:
    ends: deque[Any] = deque()
    names: set[Any] = set()
    return (lambda c, i, o: ends.append(o)), (lambda c, i, o: names.add(o)), (lambda c, i, o: ends.pop())


RECORD = Kept()
RECORD.outputs = []  # type: ignore[attr-defined]
LOOKING = [
    lambda c, i, o: RECORD.outputs.append(o.sum()),  # type: ignore[attr-defined]
    appends, returns_early, partial(named, "x"), Kept(), Kept().looks, Kept.static, *around()[:2],
    lambda c, i, o: SEEN.append(o), lambda c, i, o: SEEN.append(o.asnumpy().sum()), lambda c, i, o: FOUND.update(x=o),
    lambda c, i, o: FOUND.__setitem__("x", o), lambda c, i, o: print(o, end=""), lambda c, i, o: None,
]  # fmt: skip
GIVING = [
    doubles, either, sometimes, later, one_by_one, Kept().gives, around()[2], SEEN.append, Mock(), Kept, 3,
    lambda c, i, o: o, lambda c, i, o: o * 2, lambda c, i, o: SEEN.append(o) or o,
    lambda c, i, o: (SEEN.append(o), o)[1], lambda c, i, o: FOUND.get("x"), lambda c, i, o: unknown(o),  # noqa: F821
    lambda c, i, o: RECORD.outputs.count(o), lambda c, i, o: RECORD.unknown.append(o),  # type: ignore[attr-defined]
    lambda c, i, o: print(o) if i else o, lambda c, i, o: [SEEN.append(x) for x in o],
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LOOKING)))
def test_hooks_that_look_on(number: int) -> None:
    assert returns_none(LOOKING[number])


@pytest.mark.parametrize("number", range(len(GIVING)))
def test_hooks_that_give_something_or_that_nobody_knows(number: int) -> None:
    assert not returns_none(GIVING[number])
