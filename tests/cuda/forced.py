"""A plugin of pytest with which every step that names no device runs on the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphls import api
from graphls.context import cuda_of_context
from graphls.runtime.devices import Cuda
from graphls.runtime.onnxruntime import runtime
from tests.left_out import skip_left_out

LEFT_OUT = Path(__file__).with_name("left_out.txt")
"""Tests that a GPU cannot pass."""


def pytest_configure() -> None:
    """Let every step that ONNX Runtime would run on the CPU run on the GPU."""
    passes, session = api._default_passes, api._session
    api._default_passes = lambda backend, device: passes(backend, _forced(backend, device))
    api._session = lambda backend, device, graph, states: session(backend, _forced(backend, device), graph, states)
    runtime._warn_of_several = lambda: None  # type: ignore[assignment]  # a machine for tests may have two


def _forced(backend: str, device: str | Cuda) -> str | Cuda:
    return cuda_of_context() if (backend, device) == ("onnxruntime", "cpu") else device


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what a GPU cannot pass."""
    skip_left_out(items, LEFT_OUT)
