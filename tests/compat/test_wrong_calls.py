"""Wrong calls, of which MindSpore 2.10 has said which error they raise: here it is the same, and one of graphls."""

from __future__ import annotations

import builtins
import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from graphls import GraphlsError, Parameter, Tensor

pytestmark = pytest.mark.usefixtures("mindspore")

CALLS: list[tuple[str, str]] = json.loads(Path(__file__).with_name("wrong_calls.json").read_text(encoding="utf-8"))
"""Expressions, drawn from random ones, and the builtin error that each raises in MindSpore."""
MODULES = """
nn ops mint numpy train amp common.initializer experimental.optim experimental.optim.lr_scheduler mint.linalg mint.nn
mint.nn.functional mint.optim mint.special nn.probability.distribution ops.operations
"""


def numbers(*shape: int, d: str = "float32") -> Tensor:
    return Tensor((np.arange(int(np.prod(shape))) % 5 / 5 + 0.1).reshape(shape).astype(d))


def integers(*shape: int, d: str = "int32") -> Tensor:
    return Tensor((np.arange(int(np.prod(shape))) % 2).reshape(shape).astype(d))


def names() -> dict[str, Any]:
    """What the expressions are made of."""
    for module in MODULES.split():
        importlib.import_module(f"mindspore.{module}")
    mindspore: Any = importlib.import_module("mindspore")
    made = SimpleNamespace(
        t=numbers, i=integers, b=lambda *shape: integers(*shape, d="bool"),
        p=lambda *shape, name="p": Parameter(numbers(*shape), name=name),
    )  # fmt: skip
    return {"np": np, "ms": mindspore, "nn": mindspore.nn, "ops": mindspore.ops, "mint": mindspore.mint, **vars(made)}


def raised(call: str, known: dict[str, Any]) -> Exception | None:
    try:
        eval(call, known)
    except Exception as error:
        return error
    return None


def test_wrong_calls_raise_what_mindspore_raises() -> None:
    known = names()
    found = [(call, wanted, raised(call, known)) for call, wanted in CALLS]
    wrong = [
        (call, wanted, error)
        for call, wanted, error in found
        if not isinstance(error, GraphlsError) or not isinstance(error, getattr(builtins, wanted))
    ]
    assert len(CALLS) > 500 and not wrong
