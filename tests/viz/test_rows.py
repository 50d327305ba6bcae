"""Places of boxes in rows: order and gaps hold, lines are straight where they can be."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from graphls.inspect.viz.rows import aligned, ordered


@given(st.data())
@settings(max_examples=50)
def test_the_order_stays_and_gaps_are_kept(data: st.DataObject) -> None:
    rows = [[f"{i}.{j}" for j in range(n)] for i, n in enumerate(data.draw(st.lists(st.integers(1, 6), max_size=5)))]
    boxes = [box for row in rows for box in row]
    widths = {box: data.draw(st.floats(1, 300)) for box in boxes}
    steps = [(s, t) for above, below in pairwise(rows) for s in above for t in below if data.draw(st.booleans())]
    middle = aligned(rows, widths, widths, steps, {box for box in boxes if widths[box] < 100}, 7)
    for row in rows:
        for left, right in pairwise(row):
            assert middle[right] - middle[left] >= (widths[left] + widths[right]) / 2 + 7 - 1e-6


def test_a_chain_is_straight_beside_other_boxes() -> None:
    rows = [["a", "other"], ["b"], ["left", "c"]]
    widths = {"a": 50.0, "other": 90.0, "b": 10.0, "left": 200.0, "c": 50.0}
    middle = aligned(rows, widths, widths, [("a", "b"), ("b", "c")], (), 10)
    assert abs(middle["a"] - middle["b"]) < 1 and abs(middle["b"] - middle["c"]) < 1


def test_a_box_stands_in_the_middle_of_its_users() -> None:
    rows = [["a"], ["b", "c"]]
    middle = aligned(rows, dict.fromkeys("abc", 20.0), dict.fromkeys("abc", 1.0), [("a", "b"), ("a", "c")], (), 10)
    assert abs(middle["b"] + middle["c"] - 2 * middle["a"]) < 1e-6 and middle["c"] - middle["b"] == 30


def test_an_order_that_crosses_nothing_is_found_and_kept() -> None:
    rows = [["a", "b", "c"], ["x", "y", "z"]]
    crossed = [("a", "z"), ("b", "y"), ("c", "x")]
    above, below = ordered(rows, crossed)
    assert [above.index(s) - below.index(t) for s, t in crossed] == [0, 0, 0]
    assert ordered(rows, [("a", "x"), ("b", "y"), ("c", "z")]) == rows
