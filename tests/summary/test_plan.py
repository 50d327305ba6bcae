"""What `step.plan` says: as a table, in a notebook and as data."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from tests.backends.test_plan import trained
from tests.diagnosis.test_html import check


def test_a_plan_is_a_card_and_data(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = trained(True, monkeypatch).plan
    words = check(plan._repr_html_()).words
    for line in str(plan).splitlines():
        assert all(part.strip() in words for part in line.split("  ") if part.strip())
    rows = json.loads(json.dumps([asdict(row) for row in (*plan.segments, *plan.crossing)]))
    assert {row["engine"] for row in rows if "engine" in row} == {"onnxruntime"}
    assert sum(row.bytes for row in plan.crossing) == plan.segments[0].gives
    (flag,) = (row for row in plan.crossing if row.by_host)
    assert flag.type == "bool[]" and flag.made == (0,)
    assert all(row.made[0] < number for row in plan.crossing for number in row.read)
    assert "drawn while this one runs" in plan.overlaps[0]
