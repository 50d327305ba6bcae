"""OpenVINO rounds a product of bfloat16 and its bias once, behind the sum, though its kernels cannot add a bias."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("openvino")

import graphls
from tests.nn.biases import LAYERS, layer, sums


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_rounds_once(name: str) -> None:
    cell, x = layer(name)
    once, _ = sums(cell, x, graphls.bfloat16)
    step = graphls.compile(cell.to_float(graphls.bfloat16), x, engine="openvino")
    np.testing.assert_array_equal(step(x).asnumpy(), once)
