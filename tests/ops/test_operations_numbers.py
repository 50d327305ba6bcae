"""Operator classes of what computes with numbers: the functions they stand for, and their settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls import ops
from graphls.frontend.tensors.pytree import leaves
from tests.ops.agree import agree

F32 = np.float32
X = np.random.default_rng(1).uniform(0.2, 0.9, (3, 3)).astype(F32)
Y = np.random.default_rng(2).uniform(0.2, 0.9, (3, 3)).astype(F32)
Z = np.where(X > 0.6, 0, X).astype(F32)
I, J = np.int32([6, -5, 3]), np.int32([3, 4, -2])  # noqa: E741

PLAIN: list[Any] = [
    ("ACos", np.arccos(X), (X,)),
    ("AccumulateNV2", X + Y, ((X, Y),)),
    ("Addcdiv", X + 2 * X / Y, (X, X, Y, F32(2))),
    ("Addcmul", X + 2 * X * Y, (X, X, Y, F32(2))),
    ("Atan2", np.arctan2(X, Y), (X, Y)),
    ("BiasAdd", X + Y[0], (X, Y[0])),
    ("BitwiseAnd", I & J, (I, J)),
    ("BitwiseXor", I ^ J, (I, J)),
    ("DivNoNan", np.divide(X, Z, out=np.zeros_like(X), where=Z != 0), (X, Z)),
    ("Ger", np.outer(X[0], Y[0]), (X[0], Y[0])),
    ("Invert", ~I, (I,)),
    ("Lerp", X + (Y - X) * F32(0.25), (X, Y, F32(0.25))),
    ("LogAddExp2", np.logaddexp2(X, Y), (X, Y)),
    ("Mod", np.fmod(I, J), (I, J)),
    ("MulNoNan", np.where(Z == 0, 0, Y * Z), (np.where(Z == 0, np.nan, Y).astype(F32), Z)),
    ("SquareSumAll", ((X**2).sum(), (Y**2).sum()), (X, Y)),
    ("SquaredDifference", (X - Y) ** 2, (X, Y)),
    ("Trace", np.trace(X), (X,)),
    ("TruncateDiv", np.trunc(I / J).astype(np.int32), (I, J)),
    ("TruncateMod", np.fmod(I, J), (I, J)),
    ("Xdivy", X / Y, (X, Y)),
]


@pytest.mark.parametrize(("name", "expected", "inputs"), PLAIN, ids=[case[0] for case in PLAIN])
def test_operators_without_settings(name: str, expected: Any, inputs: Any) -> None:
    operator = getattr(ops, name)()
    agree(lambda *args: operator(*args), expected, *inputs, rtol=1e-5)


CONFIGURED: list[Any] = [
    (ops.ApproximateEqual(0.2), np.abs(X - Y) < 0.2, (X, Y)),
    (ops.ArgMaxWithValue(1, True), (X.argmax(1)[:, None], X.max(1, keepdims=True)), (X,)),
    (ops.ArgMinWithValue(), (X.argmin(0), X.min(0)), (X,)),
    (ops.Cross(dim=1), np.cross(X, Y), (X, Y)),
    (ops.Cummax(axis=0), (np.maximum.accumulate(X), None), (X,)),
    (ops.Cummin(0), (np.minimum.accumulate(X), None), (X,)),
    (ops.Einsum("ij,kj->ik"), X @ Y.T, ((X, Y),)),
    (ops.IsClose(rtol=0.5), np.isclose(X, Y, rtol=0.5), (X, Y)),
    (ops.L2Normalize(axis=1), X / np.sqrt((X**2).sum(1, keepdims=True)), (X,)),
    (ops.LpNorm(axis=1, p=3), (X**3).sum(1) ** (1 / 3), (X,)),
    (ops.LpNorm(axis=0, keep_dims=True), np.sqrt((X**2).sum(0, keepdims=True)), (X,)),
    (ops.MatrixPower(3), np.linalg.matrix_power(X, 3), (X,)),
    (ops.NanToNum(nan=1.0), np.where(Z == 0, 1, Z), (np.where(Z == 0, np.nan, Z).astype(F32),)),
    (ops.ReduceStd(axis=1), (X.std(1, ddof=1), X.mean(1)), (X,)),
    (ops.ReduceStd(unbiased=False, keep_dims=True), (X.std(keepdims=True), X.mean(keepdims=True)), (X,)),
]


@pytest.mark.parametrize(("operator", "expected", "inputs"), CONFIGURED, ids=[repr(case[0]) for case in CONFIGURED])
def test_operators_with_settings(operator: Any, expected: Any, inputs: Any) -> None:
    has_positions = isinstance(expected, tuple) and expected[1] is None
    agree(lambda *args: operator(*args)[0] if has_positions else operator(*args),
          expected[0] if has_positions else expected, *inputs, rtol=1e-5)  # fmt: skip


def test_the_standard_deviation_comes_with_the_mean() -> None:
    assert len(leaves(ops.ReduceStd()(X))) == 2
