"""The dtype in which operands meet: the higher kind wins, numbers and tensors without axes widen no dtype."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops
from graphls.ir.types import DTYPES, as_dtype, token

NAMES = [d.long_name for d in DTYPES if d is not token and not d.is_low]
TABLE = """
float16  float16  float16
float16  float32  float32
float16  float64  float64
float16  bfloat16 float32
bfloat16 float32  float32
float32  float64  float64
int8     int32    int32
int32    int64    int64
int64    float16  float16
int64    float32  float32
int32    float64  float64
uint8    int8     int16
uint8    int32    int32
uint8    uint16   uint16
uint8    float16  float16
bool     int8     int8
bool     int64    int64
bool     float16  float16
bool     float32  float32
"""
PAIRS = [tuple(line.split()) for line in TABLE.strip().splitlines()]


def full(dtype: str, *shape: int) -> graphls.Tensor:
    return ops.ones(shape, as_dtype(dtype))


@pytest.mark.parametrize(("first", "second", "expected"), PAIRS)
def test_tensors_meet(first: str, second: str, expected: str) -> None:
    for a, b in ((full(first, 2), full(second, 2)), (full(second, 3, 1), full(first, 2))):
        assert (a + b).dtype is as_dtype(expected) and ops.maximum(a, b).dtype is as_dtype(expected)
        traced = graphls.trace_graph(lambda x, y: x * y, a, b).graph
        assert traced.outputs[0].type.dtype is as_dtype(expected)


@pytest.mark.parametrize("name", NAMES)
def test_python_numbers_widen_a_kind_but_no_dtype(name: str) -> None:
    tensor, dtype = full(name, 2), as_dtype(name)
    expected: dict[Any, Any] = {
        True: "int32" if name == "bool" else name,
        2: "int64" if name == "bool" else name,
        2.5: name if dtype.is_float else "float32",
    }
    for number, wanted in expected.items():
        for operands in ((tensor, number), (number, tensor)):
            assert operator.add(*operands).dtype is as_dtype(wanted)
            assert operator.mul(*operands).dtype is as_dtype(wanted)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "int8", "int32"])
def test_tensors_without_axes_count_as_numbers(name: str) -> None:
    tensor = full(name, 2)
    assert (tensor * full("float64")).dtype is as_dtype(name if as_dtype(name).is_float else "float64")
    assert (tensor * full("int64")).dtype is as_dtype(name)
    assert (full(name) * full("float64")).dtype is as_dtype("float64")


def test_quotients_and_means_of_integers_are_float32() -> None:
    for name in ("bool", "int8", "int32", "int64", "uint8"):
        assert (full(name, 2) / 2).dtype is graphls.float32 and ops.mean(full(name, 2)).dtype is graphls.float32
        for function in (ops.tan, ops.acos, ops.exp, ops.log10, ops.erfc, ops.sinc, ops.logsumexp):
            assert function(full(name, 2)).dtype is graphls.float32
        assert ops.hypot(full(name, 2), 2).dtype is ops.atan2(full(name, 2), full(name, 2)).dtype is graphls.float32


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_floats_keep_their_dtype(name: str) -> None:
    x = full(name, 3, 3)
    functions: list[Any] = [
        ops.tan, ops.asinh, ops.exp2, ops.log10, ops.sinc, ops.erfc, ops.erfinv, ops.trunc, ops.frac, ops.nan_to_num,
        ops.logsumexp, ops.norm, ops.nanmean, ops.l2_normalize, ops.trace, ops.amax, ops.std, ops.trapz, ops.diff,
        lambda x: ops.logaddexp2(x, 1), lambda x: ops.hypot(x, 2.5), lambda x: ops.lerp(x, 2, 0.5),
        lambda x: ops.addcdiv(x, x, x, 0.5), lambda x: ops.copysign(x, -1), lambda x: ops.heaviside(x, 0.5),
        lambda x: ops.fmod(x, 2), lambda x: ops.cumprod(x, 0), lambda x: ops.logcumsumexp(x, 0),
        lambda x: ops.cummax(x, 0)[0], lambda x: ops.addmm(x, x, x, beta=0.5), lambda x: ops.einsum("ij,kj", x, x),
        lambda x: ops.max(x, 0, initial=2)[0], lambda x: ops.round(x, decimals=1), lambda x: ops.ldexp(x, 2),
        lambda x: ops.xlogy(x, 2), lambda x: ops.bias_add(x, x[0]), lambda x: ops.kron(x, x),
    ]  # fmt: skip
    for i, function in enumerate(functions):
        assert function(x).dtype is as_dtype(name), i


def test_what_mindspore_says() -> None:
    assert graphls.Tensor(1).dtype is graphls.int64 and graphls.Tensor(1.0).dtype is graphls.float32
    assert graphls.Tensor(np.ones(2)).dtype is graphls.float64
    assert (graphls.Tensor([1]) + 1.0).dtype is graphls.float32
    assert (full("float16", 3) * full("float32")).dtype is graphls.float16


def test_numbers_take_the_dtype_that_is_asked_for_in_one_step() -> None:
    assert graphls.Tensor(0.1, graphls.float64).item() == 0.1
    assert graphls.Tensor([1e300, 0.1], graphls.float64).tolist() == [1e300, 0.1]
    assert graphls.Tensor(0.1).dtype is graphls.float32
    empty = ops.unsorted_segment_max(graphls.Tensor([0.1], graphls.float64), graphls.Tensor([1]), 2)
    assert empty.tolist() == [np.finfo(np.float64).min, 0.1]


def test_numbers_beyond_a_dtype_are_infinite_without_a_warning() -> None:
    row = np.float32([1e9])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = graphls.Tensor(1e300), graphls.Tensor(-7e4, graphls.float16), graphls.Tensor(row, "float16")
    assert [t.tolist() for t in found] == [math.inf, -math.inf, [math.inf]]
