"""A scan that is written out gives the numbers of the loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pytest

import graphls
from graphls import ops
from graphls.runtime.lowering import lower
from graphls.runtime.lowering.kernel_tables import OLDEST_RUNTIME, PORTABLE
from graphls.runtime.lowering.target import target_of

X = np.random.default_rng(0).normal(size=(4, 2, 3)).astype(np.float32)


def along(x: Any, *, reverse: bool) -> Any:
    low = ops.cast(x, graphls.bfloat16)
    return ops.scan(lambda c, a: (c * 0.5 + a, (a - c, c)), low[0], low, reverse=reverse)


def without_arrays(x: Any) -> Any:
    return ops.scan(lambda c, _: (c * 0.5, c), x[0], None, length=3)


def once(x: Any) -> Any:
    return ops.scan(lambda c, a: (c - a, c), x[0], x[1:2])


@pytest.mark.parametrize(
    "network", [lambda x: along(x, reverse=False), lambda x: along(x, reverse=True), without_arrays, once],
    ids=["forward", "reverse", "without arrays", "once"],
)  # fmt: skip
def test_it_gives_the_bits_of_the_loop(network: Any) -> None:
    step = graphls.compile(network, X, backend="numpy")
    target = replace(target_of("cpu", PORTABLE, OLDEST_RUNTIME), unrolls=True)
    model = lower(step.graph, target=target).model
    assert not any(n.op_type == "Scan" for n in model.graph.node)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {session.get_inputs()[0].name: X})
    wanted = graphls.compile(network, X)(X)
    flat = [wanted[0], *(wanted[1] if isinstance(wanted[1], tuple) else [wanted[1]])]
    for a, b in zip(found, flat, strict=True):
        np.testing.assert_array_equal(a, b.astype(graphls.float32).asnumpy())
