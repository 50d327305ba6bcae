"""Names as text in which nothing hides."""

from __future__ import annotations

from graphls.viz.plain import columns, plain


def test_what_has_no_shape_is_escaped() -> None:
    assert plain("a\nb\x00\x1b\u202e\ud800") == "a\\u000ab\\u0000\\u001b\\u202e\\ud800"
    assert plain("Grüße 雪 \U000e0001") == "Grüße 雪 \\U000e0001"


def test_a_long_name_is_cut_with_an_ellipsis() -> None:
    assert plain("abcdef", 6) == "abcdef" and plain("abcdefg", 6) == "abcde…"
    assert plain("雪" * 4, 6) == "雪雪…" and plain("\n\n", 6) == "\\u000…"
    assert columns(plain("x" * 10_000, 40)) == 40


def test_columns() -> None:
    assert [columns(text) for text in ("abc", "雪", "e\u0301", "")] == [3, 2, 1, 0]
