"""docs/onnx.md lists the operators that there are."""

from __future__ import annotations

from tools.onnx_operators import PAGE, filled


def test_the_list_of_operators_is_that_of_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "run `python -m tools.onnx_operators`"
    assert "`Conv`" in page and "| com.microsoft | contrib_attention | `Attention`" in page
