"""The form in which the lowering writes a matrix product."""

from __future__ import annotations

import numpy as np
import pytest

from graphls.inspect.testing.samples import run
from graphls.ir import Builder, Graph, Value
from graphls.ir.types import float16, float32, float64
from graphls.primitives.primitive import of
from graphls.runtime.lowering import lower

FORMS = {
    "few rows": (of(float32, 9, 256), of(float32, 512, 256), "Transpose"),
    "few rows of float16": (of(float16, 64, 300), of(float16, 500, 300), "Transpose"),
    "one row": (of(float32, 1, 256), of(float32, 512, 256), "Gemm"),
    "many rows": (of(float32, 65, 256), of(float32, 512, 256), "Gemm"),
    "small weights": (of(float32, 16, 256), of(float32, 256, 256), "Gemm"),
    "few columns": (of(float32, 16, 128), of(float32, 2048, 128), "Gemm"),
    "float64": (of(float64, 16, 256), of(float64, 512, 256), "Gemm"),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_smaller_operand_is_the_second_of_a_product(name: str) -> None:
    a, b, last = FORMS[name]
    inputs, e = (Value("a", a), Value("b", b)), Builder()
    outputs = e.emit("matmul", inputs, {"transpose_b": True})
    graph = Graph("g", inputs, (), tuple(e.nodes), (), outputs)
    lowered = lower(graph)
    kinds = [node.op_type for node in lowered.model.graph.node]
    assert [kind for kind in kinds if kind != "Cast"][-1] == last
    assert "Transpose" not in [node.op_type for node in lower(graph, device="cuda").model.graph.node]
    random = np.random.default_rng(0)
    arrays = [random.normal(size=kind.shape).astype(kind.dtype.numpy) for kind in (a, b)]
    (found,) = run(lowered, graph, arrays)
    expected = arrays[0].astype(np.float64) @ arrays[1].astype(np.float64).T
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-2 if a.dtype is float16 else 1e-4)
