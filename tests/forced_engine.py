"""A plugin of pytest with which every step that names no engine runs on another one than ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphls import api
from graphls.base.sharing.storage import array_in
from graphls.inspect.testing import laws
from graphls.ir.graph import Graph
from graphls.runtime.target import ExecutionTarget
from tests.engine_sessions import is_taken, session_on
from tests.left_out import skip_left_out

ENGINES = ("onednn", "xla")
"""The engines that tests can run on."""


def left_out_on(engine: str) -> Path:
    """The file of the tests that are about ONNX Runtime, or that an engine cannot pass."""
    return Path(__file__).with_name(engine) / "left_out.txt"


class ForcedEngine:
    """Lets every step that names no engine run on this one where that takes it."""

    def __init__(self, engine: str) -> None:
        self.engine = engine

    def pytest_configure(self) -> None:
        """Put the engine in the place of ONNX Runtime, also in tests of single primitives, which run graphs alone."""
        api.ExecutionTarget = self._target  # type: ignore[assignment,misc]
        laws.run = self._run(laws.run)

    def _target(self, backend: str, device: Any, engine: str, mesh: Any = None) -> ExecutionTarget:
        forced = (backend, device, engine, mesh) == ("onnxruntime", "cpu", "onnxruntime", None)
        return ExecutionTarget(backend, device, self.engine if forced else engine, mesh)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip what the engine cannot pass."""
        skip_left_out(items, left_out_on(self.engine))

    def _run(self, otherwise: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def run(lowered: Any, graph: Graph, arrays: list[Any]) -> list[Any]:
            if is_taken(self.engine, graph):
                return [array_in(result) for result in session_on(self.engine, graph).run(arrays)]
            return otherwise(lowered, graph, arrays)

        return run
