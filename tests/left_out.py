"""Tests that a device or an engine cannot pass: a pattern of their ids and the reason on each line of a file."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import pytest


def left_out(file: Path) -> list[tuple[str, str]]:
    """Each pattern with its reason."""
    lines = file.read_text(encoding="utf-8").splitlines()
    found = (line.partition("  # ") for line in lines if line.strip() and not line.startswith("#"))
    return [(pattern.strip(), reason) for pattern, _, reason in found if not _is_met(reason)]


def _is_met(reason: str) -> bool:
    return reason.startswith("needs ") and find_spec(reason.removeprefix("needs ")) is not None


def skip_left_out(items: Iterable[pytest.Item], file: Path) -> None:
    """Skip the tests of a file, with their reasons."""
    patterns = left_out(file)
    for item in items:
        reason = next((reason for pattern, reason in patterns if fnmatch(item.nodeid, f"{pattern}*")), None)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"left out: {reason}"))
