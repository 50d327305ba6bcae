"""In bfloat16 a product and its bias are rounded once, behind the sum; in float16 before it, too, as in MindSpore."""

from __future__ import annotations

import numpy as np
import pytest

import graphls
from graphls import amp, nn
from tests.nn.biases import LAYERS, layer, sums


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", [graphls.bfloat16, graphls.float16])
def test_how_often_a_layer_rounds(name: str, dtype: graphls.DType) -> None:
    cell, x = layer(name)
    once, twice = sums(cell, x, dtype)
    assert (once != twice).any()
    expected = once if dtype is graphls.bfloat16 else twice
    cell.to_float(dtype)
    np.testing.assert_array_equal(cell(x).asnumpy(), expected)
    np.testing.assert_array_equal(graphls.compile(cell, x)(x).asnumpy(), expected)


@pytest.mark.parametrize("level", ["O1", "O2", "O3", "auto"])
def test_all_levels_round_once(level: str) -> None:
    cell, x = layer("dense")
    once, _ = sums(cell, x, graphls.bfloat16)
    found = graphls.compile(amp.auto_mixed_precision(cell, level, graphls.bfloat16), x)(x)
    np.testing.assert_array_equal(found.asnumpy().astype(np.float32), once.astype(np.float32))


def test_recurrent_layers_have_one_operation_for_product_and_bias() -> None:
    x = np.ones((3, 2, 4), np.float32)
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        graph = graphls.trace_graph(kind(4, 5).to_float(graphls.bfloat16), x).graph
        assert sum(node.primitive.name == "matmul_add" for node in graph.nodes) == 1
