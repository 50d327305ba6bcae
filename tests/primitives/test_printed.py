"""Arrays as MindSpore 2.10 prints them in a graph on a CPU; the texts are recorded from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphls.primitives.printed import printed

RECORDED: list[tuple[Any, str]] = [
    (np.float32(2.5), "2.5"),
    (np.float16(0.1), "0.0999756"),
    (np.float64(1 / 3), "0.333333"),
    (np.float32(1e-7), "1e-07"),
    (np.float32(123456789), "1.23457e+08"),
    (np.float32("nan"), "nan"),
    (np.float32("-inf"), "-inf"),
    (np.float32(-0.0), "-0"),
    (np.int32(-3), "-3"),
    (np.bool_(True), "1"),
    (
        np.array([1, -2.5, 3e10, 1e-20, 0.1], np.float32),
        "Tensor(shape=[5], dtype=Float32, value="
        "[ 1.00000000e+00 -2.50000000e+00  3.00000010e+10  9.99999968e-21  1.00000001e-01])",
    ),
    (
        np.array([np.nan, np.inf, -np.inf, 0, -0.0], np.float32),
        "Tensor(shape=[5], dtype=Float32, value="
        "[            nan             inf            -inf  0.00000000e+00 -0.00000000e+00])",
    ),
    (np.array([1 / 3, -2]), "Tensor(shape=[2], dtype=Float64, value=[ 3.33333333e-01 -2.00000000e+00])"),
    (
        np.array([1 / 3, -2, 65504], np.float16),
        "Tensor(shape=[3], dtype=Float16, value=[ 3.3325e-01 -2.0000e+00  6.5504e+04])",
    ),
    (np.array([1.5, np.nan], np.float16), "Tensor(shape=[2], dtype=Float16, value=[ 1.5000e+00         nan])"),
    (np.array([1, -100, 30], np.int8), "Tensor(shape=[3], dtype=Int8, value=[   1 -100   30])"),
    (
        np.array([[10**6, 2], [3, 4]], np.uint32),
        "Tensor(shape=[2, 2], dtype=UInt32, value=\n[[1000000       2]\n [      3       4]])",
    ),
    (
        np.array([[True, False], [False, False]]),
        "Tensor(shape=[2, 2], dtype=Bool, value=\n[[ True False]\n [False False]])",
    ),
    (
        np.arange(30),
        "Tensor(shape=[30], dtype=Int64, value="
        "[ 0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 \n 24 25 26 27 28 29])",
    ),
    (
        np.ones(24, np.bool_),
        "Tensor(shape=[24], dtype=Bool, value=[" + " True " * 12 + "\n " + " True " * 11 + " True\n ])",
    ),
    (
        np.array([1000, -5, 3] + [1] * 998 + [100000] + [1] * 500),
        "Tensor(shape=[1502], dtype=Int64, value=[1000   -5    3 ...    1    1    1])",
    ),
    (np.arange(6).reshape(1, 6), "Tensor(shape=[1, 6], dtype=Int64, value=\n[[0 1 2 3 4 5]])"),
    (np.array([[1, 2, 3, 100000, 5, 6, 7]]), "Tensor(shape=[1, 7], dtype=Int64, value=\n[[1 2 3 ... 5 6 7]])"),
    (
        np.arange(14).reshape(2, 7, 1),
        "Tensor(shape=[2, 7, 1], dtype=Int64, value=\n"
        "[[[ 0]\n  [ 1]\n  [ 2]\n  ...\n  [ 4]\n  [ 5]\n  [ 6]]\n"
        " [[ 7]\n  [ 8]\n  [ 9]\n  ...\n  [11]\n  [12]\n  [13]]])",
    ),
    (
        np.arange(24).reshape(2, 2, 2, 3),
        "Tensor(shape=[2, 2, 2, 3], dtype=Int64, value=\n"
        "[[[[ 0  1  2]\n   [ 3  4  5]]\n  [[ 6  7  8]\n   [ 9 10 11]]]\n"
        " [[[12 13 14]\n   [15 16 17]]\n  [[18 19 20]\n   [21 22 23]]]])",
    ),
]


@pytest.mark.parametrize(("array", "text"), RECORDED, ids=lambda item: str(getattr(item, "shape", "")))
def test_arrays_look_as_in_a_graph_of_mindspore(array: Any, text: str) -> None:
    assert printed(np.asarray(array)) == text


def test_what_mindspore_does_not_print_right_is_printed() -> None:
    # It takes 8-bit integers for characters, shows memory for arrays without elements, and has no bfloat16 on a CPU.
    import ml_dtypes

    assert printed(np.asarray(np.uint8(65))) == "65"
    assert printed(np.zeros((2, 0), np.float32)) == "Tensor(shape=[2, 0], dtype=Float32, value=[[], []])"
    assert printed(np.array([1.5], ml_dtypes.bfloat16)) == "Tensor(shape=[1], dtype=BFloat16, value=[ 1.5000e+00])"
    assert printed(np.array(1.5, ml_dtypes.bfloat16)) == "1.5"
