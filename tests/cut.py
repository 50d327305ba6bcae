"""Steps that are cut at every update that may be skipped, however small: a plugin of pytest, `--cut`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from graphls.passes.schedule.partition import Partition
from graphls.runtime import target
from tests.left_out import skip_left_out

LEFT_OUT = Path(__file__).with_name("cut_left_out.txt")
"""Tests that are about a step in one session."""


def everywhere(engine: str = "onnxruntime") -> Callable[..., Partition]:
    """What stands for the pass of `compile`: one that cuts, and whose engine is this where a step names none."""
    return lambda named, skips=True: Partition(engine if named == "onnxruntime" else named, skips, 0)


def pytest_configure() -> None:
    """Cut every step."""
    target.Partition = everywhere()  # type: ignore[misc, assignment]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what looks into the one session of a step."""
    skip_left_out(items, LEFT_OUT)
