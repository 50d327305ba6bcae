"""A plugin of pytest with which every step that names no engine runs on OpenVINO."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from graphls import api
from graphls.ir.graph import Graph
from tests.left_out import skip_left_out
from tests.openvino.whole import is_taken, on_openvino

LEFT_OUT = Path(__file__).with_name("left_out.txt")
"""Tests that are about ONNX Runtime, or that OpenVINO cannot pass."""


_open_session = api._session


def pytest_configure() -> None:
    """Let every step that names no engine run on OpenVINO where that takes it."""
    api._session = _session


def _session(name: str, device: Any, engine: str, graph: Graph, states: Any) -> Any:
    """A session as the project opens it; a function with a name, so that steps which hold it can be pickled."""
    return _open_session(name, device, _forced(name, device, engine), graph, states)


def _forced(backend: str, device: Any, engine: str) -> str:
    return "openvino" if (backend, device, engine) == ("onnxruntime", "cpu", "onnxruntime") else engine


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
