"""Kinds of kernels are listed, and add up to the step."""

from __future__ import annotations

import pytest

from benchmarks.peers.kernels import main


def test_kinds_of_kernels_add_up(capsys: pytest.CaptureFixture[str]) -> None:
    main(["mlp", "graphls", "--quick", "--steps", "2"])
    header, _, *lines = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in capsys.readouterr().out.splitlines()
    ]
    kinds = {kind: (float(ms), number) for kind, ms, number in lines}
    assert header == ["kernel", "ms", "number"]
    assert any(kind.endswith("of matmul") for kind in kinds)
    whole = kinds.pop("step, profiled")[0]
    assert sum(ms for ms, _ in kinds.values()) == pytest.approx(whole, abs=0.02 * len(kinds))
