"""A session computes on the cores that its process may use."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls.runtime.onnxruntime import session_options


def machine(monkeypatch: pytest.MonkeyPatch, folder: Path, count: int, allowed: set[int]) -> None:
    """A machine of cores with two processors each, `n` and `n + count / 2`, and a process that may use some."""
    half = count // 2
    for number in range(count):
        topology = folder / f"cpu{number}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{number % half},{number % half + half}\n")
    monkeypatch.setattr(session_options, "CPUS", folder)
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: allowed, raising=False)


@pytest.mark.parametrize(
    ("allowed", "expected"),
    [({0}, 1), ({0, 1, 2}, 3), ({0, 4}, 1), ({0, 1, 4, 5}, 2), (set(range(8)), 0), ({40}, 1)],
)
def test_threads_are_the_cores_that_a_process_may_use(
    allowed: set[int], expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, tmp_path, 8, allowed)
    assert session_options.threads() == expected


@pytest.mark.parametrize(
    ("allowed", "limit", "expected"), [({0, 1, 2}, 2, 2), ({0, 1, 2}, 30, 3), (set(range(8)), 3, 3), ({0}, 0, 1)]
)
def test_threads_are_no_more_than_the_context_allows(
    allowed: set[int], limit: int, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(monkeypatch, tmp_path, 8, allowed)
    graphls.set_context(runtime_num_threads=limit)
    try:
        assert session_options.threads() == expected
    finally:
        graphls.reset_context()
    assert session_options.threads() == (0 if len(allowed) == 8 else len(allowed))


def test_systems_that_do_not_tell_leave_it_to_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert session_options.threads() == 0


def test_a_session_is_opened_with_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import onnxruntime

    threads, microseconds = list[int](), set[str]()
    session = onnxruntime.InferenceSession

    def opened(model: Any, options: Any, **others: Any) -> Any:
        threads.append(options.intra_op_num_threads)
        microseconds.add(options.get_session_config_entry("session.intra_op.spin_duration_us"))
        return session(model, options, **others)

    monkeypatch.setattr(onnxruntime, "InferenceSession", opened)
    x = np.ones(3, np.float32)
    graphls.compile(lambda x: x + 1.0, x)
    machine(monkeypatch, tmp_path, 8, {0, 1, 2})
    graphls.compile(lambda x: x + 1.0, x)
    assert threads == [0, 3]
    assert microseconds == {"200"}  # then they leave their cores to the workers of a dataset
