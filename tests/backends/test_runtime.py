"""Which package of ONNX Runtime is there, and what is said where none is, or more than one."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.backends.onnxruntime import runtime
from graphls.backends.onnxruntime.availability import check_provider

X = np.ones((2, 3), np.float32)


@pytest.fixture(autouse=True)
def unwarned() -> Iterator[None]:
    runtime._warn_of_several.cache_clear()
    yield
    runtime._warn_of_several.cache_clear()


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
