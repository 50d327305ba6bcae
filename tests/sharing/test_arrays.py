"""Where large arrays begin."""

from __future__ import annotations

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.base.sharing.arrays import LEAST, LINE, copy, empty, zeros
from graphls.frontend.tensors.parameter import Parameter


def begins_a_line(array: np.ndarray) -> bool:
    return array.ctypes.data % LINE == 0


@pytest.mark.parametrize("make", [empty, zeros])
def test_a_large_array_begins_a_line(make: object) -> None:
    array = make((LEAST // 4, 3), np.float32)
    assert begins_a_line(array)
    assert (array.shape, array.dtype, array.flags.c_contiguous) == ((LEAST // 4, 3), np.float32, True)


@pytest.mark.parametrize("shape", [(), (0, 5), (3, 2), (70, 90)])
def test_a_copy_is_equal_and_in_rows(shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).normal(size=shape).T
    made = copy(array)
    np.testing.assert_array_equal(made, array)
    assert made.flags.c_contiguous
    assert not np.shares_memory(made, array)


def test_states_and_what_crosses_begin_lines() -> None:
    parameter = Parameter(np.ones((64, 64), np.float32), name="w")
    assert begins_a_line(parameter.storage.current)
    parameter.set_data(np.zeros((64, 64), np.float32))
    assert begins_a_line(parameter.storage.current)
    network, x = nn.Dense(64, 64), np.ones((2, 64), np.float32)
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    graphls.compile(nn.TrainOneStepCell(network, optimizer), x)(x)
    assert all(begins_a_line(p.storage.current) for p in optimizer.parameters if p.array.nbytes >= LEAST)
