"""A plugin of pytest with which every step that names no device runs on the GPU."""

from __future__ import annotations

from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path

import pytest

from graphls import api
from graphls.backends.devices import Cuda
from graphls.backends.onnxruntime import runtime
from graphls.context import cuda_of_context

LEFT_OUT = Path(__file__).with_name("left_out.txt")
"""Tests that a GPU cannot pass, a pattern of their ids and the reason on each line."""


def pytest_configure() -> None:
    """Let every step that ONNX Runtime would run on the CPU run on the GPU."""
    passes, session = api._default_passes, api._session
    api._default_passes = lambda backend, device: passes(backend, _forced(backend, device))
    api._session = lambda backend, device, graph, states: session(backend, _forced(backend, device), graph, states)
    runtime._warn_of_several = lambda: None  # type: ignore[assignment]  # a machine for tests may have two


def _forced(backend: str, device: str | Cuda) -> str | Cuda:
    return cuda_of_context() if (backend, device) == ("onnxruntime", "cpu") else device


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
