"""Keep the graphs of today."""

from __future__ import annotations

from tests.step_graphs.steps import STEPS, keep

for step in STEPS:
    keep(step)
