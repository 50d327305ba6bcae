"""Which kernels are right is found out by running them, and the lowering goes by it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls.primitives  # noqa: F401
from graphls.backends import kernel_checks
from graphls.backends.kernel_checks import is_right
from graphls.backends.onnx import lower
from graphls.ir import DType, parse
from graphls.ir.types import float32, float64

_ROOT = "graph @root(%x: f32[8]) { %y = sqrt(%x) : f32[8]\n return %y }"


def operators(**options: Any) -> list[str]:
    return [node.op_type for node in lower(parse(_ROOT), **options).model.graph.node]


def test_a_kernel_that_is_right_is_used_as_it_is() -> None:
    assert operators() == operators(kernel_is_right=lambda operator, dtype: True) == ["Sqrt"]


def test_a_kernel_that_is_wrong_is_gone_around() -> None:
    assert operators(kernel_is_right=lambda operator, dtype: False) == ["Cast", "Sqrt", "Cast"]


@pytest.mark.parametrize("dtype", [float32, float64])
def test_a_wrong_result_is_seen(monkeypatch: pytest.MonkeyPatch, dtype: DType) -> None:
    ours = is_right.__wrapped__
    monkeypatch.setattr(kernel_checks, "_run", lambda operator, x: np.sqrt(np.abs(x)))
    assert not ours("Sqrt", dtype)
    monkeypatch.setattr(kernel_checks, "_run", lambda operator, x: np.ceil(x) + 0.0)
    assert not ours("Ceil", dtype), "the sign of zero counts"
    monkeypatch.setattr(kernel_checks, "_run", lambda operator, x: np.floor(x))
    assert ours("Floor", dtype)


def test_the_runtime_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    is_right("Exp", float32)
    monkeypatch.setattr(kernel_checks, "_run", lambda operator, x: pytest.fail("asked again"))
    is_right("Exp", float32)
