"""A plugin of pytest with which every step that names no device runs on the GPU."""

from __future__ import annotations

from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from graphls import api
from graphls.backends import runtime
from graphls.context import cuda_of_context
from graphls.steps.step import Compiled

LEFT_OUT = Path(__file__).with_name("left_out.txt")
"""Tests that a GPU cannot pass, a pattern of their ids and the reason on each line."""


def pytest_configure() -> None:
    """Let every step that ONNX Runtime would run on the CPU run on the GPU."""
    compiled = api._compiled

    def on_the_card(cell: Any, inputs: Any, device: Any, passes: Any, backend: str, mode: Any) -> Compiled:
        if (backend, device) == ("onnxruntime", "cpu"):
            device = cuda_of_context()
        return compiled(cell, inputs, device, passes, backend, mode)

    api._compiled = on_the_card
    runtime._warn_of_several = lambda: None  # type: ignore[assignment]  # a machine for tests may have two


def left_out() -> list[tuple[str, str]]:
    """Each pattern with its reason."""
    lines = LEFT_OUT.read_text(encoding="utf-8").splitlines()
    found = (line.partition("  # ") for line in lines if line.strip() and not line.startswith("#"))
    return [(pattern.strip(), reason) for pattern, _, reason in found if not _is_met(reason)]


def _is_met(reason: str) -> bool:
    return reason.startswith("needs ") and find_spec(reason.removeprefix("needs ")) is not None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what a GPU cannot pass."""
    patterns = left_out()
    for item in items:
        reason = next((reason for pattern, reason in patterns if fnmatch(item.nodeid, f"{pattern}*")), None)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"left out: {reason}"))
