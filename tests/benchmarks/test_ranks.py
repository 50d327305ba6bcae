"""The benchmark of ranks: that it runs, and what its columns mean."""

from __future__ import annotations

import pytest

from benchmarks.ranks import line_of, main
from tests.ranks.running import needs_ranks


def answer(seconds: float, communication: float) -> dict[str, object]:
    return {"seconds": seconds, "communication": communication}


def test_columns() -> None:
    found = {"one": answer(0.1, 0.0), "apart": answer(0.11, 0.0), "joined": answer(0.125, 0.06)}
    line = line_of("gpt", "torch", 2, found)
    assert line == ("gpt", "torch", "2", "100.0", "110.0", "125.0", "80%", "60.0", "75%", "", "", "")
    found["joined"]["comparison"] = 0.00125
    assert line_of("gpt", "graphls", 2, found)[-1] == "1.000%"


@needs_ranks
@pytest.mark.slow
def test_a_small_row(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = main(["--quick", "--rows", "mlp", "--frameworks", "graphls", "--rounds", "1", "--steps", "2"])
    assert line[:3] == ("mlp", "graphls", "2") and float(line[9]) > 0 < float(line[-1].rstrip("%"))
    assert capsys.readouterr().out.startswith("row  framework  ranks")
