"""Which nodes OpenVINO takes, and that it computes those with the numbers of NumPy."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("openvino")

from graphls.inspect.testing.samples import assert_close, draw, in_dtype, single
from graphls.ir import interpret
from graphls.ir.types import float16, float32, float64
from tests.engine_sessions import is_taken, session_on
from tests.primitives.test_every_primitive import PRIMITIVES

TAKEN = [p for p in PRIMITIVES if p.samples and is_taken("openvino", single(p, p.samples[0], p.samples[0].types))]


@pytest.mark.parametrize("primitive", TAKEN, ids=lambda p: p.name)
def test_a_primitive_that_is_taken_agrees_with_numpy(primitive: Any) -> None:
    sample = primitive.samples[0]
    graph, arrays = single(primitive, sample, sample.types), draw(sample, sample.types)
    for found, wanted in zip(session_on("openvino", graph).run(arrays), interpret(graph, arrays)[0], strict=True):
        assert_close(found, wanted, float32)


def test_what_is_taken() -> None:
    names = {primitive.name for primitive in TAKEN}
    assert {"convolution", "convolution_weight_gradient", "matmul", "max_pool", "overflow_get", "sum"} <= names
    assert names.isdisjoint({"argmax", "bitwise_and", "gather", "gather_gradient", "random_uniform", "scatter_max"})


@pytest.mark.parametrize("dtype", [float16, float64], ids=str)
def test_it_computes_neither_float16_nor_float64(dtype: Any) -> None:
    for primitive in TAKEN:
        types = in_dtype(primitive.samples[0], dtype)
        if types != primitive.samples[0].types:
            assert not is_taken("openvino", single(primitive, primitive.samples[0], types))
