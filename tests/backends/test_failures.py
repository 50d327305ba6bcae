"""Steps that fail in the runtime: states are as they were, or say that they are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

GOOD, BAD = np.array([0, 1]), np.array([0, 9])


class Looking(nn.Cell):
    """Counts, looks rows up, and updates the table by what it found."""

    def __init__(self) -> None:
        super().__init__()
        self.count = graphls.Parameter(np.zeros(1, np.float32), name="count")
        self.table = graphls.Parameter(np.ones((4, 3), np.float32), name="table")

    def construct(self, index: Any) -> Any:
        self.count = self.count + 1
        rows = ops.gather(self.table, index, 0)
        self.table = self.table * 2 + ops.sum(rows)
        return rows


def values(cell: Any) -> list[Any]:
    return [cell.count.asnumpy().tolist(), cell.table.asnumpy().tolist()]


def test_an_index_out_of_range_leaves_all_states_as_they_were() -> None:
    cell, twin = Looking(), Looking()
    step, other = (graphls.compile(c, GOOD) for c in (cell, twin))
    for _ in range(2):
        step(GOOD), other(GOOD)
        before = values(cell)
        with pytest.raises(graphls.GraphlsError, match="could not run the step"):
            step(BAD)
        assert values(cell) == before
    assert values(cell) == values(twin)


def test_an_index_out_of_range_names_the_cell_and_its_line() -> None:
    class Words(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(4, 3)

        def construct(self, index: Any) -> Any:
            return self.table(index)

    line = Words.construct.__code__.co_firstlineno + 1
    text = rf"could not run the step: gather of table: ind[^()']*9[^()']*\[-4,3\]\. \(\S*test_failures.py:{line}\)$"
    with pytest.raises(RuntimeError, match=text):
        graphls.compile(Words(), GOOD)(BAD)


class Failing:
    """A session that says, after it has run, that it could not."""

    def __init__(self, session: Any, text: str) -> None:
        self.session, self.text = session, text

    def run_with_iobinding(self, *arguments: Any) -> None:
        self.session.run_with_iobinding(*arguments)
        raise RuntimeError(self.text)


def failed(text: str) -> Any:
    cell = Looking()
    step = graphls.compile(cell, GOOD)
    for _ in range(2):  # so that both turns are bound
        step(GOOD)
    session = step._session.session
    inner, session._sess = session._sess, Failing(session._sess, text)
    with pytest.raises(graphls.GraphlsError, match="could not run the step"):
        step(GOOD)
    session._sess = inner
    return cell, step


def test_a_state_that_may_be_half_a_step_says_so_until_it_is_set() -> None:
    cell, step = failed("no memory")
    for use in (cell.table.asnumpy, lambda: step(GOOD), lambda: graphls.compile(Looking(), GOOD) and step(GOOD)):
        with pytest.raises(graphls.GraphlsError, match=r"'table' may be that of half a step.*no memory"):
            use()
    cell.table.set_data(np.ones((4, 3), np.float32))
    assert step(GOOD).asnumpy().tolist() == [[1, 1, 1]] * 2


def test_states_behind_the_operator_that_failed_are_intact() -> None:
    cell, step = failed("x")
    cell.table.set_data(np.ones((4, 3), np.float32))
    name = next(name for name in step._session.lowered.origins if "Gather" in name)
    cell, _ = failed(f"Name:'{name}' Status Message: no memory")
    assert len(cell.table.asnumpy()) == 4
