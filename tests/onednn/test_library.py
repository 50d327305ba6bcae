"""How the library of oneDNN is found, and what is said where it is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import graphls
from graphls.base.errors import GraphRuntimeError, GraphValueError
from graphls.runtime.onednn import library as module


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """Look for the library again, and let others have the one that is loaded."""
    known = module.library
    module.library = module.cache(known.__wrapped__)  # type: ignore[attr-defined,assignment]
    yield
    module.library = known


def test_a_path_that_is_set_is_the_only_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "libdnnl.so.3"
    file.write_bytes(b"no library")
    monkeypatch.setenv(module.VARIABLE, str(file))
    with pytest.raises(GraphRuntimeError, match=r"GRAPHLS_ONEDNN_LIBRARY names '.*', which is not oneDNN"):
        module.library()


def test_another_library_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.VARIABLE, "libc.so.6")
    with pytest.raises(GraphRuntimeError, match="which is not oneDNN"):
        module.library()


def test_a_library_that_is_missing_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(module.VARIABLE, raising=False)
    monkeypatch.setattr(module, "_paths", lambda: iter(["/nowhere/libdnnl.so.3"]))
    with pytest.raises(GraphRuntimeError, match=r'run pip install "graphls\[onednn\]", or set GRAPHLS_ONEDNN_LIBRARY'):
        module.library()


def test_other_systems_are_told_to_take_another_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.sys, "platform", "win32")
    with pytest.raises(GraphRuntimeError, match="The engine 'onednn' runs on Linux"):
        module.library()


def test_an_old_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old:
        path, version = "/old/libdnnl.so", (2, 7, 3)

    with pytest.raises(GraphRuntimeError, match=r"/old/libdnnl.so is oneDNN 2.7.3, and graphls needs one of version 3"):
        module._checked(Old())  # type: ignore[arg-type]


def test_the_engine_is_for_cpus() -> None:
    from graphls.ir.engines import find_engine

    with pytest.raises(GraphValueError, match="The engine 'onednn' runs on 'cpu', not on 'cuda'"):
        find_engine("onednn").check("cuda")


def test_a_step_on_it_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(module.VARIABLE, "/nowhere")
    with pytest.raises(GraphRuntimeError, match="/nowhere"):
        graphls.compile(lambda x: x + 1, np.ones(2, np.float32), engine="onednn")
