"""Tables keep their columns, whatever stands in them and however narrow the terminal is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphls.base.text.html import Page
from graphls.base.text.plain import columns, shown
from graphls.base.text.tables import LEAST, Table

TABLE = Table(("cell", "line", "size"), [("net", "train.py:3", "8 B"), ("  層", "-", "12 B")], 2, ("Two cells:",))


def test_labels_are_to_the_left_and_numbers_to_the_right() -> None:
    assert list(TABLE.lines()) == [
        "Two cells:",
        "cell  line        size",
        "net   train.py:3   8 B",
        "  層  -           12 B",
    ]


def test_a_page_shows_the_same_and_keeps_indentations() -> None:
    page = Page("Cells", "Two")
    TABLE.add_to(page)
    text = page.text()
    assert "<div>Two cells:</div>" in text and ">\N{NO-BREAK SPACE}\N{NO-BREAK SPACE}層</td>" in text
    assert text.count("text-align:right") == 3, "the size has a header and two rows"


NAMES = st.text(max_size=60).map(shown)


@given(st.lists(st.tuples(NAMES, NAMES, NAMES), max_size=5), st.integers(1, 3), st.integers(100, 160))
def test_no_line_is_wider_than_the_terminal(rows: list[tuple[str, str, str]], texts: int, width: int) -> None:
    table = Table(("a", "b", "c", "d"), [(*row, "1") for row in rows], texts)
    numbers = [max((columns(row[i]) for row in rows), default=1) for i in range(texts, 3)]
    for line in table.lines(width):
        assert columns(line) <= max(width, sum(numbers) + LEAST * texts + 2 * 3 + 1)


@pytest.mark.parametrize("width", [0, 20])
def test_however_narrow_it_is_labels_have_some_columns(width: int) -> None:
    (_, line) = Table(("cell", "size"), [("x" * 50, "8 B")]).lines(width)
    assert line == "x" * (max(LEAST, width - 6) - 1) + "…" + "   8 B"
