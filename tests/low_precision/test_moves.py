"""Operators that only move or select elements take low dtypes, and give the same bytes on every engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, ops
from graphls.ir.types import DType, float4_e2m1fn, float8_e4m3fn, float8_e5m2
from tests.low_precision.steps import require_engine

MOVES: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.T,
    "concat": lambda x: ops.concat([x, x], 1),
    "slice": lambda x: x[1:, ::2],
    "broadcast": lambda x: ops.broadcast_to(x, (3, *x.shape)),
    "gather": lambda x: ops.gather(x, Tensor([1, 0]), 0),
    "flip": lambda x: ops.flip(x, (1,)),
    "stack": lambda x: ops.stack([x, x]),
    "pad": lambda x: ops.pad(x, (1, 1)),
    "tile": lambda x: ops.tile(x, (2, 1)),
    "repeat": lambda x: ops.repeat_interleave(x, 2, 0),
}


@pytest.mark.parametrize("engine", ["onnxruntime", "xla", "onednn"])
@pytest.mark.parametrize("name", MOVES)
@pytest.mark.parametrize("dtype", [float8_e4m3fn, float8_e5m2, float4_e2m1fn], ids=str)
def test_moves_give_the_same_bytes(name: str, dtype: DType, engine: str) -> None:
    require_engine(engine)
    x = Tensor(np.arange(16, dtype=np.uint8).reshape(2, 8).view(dtype.numpy))
    wanted, result = (graphls.compile(MOVES[name], x, engine=each)(x) for each in ("numpy", engine))
    assert result.dtype is dtype and result.shape == wanted.shape
    assert result.asnumpy().tobytes() == wanted.asnumpy().tobytes()
