"""The Hadamard transform of 16 numbers is Transformer Engine's, and products of transformed operands stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.ir import Builder, Names, Value, interpret
from graphls.ir.graph import Graph
from graphls.ir.types import type_of
from graphls.passes.precision.hadamard import transformed
from graphls.primitives.hadamard import SIGNS
from tests.passes.recipe_forms import numbers

X = numbers(32, 64)
FIRST_OF_ROW = [  # of X by Transformer Engine 2.20.2, reference_nvfp4.py, NVFP4QuantizerRef._apply_rht
    3.213958740234375, 6.268646240234375, -4.640899658203125, -4.912384033203125, -0.293670654296875,
    -3.063201904296875, 2.043609619140625, 1.190093994140625, 6.021209716796875, 3.546600341796875, -3.473541259765625,
    -6.172760009765625, -2.141693115234375, -1.237396240234375, 0.522979736328125, 2.882354736328125,
]  # fmt: skip


def hadamard(x: Any, axis: int) -> Any:
    value, e = Value("x", type_of(x)), Builder(Names(["x"]))
    y = transformed(e, value, axis)
    return interpret(Graph("main", (value,), (), tuple(e.nodes), (), (y,)), [x])[0][0]


def test_the_transform_is_that_of_transformer_engine() -> None:
    assert hadamard(X, 1)[0, :16].tolist() == FIRST_OF_ROW
    assert hadamard(np.ascontiguousarray(X.T), 0)[:16, 0].tolist() == FIRST_OF_ROW


@pytest.mark.parametrize("shape", [(32, 3), (2, 48, 3), (5, 40), (7, 3), (16,)])
@pytest.mark.parametrize("axis", [0, 1])
def test_the_transform_leaves_products_as_they_are(shape: tuple[int, ...], axis: int) -> None:
    axis = min(axis, len(shape) - 1)
    random = np.random.default_rng(0)
    x, y = random.normal(size=shape), random.normal(size=shape)
    moved = [np.moveaxis(each, axis, -1) for each in (x, y, hadamard(x, axis), hadamard(y, axis))]
    np.testing.assert_allclose((moved[0] * moved[1]).sum(-1), (moved[2] * moved[3]).sum(-1), atol=1e-12)


def test_the_transform_is_a_hadamard_matrix_with_signs() -> None:
    bits = np.array([[bin(i & j).count("1") for j in range(16)] for i in range(16)])
    matrix = np.diag(SIGNS) @ (-1.0) ** bits / 4
    np.testing.assert_array_equal(hadamard(np.eye(16), 1), matrix)
    np.testing.assert_array_equal(matrix @ matrix.T, np.eye(16))
