"""Products of float64 batches, whose transposed operands ONNX Runtime would fuse into an operator of float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls import ops
from tests.ops.agree import agree

RNG = np.random.default_rng(2)
A, B, MATRIX = (RNG.normal(size=s) for s in ((2, 4, 3), (2, 5, 3), (5, 3)))
SWAPPED = B.swapaxes(1, 2)

CASES: list[Any] = [
    (lambda a, b, m: ops.matmul(a, ops.swapaxes(b, 1, 2)), A @ SWAPPED),
    (lambda a, b, m: ops.matmul(a, ops.transpose(m, (1, 0))), A @ MATRIX.T),
    (lambda a, b, m: ops.matmul(ops.swapaxes(a, 1, 2), a), A.swapaxes(1, 2) @ A),
    (lambda a, b, m: ops.BatchMatMul(transpose_b=True)(a, b), A @ SWAPPED),
    (lambda a, b, m: ops.BatchMatMul(transpose_a=True)(ops.swapaxes(a, 1, 2), ops.swapaxes(b, 1, 2)), A @ SWAPPED),
    (lambda a, b, m: ops.grad(lambda a: ops.sum(ops.matmul(a, ops.swapaxes(b, 1, 2)) * (A @ SWAPPED)))(a),
     A @ SWAPPED @ B),
    (lambda a, b, m: ops.matmul(a[None], ops.swapaxes(b, 1, 2)), (A @ SWAPPED)[None]),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_products(number: int) -> None:
    function, expected = CASES[number]
    agree(function, expected, A, B, MATRIX, rtol=1e-12, atol=1e-12)
