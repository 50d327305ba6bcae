"""A program in the compile cache starts without tracing, and one that cannot be loaded is compiled again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Parameter, nn, ops
from graphls.context import reset_context, set_cache_dir
from graphls.ir.errors import GraphIndexError
from graphls.runtime import cache
from graphls.runtime.cache import Cache
from graphls.runtime.xla.program import Program

jax = pytest.importorskip("jax")

X = np.arange(3.0**4, dtype=np.float32).reshape(3, 3, 3, 3)
PLACES = np.zeros((3, 3, 3, 3), np.int32)


class Sums(nn.Cell):
    """A state, and indices that are computed and so are tested in the program."""

    def __init__(self) -> None:
        super().__init__()
        self.last = Parameter(np.zeros((3, 3, 3), np.float32), name="last")

    def construct(self, x: Any, places: Any) -> Any:
        last = ops.assign(self.last, x.sum(0))
        return ops.gather_elements(x, 1, ops.flip(places, [0])), last


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(cache, "FEWEST", 1)
    Cache.has_warned.clear()
    set_cache_dir(tmp_path)
    yield tmp_path
    reset_context()


def compiled() -> tuple[Any, Sums]:
    cell = Sums()
    return graphls.compile(cell, X, PLACES, engine="xla"), cell


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.compiled"))


def test_a_second_step_neither_traces_nor_compiles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = compiled()
    expected = [result.asnumpy() for result in first(X, PLACES)]
    assert len(entries(folder)) == 1
    monkeypatch.setattr(Program, "_lowered", None)
    second, cell = compiled()
    for _ in range(2):
        for result, wanted in zip(second(X, PLACES), expected, strict=True):
            np.testing.assert_array_equal(result.asnumpy(), wanted)
    np.testing.assert_array_equal(cell.last.asnumpy(), X.sum(0))
    with pytest.raises(GraphIndexError, match=r"index is out of range. \(.*test_cache.py:"):
        second(X, PLACES + 7)
    np.testing.assert_array_equal(cell.last.asnumpy(), X.sum(0))
    assert len(second(X, PLACES)) == len(expected)


@pytest.mark.parametrize("part", ["program", "table"])
def test_an_entry_that_jax_refuses_is_compiled_again(folder: Path, part: str) -> None:
    compiled()
    (path,) = entries(folder)
    kept = Cache(folder)
    parts = {name: bytes(data) for name, data in (kept.load(path.stem) or {}).items()}
    assert set(parts) == {"program", "table"}
    kept.keep(path.stem, parts | {part: b'{"checks": [100000]}' if part == "table" else b"foreign"})
    with pytest.warns(UserWarning, match="is damaged and is made again"):
        step, _ = compiled()
    np.testing.assert_array_equal(step(X, PLACES)[1].asnumpy(), X.sum(0))
    assert {name: bytes(data) for name, data in (kept.load(path.stem) or {}).items()}["table"] == parts["table"]


def test_an_entry_that_is_cut_short_is_compiled_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    (path,) = entries(folder)
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[: whole // 2])
    compiled()
    assert path.stat().st_size >= whole // 2
    monkeypatch.setattr(Program, "_lowered", None)
    compiled()


def test_other_flags_versions_and_machines_are_other_entries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    compiled()
    monkeypatch.setattr(jax, "__version__", "99.9")
    compiled()
    monkeypatch.setattr(cache, "machine", lambda: "another")
    compiled()
    assert len(entries(folder)) == 4
