"""What a model of OpenVINO holds besides weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import ops

pytest.importorskip("openvino")


@pytest.mark.parametrize("dtype", [graphls.float32, graphls.bfloat16])
def test_zeros_that_a_gradient_of_an_embedding_is_added_to_are_no_constant(dtype: Any, parts: list[Any]) -> None:
    words = np.array([1, 2, 1], np.int32)
    table = graphls.Tensor(np.ones((1 << 14, 64), np.float32), dtype)
    slope = ops.grad(lambda table, words: ops.sum(ops.cast(ops.gather(table, words, 0), graphls.float32)))
    found = graphls.compile(slope, table, words, engine="openvino")(table, words)
    model = parts[0].compiled.get_runtime_model()
    constants = [o for o in model.get_ops() if o.get_rt_info()["layerType"].astype(str) == "Const"]
    assert max((np.prod(list(o.output(0).shape)) for o in constants), default=0) < table.size
    np.testing.assert_array_equal(ops.cast(found, graphls.float32).asnumpy()[:4, 0], [0, 2, 1, 0])
