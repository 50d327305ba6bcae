"""bfloat16 where a step begins and ends: inputs, outputs and states, which runtimes take no arrays of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops

BACKENDS = ["numpy", "onnxruntime"]
BF16 = graphls.bfloat16
NUMBERS = [1.0, -2.5, 3.140625, np.inf]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", [0, 4, 5000])
def test_inputs_and_outputs(backend: str, size: int) -> None:
    def function(x: Any, y: Any) -> Any:
        return x, x * 3, [ops.sum(y), y], ops.cast(x, graphls.float32)

    x, y = graphls.Tensor(np.resize(NUMBERS, size), BF16), graphls.Tensor(2.0, BF16)
    same, product, (total, again), wide = graphls.compile(function, x, y, backend=backend)(x, y)
    assert [t.dtype for t in (same, product, total, again, wide)] == [BF16] * 4 + [graphls.float32]
    assert [t.asnumpy().dtype for t in (same, wide)] == [BF16.numpy, np.float32]
    assert (same.tolist(), product.shape, total.tolist(), again.tolist()) == (x.tolist(), (size,), 2, 2)
    assert product.tolist() == np.resize([3.0, -7.5, 9.4375, np.inf], size).tolist()


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_output_is_an_input_again(backend: str) -> None:
    x = graphls.Tensor([1.0, 2.0], BF16)
    step = graphls.compile(lambda x: x + 1, x, backend=backend)
    assert step(step(x)).tolist() == [3, 4]


class Counting(nn.Cell):
    """A state that is updated in place, and one that needs two buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.total = graphls.Parameter(graphls.Tensor([1.0, 2.0], BF16), name="total")
        self.last = graphls.Parameter(graphls.Tensor(0.0, BF16), name="last")

    def construct(self, x: Any) -> Any:
        before = self.last
        ops.assign_add(self.total, x)
        ops.assign(self.last, ops.sum(self.total) + before)
        return ops.depend(before * 1, self.total)


def test_states_are_shared_between_backends() -> None:
    cell, x = Counting(), graphls.Tensor([1.0, 0.5], BF16)
    steps = [graphls.compile(cell, x, backend=b) for b in (*BACKENDS, "onnxruntime")]
    total, last = np.array([1.0, 2.0]), 0.0
    for number, step in enumerate(steps * 3):
        if number == 5:
            cell.last.set_data(8)
            last = 8.0
        step(x)
        total = total + np.array([1.0, 0.5])
        last = float(graphls.Tensor(last + total.sum(), BF16))
        assert cell.total.tolist() == total.tolist() and float(cell.last) == last
        assert (cell.total.dtype, cell.total.asnumpy().dtype) == (BF16, BF16.numpy)
        assert cell.total.clone().dtype is BF16


def test_a_layer_in_bfloat16_gives_bfloat16() -> None:
    net = nn.Dense(4, 3, weight_init="ones", bias_init="zeros").to_float(BF16)
    y = net(np.full((2, 4), 1.00390625, np.float32))
    assert y.dtype is BF16 and y.tolist() == [[4.0] * 3] * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_branches_give_bfloat16(backend: str) -> None:
    def function(x: Any) -> Any:
        if ops.sum(x) > 0:
            return x * 2
        return x - 1

    for number, expected in ((1.5, 3.0), (-1.5, -2.5)):
        x = graphls.Tensor([number], BF16)
        assert graphls.compile(function, x, backend=backend)(x).tolist() == [expected]
