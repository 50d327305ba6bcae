"""A plugin of pytest with which every step that names no engine runs on OpenVINO."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphls import api
from graphls.backends.openvino.engine import takes
from graphls.backends.openvino.session import OpenvinoSession
from graphls.ir.graph import Graph
from tests.left_out import skip_left_out

LEFT_OUT = Path(__file__).with_name("left_out.txt")
"""Tests that are about ONNX Runtime, or that OpenVINO cannot pass."""


def pytest_configure() -> None:
    """Let every step that ONNX Runtime would run on the CPU run on OpenVINO."""
    session = api._session
    api._session = lambda name, device, graph, states: session(_forced(name, device, graph), device, graph, states)


def _forced(backend: str, device: Any, graph: Graph) -> str:
    return "openvino" if (backend, device) == ("onnxruntime", "cpu") and all(map(takes, graph.nodes)) else backend


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what OpenVINO cannot pass."""
    skip_left_out(items, LEFT_OUT)


@pytest.fixture(autouse=True, scope="session")
def primitives_on_openvino() -> Iterator[None]:
    """The tests of single primitives, which run models of their own, run their graphs on OpenVINO."""
    from tests.primitives import test_every_primitive

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(test_every_primitive, "run", _run(test_every_primitive.run))
        yield


def _run(otherwise: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def run(lowered: Any, graph: Graph, arrays: list[Any]) -> list[Any]:
        if all(map(takes, graph.nodes)):
            return OpenvinoSession(graph, {}).run(arrays)
        return otherwise(lowered, graph, arrays)

    return run
