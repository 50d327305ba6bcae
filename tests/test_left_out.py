"""What engines, devices and settings leave out of the tests are tests that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import cut
from tests.cuda import forced as cuda
from tests.forced_engine import ENGINES, left_out_on
from tests.left_out import left_out

ROOT = Path(__file__).parent.parent


FILES = {"cuda": cuda.LEFT_OUT, "cut": cut.LEFT_OUT, **{engine: left_out_on(engine) for engine in ENGINES}}


@pytest.mark.parametrize("file", FILES.values(), ids=FILES)
def test_what_is_left_out_exists(file: Path) -> None:
    for pattern, reason in left_out(file):
        path, _, name = pattern.partition("::")
        source = (ROOT / path).read_text(encoding="utf-8")
        assert reason, pattern
        assert not name or f"def {name.partition('[')[0]}(" in source, pattern
