"""Which package of ONNX Runtime is there, and what is said where none is, or more than one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.ir.errors import GraphRuntimeError
from graphls.runtime.onnxruntime import runtime
from graphls.runtime.onnxruntime.runtime import check_provider

X = np.ones((2, 3), np.float32)


@pytest.fixture(autouse=True)
def unwarned() -> Iterator[None]:
    runtime._warn_of_conflict.cache_clear()
    yield
    runtime._warn_of_conflict.cache_clear()


def installed(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr(runtime, "package_version", lambda name: "1.0" if name in names else None)


def test_one_package_is_installed_here() -> None:
    assert len([name for name in runtime.PACKAGES if runtime.package_version(name)]) == 1
    assert runtime.conflict() == ""


def test_two_packages_are_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "onnxruntime", "onnxruntime-gpu")
    with pytest.warns(UserWarning) as caught:
        graphls.compile(nn.ReLU(), X)
        graphls.compile(nn.ReLU(), X)
    (warning,) = caught
    assert "onnxruntime and onnxruntime-gpu are installed and overwrite each other" in str(warning.message)
    assert "run pip uninstall onnxruntime onnxruntime-gpu, then pip install" in str(warning.message)
    assert Path(warning.filename).name == "test_runtime.py"


def test_what_is_left_of_two_packages_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", ModuleType("onnxruntime"))
    installed(monkeypatch, "onnxruntime-gpu")
    with pytest.raises(graphls.GraphlsError, match=r"damaged.*uninstall onnxruntime-gpu, then run pip install.*cpu\]"):
        graphls.compile(nn.ReLU(), X)


def test_a_provider_that_did_not_load_is_told() -> None:
    session = SimpleNamespace(get_providers=lambda: ["CPUExecutionProvider"])
    check_provider(session, "cpu")
    with pytest.raises(RuntimeError, match="CUDAExecutionProvider could not be loaded"):
        check_provider(session, "cuda")


def loading_raises(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException) -> None:
    """Let a module be there whose code raises an error."""

    class Loader:
        def find_spec(self, full_name: str, *_: object) -> object:
            return ModuleSpec(full_name, self) if full_name == name else None  # type: ignore[arg-type]

        def create_module(self, spec: object) -> None:
            return None

        def exec_module(self, module: object) -> None:
            raise error

    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "meta_path", [Loader(), *sys.meta_path])


def initialization_failed(cause: BaseException) -> ImportError:
    """What an extension module makes of whatever ends its initialization."""
    error = ImportError("initialization failed")
    error.__cause__ = cause
    return error


def test_a_package_that_cannot_be_loaded_is_not_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    name, load = "onnxruntime", runtime.load_runtime
    with monkeypatch.context() as patch:
        loading_raises(patch, name, initialization_failed(OSError("libfoo.so")))
        with pytest.raises(GraphRuntimeError, match=r"is installed and cannot be loaded \(initialization failed\)"):
            load()
    with monkeypatch.context() as patch:
        loading_raises(patch, name, ModuleNotFoundError("No module named 'numbers_of_old'", name="numbers_of_old"))
        with pytest.raises(GraphRuntimeError, match=r"is installed and cannot be loaded .*numbers_of_old"):
            load()
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(GraphRuntimeError, match=r"is not installed .* run pip install"):
        load()


def test_an_interrupt_while_a_package_is_loaded_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    loading_raises(monkeypatch, "onnxruntime", initialization_failed(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        runtime.load_runtime()
