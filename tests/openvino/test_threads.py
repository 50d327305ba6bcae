"""Models compute on the threads that the context allows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphls
from graphls.runtime.openvino import runtime

pytest.importorskip("openvino")


def test_models_compute_on_the_threads_that_the_context_allows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    models = []
    for name in ("compiled", "imported"):
        function = getattr(runtime, name)
        monkeypatch.setattr(
            f"graphls.runtime.openvino.model.{name}", lambda *args, f=function: models.append(f(*args)) or models[-1]
        )
    x = np.ones(3, np.float32)
    graphls.set_cache_dir(tmp_path)
    try:
        for limit in (0, 1, 0):  # the first model is compiled, and the others are read from its entry
            graphls.set_context(runtime_num_threads=limit)
            graphls.compile(lambda x: x + 1.0, x, engine="openvino")(x)
    finally:
        graphls.reset_context()
        graphls.set_cache_dir(None)
    first, limited, again = (model.get_property("INFERENCE_NUM_THREADS") for model in models)
    assert limited == 1 and first == again
