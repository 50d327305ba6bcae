"""A forked process compiles for OpenVINO, whatever was compiled and closed before."""

from __future__ import annotations

import gc
import os
import sys

import numpy as np
import pytest

pytest.importorskip("openvino")

import graphls
from graphls import nn
from graphls.runtime.openvino import runtime
from tests.sharing.test_forks import in_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")
X = np.ones((4, 3), np.float32)


def given(width: int) -> list[float]:
    """What a step of its own gives, which is closed behind it."""
    layer = nn.Dense(3, width, weight_init="ones", has_bias=False)
    found: list[float] = graphls.compile(layer, X, engine="openvino")(X).asnumpy()[0].tolist()
    return found


def test_a_child_needs_no_threads_of_steps_that_were_closed() -> None:
    kept = graphls.compile(lambda x: x * 2.0, X, engine="openvino")
    assert given(2) == [3, 3]
    assert in_child(lambda: (given(1), in_child(lambda: given(3)), float(kept(X)[0, 0]))) == ([3], [3, 3, 3], 2)
    assert given(2) == [3, 3] and float(kept(X)[0, 0]) == 2


def test_models_for_threads_that_are_left_over_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    least = runtime._least
    monkeypatch.setattr(runtime, "_least", lambda: made.append(1) or least())
    given(2)
    gc.collect()
    in_child(bool)
    made.clear()
    in_child(bool)
    assert not made
    threads = len(os.listdir("/proc/self/task"))
    kept = graphls.compile(lambda x: x * 2.0, X, engine="openvino")
    assert float(kept(X)[0, 0]) == 2
    assert len(os.listdir("/proc/self/task")) <= threads
