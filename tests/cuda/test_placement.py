"""Where operators run on a card, against the tables of kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphls.inspect.testing.samples import in_dtype, single
from graphls.ir.types import bfloat16, float16, float32, float64
from tests.cuda.placed import compared
from tests.networks.placements import graph_of
from tests.networks.steps import FORMS, NETWORKS
from tests.primitives.test_every_primitive import PRIMITIVES

Note = Callable[[str], None]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_runs_where_the_tables_say(name: str, form: str, note: Note, tmp_path: Path) -> None:
    ran, wrong = compared(graph_of(name, form), "cuda", tmp_path)
    note(f"{name} {form}: {ran} operators ran, {len(wrong)} elsewhere than predicted")
    assert ran and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", [float16, float32, float64, bfloat16], ids=str)
def test_samples_run_where_the_tables_say(dtype: Any, note: Note, tmp_path: Path) -> None:
    """Those that fall to the CPU, too."""
    count, wrong = 0, []
    for primitive in PRIMITIVES:
        for sample in primitive.samples:
            ran, others = compared(single(primitive, sample, in_dtype(sample, dtype)), "cuda", tmp_path)
            count, wrong = count + ran, wrong + others
    note(f"{dtype}: {count} operators of samples ran, {len(wrong)} elsewhere than predicted")
    assert count and not wrong, "\n".join(wrong)
