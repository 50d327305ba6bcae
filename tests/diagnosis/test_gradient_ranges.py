"""The ranges of scaled gradients, against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.ir.errors import GraphKeyError
from tests.diagnosis.networks import BACKENDS, F32, Net, X, Y, identity, scaled_cell, scaled_step, skips_at

COLUMNS = np.array([[1.0, 2.0**-9, 2.0**-13, 0.0]], F32)
"""What the inputs of the four weights are: one gradient is normal, one subnormal, one flushed to zero, one zero."""


class OneColumn(nn.Cell):
    """The sum of x @ weight in a dtype: the gradient of weight i is the scale times x_i, for all rows."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.ones((4, 1), F32), name="weight")
        self.to_float(dtype)

    def construct(self, x: Any) -> Any:
        return ops.sum(ops.cast(ops.matmul(x, self.weight), graphls.float32))


def summed(dtype: Any, scale: float, backend: str) -> Any:
    network = OneColumn(dtype)
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(network, optimizer, nn.FixedLossScaleUpdateCell(scale))
    return graphls.compile(cell, COLUMNS, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_flushed_and_subnormal(backend: str) -> None:
    scale = 2.0**-12
    found = summed(graphls.float16, scale, backend).gradient_ranges(COLUMNS)
    expected = (np.float32(scale) * COLUMNS).astype(np.float16)
    assert expected.tolist() == [[2.0**-12, 2.0**-21, 0.0, 0.0]]
    (weight,) = found
    assert (weight.name, weight.dtype, weight.size) == ("weight", graphls.float16, 4)
    assert (weight.least, weight.largest, weight.wide_largest) == (2.0**-21, 2.0**-12, 2.0**-12)
    assert (weight.flushed, weight.subnormal, weight.not_finite) == (0.25, 0.25, 0.0)
    assert weight.head_room == pytest.approx(np.log2(65504 * 2.0**12))
    assert found.scale == scale


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_overflows_is_known_in_float32(backend: str) -> None:
    found = summed(graphls.float16, 2.0**20, backend).gradient_ranges(COLUMNS)
    weight = found["weight"]
    assert weight.not_finite > 0 and weight.wide_largest == 2.0**20
    assert weight.head_room == pytest.approx(np.log2(65504) - 20) and weight.head_room < 0
    assert (found.largest_scale, found.suggested_scale) == (2.0**15, 2.0**13)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_suggested_scale_runs(backend: str) -> None:
    step = scaled_step(identity, backend, scale=4.0)
    found = step.gradient_ranges(X, Y)
    assert found.scale == 4 and found.largest_scale == 2.0**14 and found.suggested_scale == 2.0**12
    assert not skips_at(step, found.largest_scale, X, Y) and skips_at(step, 2 * found.largest_scale, X, Y)
    (weight,) = found
    expected = np.matmul(X.T, np.full((2, 3), 4 * 2 / 6 * 4, np.float16))
    assert weight.largest == pytest.approx(float(expected.max()), rel=1e-3)
    assert len(found) == 1 and found["weight"] is weight
    with pytest.raises(GraphKeyError, match="no gradient of 'weigth'; did you mean 'weight'"):
        found["weigth"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_bfloat16_and_float32_need_no_scale(backend: str) -> None:
    found = summed(graphls.bfloat16, 3.0, backend).gradient_ranges(COLUMNS)
    expected = (3 * COLUMNS).astype(ml_dtypes.bfloat16).astype(F32)
    assert found[0].dtype is graphls.bfloat16 and found[0].flushed == 0 and found[0].largest == expected.max()
    assert found[0].head_room == pytest.approx(128 - np.log2(3), abs=0.01)
    assert found.suggested_scale == 1 and found.largest_scale is None
    found = summed(graphls.float32, 3.0, backend).gradient_ranges(COLUMNS)
    assert found[0].dtype is graphls.float32 and found[0].flushed is None and found[0].least == 3 * 2.0**-13
    assert found.suggested_scale == 1 and "  -  " in str(found)


class Shared(nn.Cell):
    """A weight that is used twice, once times 100: its gradient is a sum of two float16 values."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.ones((4, 1), F32), name="weight")
        self.to_float(graphls.float16)

    def construct(self, x: Any) -> Any:
        y = ops.add(ops.matmul(x, self.weight), ops.mul(ops.matmul(x, self.weight), 100.0))
        return ops.sum(ops.cast(y, graphls.float32))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_parameter_that_is_used_twice(backend: str) -> None:
    network = Shared()
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(network, optimizer, nn.FixedLossScaleUpdateCell(2.0))
    found = graphls.compile(cell, COLUMNS, backend=backend).gradient_ranges(COLUMNS)
    assert [r.name for r in found] == ["weight"]
    assert found[0].dtype is graphls.float16 and found[0].largest in (200.0, 202.0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_that_are_zero_or_lost(backend: str) -> None:
    step = scaled_step(lambda x: ops.mul(x, 0.0), backend, scale=4.0)
    (weight,) = step.gradient_ranges(X, Y)
    assert (weight.least, weight.largest, weight.head_room, weight.flushed) == (None, 0.0, None, 0.0)
    found = scaled_step(ops.exp, backend, scale=4.0).gradient_ranges(5 * X, Y)
    assert (found[0].wide_largest, found[0].head_room, found.suggested_scale) == (None, None, None)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_table_as_text(backend: str) -> None:
    class Two(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.first = Net(identity)
            self.second = nn.Dense(3, 3, weight_init="ones", bias_init="zeros")
            self.to_float(graphls.float16)

        def construct(self, x: Any) -> Any:
            return ops.cast(self.second(self.first(x)), graphls.float32)

    found = graphls.compile(scaled_cell(Two(), 4.0), X, Y, backend=backend).gradient_ranges(X, Y)
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["parameter", "first.weight", "second.weight", "second.bias"]
    assert len({len(line) for line in lines[:4]}) == 1
    assert lines[-1].startswith("The scale is 2^2. The largest power of two that fits this batch is 2^")


def test_what_narrower_dtypes_would_lose() -> None:
    columns = np.array([[1.0, 2.0**-12, 2.0**-26, 2.0**-40, 0.0]], F32)

    class Columns(OneColumn):
        def __init__(self) -> None:
            super().__init__(graphls.float32)
            self.weight = graphls.Parameter(np.ones((5, 1), F32), name="weight")

    network = Columns()
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    cell = nn.TrainOneStepWithLossScaleCell(network, optimizer, nn.FixedLossScaleUpdateCell(2.0**10))
    with pytest.warns(UserWarning, match="float32 need no loss scaling"):
        step = graphls.compile(cell, columns)
    ranges = step.gradient_ranges(columns)
    gradient = columns * 2.0**10
    expected = {}
    for dtype, kind in ((graphls.float8_e5m2, ml_dtypes.float8_e5m2), (graphls.float8_e4m3fn, ml_dtypes.float8_e4m3fn)):
        limits: Any = ml_dtypes.finfo(kind)
        low = (gradient * (float(limits.max) / gradient.max())).astype(F32).astype(kind).astype(F32)
        expected[dtype] = float(np.mean((low == 0) & (gradient != 0)))
    expected[graphls.float16] = float(np.mean((gradient.astype(np.float16) == 0) & (gradient != 0)))
    assert ranges[0].lost == expected == {graphls.float16: 0.2, graphls.float8_e5m2: 0.2, graphls.float8_e4m3fn: 0.4}
    assert ranges.lost().splitlines() == [
        "parameter  float16  float8_e5m2  float8_e4m3fn",
        "weight       20.0%        20.0%          40.0%",
    ]
