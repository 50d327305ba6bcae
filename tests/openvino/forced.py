"""A plugin of pytest with which every step that names no engine runs on OpenVINO."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphls import api
from graphls.ir.graph import Graph
from graphls.runtime.target import ExecutionTarget
from tests.left_out import skip_left_out
from tests.openvino.whole import is_taken, on_openvino

LEFT_OUT = Path(__file__).with_name("left_out.txt")
"""Tests that are about ONNX Runtime, or that OpenVINO cannot pass."""


def pytest_configure() -> None:
    """Let every step that names no engine run on OpenVINO where that takes it."""
    api.ExecutionTarget = _target  # type: ignore[assignment,misc]


def _target(backend: str, device: Any, engine: str) -> ExecutionTarget:
    forced = (backend, device, engine) == ("onnxruntime", "cpu", "onnxruntime")
    return ExecutionTarget(backend, device, "openvino" if forced else engine)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what OpenVINO cannot pass."""
    skip_left_out(items, LEFT_OUT)


@pytest.fixture(autouse=True, scope="session")
def primitives_on_openvino() -> Iterator[None]:
    """The tests of single primitives, which run models of their own, run their graphs on OpenVINO."""
    from graphls.inspect.testing import laws

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(laws, "run", _run(laws.run))
        yield


def _run(otherwise: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def run(lowered: Any, graph: Graph, arrays: list[Any]) -> list[Any]:
        if is_taken(graph):
            return on_openvino(graph).run(arrays)
        return otherwise(lowered, graph, arrays)

    return run
