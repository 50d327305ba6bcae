"""Steps, cells and operators take arrays of other libraries, and tensors are handed over to them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, nn, ops
from graphls.ir.errors import GraphlsError
from tests.trace.foreign import Elsewhere, Given, Handed

NUMBERS = np.arange(6, dtype=np.float32).reshape(2, 3)
KINDS = pytest.mark.parametrize("kind", [Handed, Given])


class Scaled(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.weight = graphls.Parameter(np.float32([1, 2, 3]), name="weight")

    def construct(self, x: Any, options: Any = None) -> Any:
        return ops.mul(x if options is None else options["mask"] * x, self.weight)


@KINDS
def test_steps_cells_and_operators_take_them(kind: Callable[..., Any]) -> None:
    net, wanted = Scaled(), NUMBERS * np.float32([1, 2, 3])
    step = graphls.compile(net, kind(NUMBERS))
    for result in (step(kind(NUMBERS)), step(NUMBERS), net(kind(NUMBERS)), ops.mul(kind(NUMBERS), net.weight)):
        np.testing.assert_array_equal(result.asnumpy(), wanted)
    np.testing.assert_array_equal(net(kind(NUMBERS), {"mask": kind(NUMBERS)}).asnumpy(), NUMBERS * wanted)
    gradient = graphls.grad(lambda x: ops.sum(x * x))(kind(NUMBERS))
    np.testing.assert_array_equal(gradient.asnumpy(), 2 * NUMBERS)
    assert len(net.__dict__["_compiled"][()].steps) == 2, "a step for each signature"


@KINDS
def test_in_eager_mode(kind: Callable[..., Any]) -> None:
    graphls.set_context(mode=graphls.PYNATIVE_MODE)
    try:
        np.testing.assert_array_equal(Scaled()(kind(NUMBERS)).asnumpy(), NUMBERS * np.float32([1, 2, 3]))
    finally:
        graphls.set_context(mode=graphls.GRAPH_MODE)


@KINDS
def test_a_tensor_copies_and_from_numpy_shares(kind: Callable[..., Any]) -> None:
    array = np.arange(3.0)
    copied, shared = Tensor(kind(array)), Tensor.from_numpy(kind(array))
    array[0] = 7
    assert copied.dtype is graphls.float64 and copied.asnumpy()[0] == 0 and shared.asnumpy()[0] == 7
    assert Tensor(kind(array), graphls.int32).tolist() == [7, 1, 2]
    assert shared.asnumpy().ctypes.data == array.ctypes.data


def test_a_step_takes_numbers_in_the_dtype_of_its_input() -> None:
    step = graphls.compile(lambda x, n, rate: x * rate + n, NUMBERS, np.int32([1, 2, 3]), np.float64(0.5))
    np.testing.assert_array_equal(step([[1, 2, 3], [4, 5, 6.5]], [1, 2, 3], 2).asnumpy(), [[3, 6, 9], [9, 12, 16]])
    with pytest.raises(TypeError, match=r"is i32\[3\], not f32\[3\]"):
        step(NUMBERS, [1.5, 2, 3], 0.5)
    with pytest.raises(TypeError, match=r"is i32\[3\], not i64\[3\]"):
        step(NUMBERS, [1, 2, 2**40], 0.5)
    with pytest.raises(ValueError, match="shapes are static"):
        step([[1.0, 2.0]], [1, 2, 3], 0.5)
    with pytest.raises(ValueError, match="same length"):
        step([[1.0, 2.0], [3.0]], [1, 2, 3], 0.5)


def test_what_cannot_be_read_says_why() -> None:
    text = r"This Elsewhere cannot be read as an array: can't convert cuda:0 .* Use Tensor.cpu\(\) first\."
    for call in (lambda: Tensor(Elsewhere()), lambda: Scaled()(Elsewhere()), lambda: ops.add(Elsewhere(), 1)):
        with pytest.raises(TypeError, match=text) as caught:
            call()
        assert isinstance(caught.value, GraphlsError) and "test_foreign_arrays.py" in str(caught.value)


def test_a_tensor_is_handed_over_with_its_memory() -> None:
    result = graphls.compile(lambda x: x + 1, NUMBERS)(NUMBERS)
    taken = np.from_dlpack(result)
    np.testing.assert_array_equal(taken, NUMBERS + 1)
    assert taken.ctypes.data == result.asnumpy().ctypes.data and result.__dlpack_device__() == (1, 0)
    fixed = np.ones(3, np.float32)
    fixed.flags.writeable = False
    assert np.from_dlpack(Tensor.from_numpy(fixed)).ctypes.data != fixed.ctypes.data, "what is read-only is copied"


def test_nobody_writes_into_states() -> None:
    net = Scaled()
    returns = graphls.compile(lambda: net.weight)
    for handed in (net.weight, net.weight.value(), net.weight.data, returns(), returns()):
        taken = np.from_dlpack(handed)
        memory = (ctypes.c_float * taken.size).from_address(taken.ctypes.data)  # whether it is read-only or not
        memory[:] = [100.0] * taken.size
        np.testing.assert_array_equal(net.weight.asnumpy(), [1, 2, 3])
        np.testing.assert_array_equal(net(NUMBERS).asnumpy(), NUMBERS * np.float32([1, 2, 3]))
