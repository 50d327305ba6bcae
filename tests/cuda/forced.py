"""A plugin of pytest with which every step that names no device runs on the GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphls import api
from graphls.context import cuda_of_context
from graphls.ir.sharding import Mesh
from graphls.runtime.devices import Cuda
from graphls.runtime.onnxruntime import runtime
from graphls.runtime.target import ExecutionTarget
from tests.left_out import skip_left_out

LEFT_OUT = Path(__file__).with_name("left_out.txt")
"""Tests that a GPU cannot pass."""


def pytest_configure() -> None:
    """Let every step that ONNX Runtime would run on the CPU run on the GPU."""
    api.ExecutionTarget = _target  # type: ignore[assignment,misc]
    runtime._warn_of_conflict = lambda: None  # type: ignore[assignment]  # a machine for tests may have two


def _target(backend: str, device: str | Cuda, engine: str, mesh: Mesh | None = None) -> ExecutionTarget:
    forced = (backend, device) == ("onnxruntime", "cpu")
    return ExecutionTarget(backend, cuda_of_context() if forced else device, engine, mesh)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what a GPU cannot pass."""
    skip_left_out(items, LEFT_OUT)
