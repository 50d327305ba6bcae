"""A plugin of pytest with which every step that names no device runs on the GPU."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from pathlib import Path

import pytest

from graphls import api
from graphls.backends import ort, runtime

LEFT_OUT = Path(__file__).with_name("left_out.txt")
"""Tests that a GPU cannot pass, a pattern of their ids and the reason on each line."""


def pytest_configure() -> None:
    """Change what steps run on by default."""
    os.environ["GRAPHLS_DEVICE"] = "cuda"
    assert api.compile.__kwdefaults__ is not None
    api.compile.__kwdefaults__["device"] = "cuda"
    ort.OrtSession.__init__.__defaults__ = ("cuda",)  # type: ignore[attr-defined]
    runtime._warn_of_several = lambda: None  # type: ignore[assignment]  # a machine for tests may have two


def left_out() -> list[tuple[str, str]]:
    """Each pattern with its reason."""
    lines = LEFT_OUT.read_text(encoding="utf-8").splitlines()
    found = (line.partition("  # ") for line in lines if line.strip() and not line.startswith("#"))
    return [(pattern.strip(), reason) for pattern, _, reason in found]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what a GPU cannot pass."""
    patterns = left_out()
    for item in items:
        reason = next((reason for pattern, reason in patterns if fnmatch(item.nodeid, f"{pattern}*")), None)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"left out: {reason}"))
