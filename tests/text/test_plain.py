"""Names and numbers as text that stays in its place."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphls.base.text.plain import LONGEST, broken, clipped, columns, fitted, short, shortened, shown, size


@given(st.text())
def test_a_shown_name_is_one_printable_line(name: str) -> None:
    assert shown(name).isprintable()
    assert shown(name) == name or not name.isprintable() or len(name) > LONGEST


def test_hostile_names_are_escaped() -> None:
    assert shown('a\n\t\x1b[31m\u202e"<b>é漢') == 'a\\n\\t\\x1b[31m\\u202e"<b>é漢'
    assert shown("x" * 10_000) == "x" * (LONGEST - 1) + "…"
    assert shown("\ud800") == "\\ud800"


def test_a_long_name_is_cut_to_its_columns() -> None:
    assert (shown("abcdef", 6), shown("abcdefg", 6)) == ("abcdef", "abcde…")
    assert (shown("雪" * 4, 6), shown("\n\n\n\n", 6)) == ("雪雪…", "\\n\\n\\…")
    assert shown("e\u0301" * 5, 6) == "e\u0301" * 3 + "…"


@given(st.text(), st.integers(1, 9))
def test_a_name_takes_no_more_columns_than_it_may(name: str, most: int) -> None:
    assert columns(shown(name, most)) <= most


@pytest.mark.parametrize(
    ("text", "most", "end", "middle"),
    [("abcde", 5, "abcde", "abcde"), ("abcdefg", 5, "abcd…", "ab…fg"), ("abcdefg", 4, "abc…", "ab…g"),
     ("ab", 1, "…", "…"), ("", 1, "", "")],
)  # fmt: skip
def test_long_texts_lose_their_end_or_their_middle(text: str, most: int, end: str, middle: str) -> None:
    assert (clipped(text, most), shortened(text, most)) == (end, middle)


@given(st.text().map(shown), st.integers(1, 40), st.booleans())
def test_a_fitted_text_takes_its_columns(text: str, width: int, right: bool) -> None:
    found = fitted(text, width, right)
    assert columns(found) == width
    assert text in found if columns(text) <= width else found.strip().endswith("…")


def test_wide_and_combining_characters_have_their_columns() -> None:
    assert (columns("abc"), columns("漢字"), columns(unicodedata.normalize("NFD", "é"))) == (3, 4, 1)
    assert (fitted("漢字漢字", 6), fitted("ab", 4), fitted("ab", 4, right=True)) == ("漢字… ", "ab  ", "  ab")


SIZES = [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536, "1.5 KiB"), (10**6, "977 KiB"), (2**40, "1.0 TiB")]
COUNTS = [(0, "0"), (999, "999"), (1000, "1.00 k"), (9_994, "9.99 k"), (9_996, "10.0 k"), (999_600, "1.00 M")]


@pytest.mark.parametrize(("count", "text"), [*SIZES, (2**20 - 1, "1.0 MiB"), (2**55, "32768 TiB")])
def test_sizes(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.parametrize(("count", "text"), [*COUNTS, (99_960, "100 k"), (2 * 10**21, "2000 E")])
def test_counts(count: int, text: str) -> None:
    assert short(count) == text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("backbone.layers.0.conv", ["backbone.", "layers.0.", "conv"]),
        ("@first, @second, @third", ["@first,", "@second,", "@third"]),
        ("encoder/attention/out", ["encoder/", "attention/", "out"]),
        ("a_long_name_in_words", ["a_long_", "name_in_", "words"]),
        ("NamesInCamelCase", ["NamesIn", "CamelCase"]),
        ("abcdefghijklmnop", ["abcdefghij", "klmnop"]),
        ("\u4f60\u597d\u4f60\u597d\u4f60\u597d", ["\u4f60\u597d\u4f60\u597d\u4f60", "\u597d"]),
        ("short", ["short"]),
        ("", [""]),
    ],
)
def test_lines_are_broken_where_names_are(text: str, lines: list[str]) -> None:
    assert broken(text, 10) == lines
