"""Methods that change a tensor: in eager mode, in a graph, and on parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls as gl
from graphls import Parameter, Tensor, nn, ops
from graphls.ops.record import METHODS

A = np.array([[1.5, -2.0, 3.25], [0.5, 4.0, -1.0]], np.float32)
B = np.array([[2.0, 1.0, 0.5], [3.0, -4.0, 2.0]], np.float32)
ROWS = np.array([[0, 2, 1], [1, 1, 0]])


def with_rows(array: Any, rows: Any, values: Any, adds: bool = False) -> Any:
    """The array with rows of it set, or added to."""
    made = array.copy()
    if adds:
        np.add.at(made, rows, values)
    else:
        made[rows] = values
    return made


CALLS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "add_": (lambda x: x.add_(Tensor(B), alpha=2), A + 2 * B),
    "sub_": (lambda x: x.sub_(1.0), A - 1),
    "mul_": (lambda x: x.mul_(Tensor(B)), A * B),
    "div_": (lambda x: x.div_(Tensor(B)), A / B),
    "clamp_": (lambda x: x.clamp_(-1.0, 2.0), A.clip(-1, 2)),
    "copy_": (lambda x: x.copy_(Tensor(B[0])), np.stack([B[0], B[0]])),
    "exp_": (lambda x: x.exp_(), np.exp(A)),
    "fill_": (lambda x: x.fill_(3.0), np.full((2, 3), 3.0)),
    "zero_": (lambda x: x.zero_(), np.zeros((2, 3))),
    "floor_": (lambda x: x.floor_(), np.floor(A)),
    "relu_": (lambda x: x.relu_(), np.maximum(A, 0)),
    "tanh_": (lambda x: x.tanh_(), np.tanh(A)),
    "masked_fill_": (lambda x: x.masked_fill_(Tensor(A > 1), 9.0), np.where(A > 1, 9, A)),
    "index_add_": (
        lambda x: x.index_add_(0, Tensor([1, 1]), Tensor(B), alpha=2), with_rows(A, [1, 1], 2 * B, adds=True)
    ),
    "index_copy_": (lambda x: x.index_copy_(0, Tensor([1]), Tensor(B[:1])), with_rows(A, [1], B[:1])),
    "index_fill_": (lambda x: x.index_fill_(0, Tensor([1]), 7.0), with_rows(A, [1], 7)),
    "index_put_": (lambda x: x.index_put_((Tensor([0]),), Tensor(B[:1])), with_rows(A, [0], B[:1])),
    "scatter_": (lambda x: x.scatter_(1, Tensor([[0], [2]]), Tensor([[9.0], [8.0]])), np.where(
        np.arange(3) == [[0], [2]], [[9.0], [8.0]], A)),
    "scatter_add_": (lambda x: x.scatter_add_(1, Tensor(ROWS), Tensor(B)), np.array(
        [A[0] + [2, 0.5, 1], A[1] + [2, -1, 0]])),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("mode", [gl.context.GRAPH_MODE, gl.context.PYNATIVE_MODE])
def test_a_method_changes_the_tensor_and_gives_it(name: str, mode: int) -> None:
    call, wanted = CALLS[name]
    tensor = Tensor(A.copy())
    assert call(tensor) is tensor
    np.testing.assert_allclose(tensor.asnumpy(), wanted, rtol=1e-5)

    class Net(nn.Cell):
        def construct(self, x: Tensor) -> Any:
            y = x * 1
            other = y
            call(y)
            return other + 0

    gl.context.set_context(mode=mode)
    try:
        np.testing.assert_allclose(Net()(Tensor(A)).asnumpy(), wanted, rtol=1e-5)
    finally:
        gl.context.reset_context()


def test_the_dtype_stays_and_the_shape_must() -> None:
    x = Tensor([1, 2])
    assert x.add_(1.5).dtype is gl.int64 and x.tolist() == [2, 3]
    with pytest.raises(ValueError, match=r"add_ gives f32\[2,2\], and a tensor of the shape \(2,\) keeps its shape"):
        Tensor([1.0, 2.0]).add_(Tensor(np.ones((2, 2), np.float32)))


def test_a_parameter_is_written() -> None:
    weight = Parameter(Tensor([1.0, 2.0]), name="weight")

    class Net(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = weight

        def construct(self, x: Tensor) -> Tensor:
            self.weight.add_(x)
            return self.weight * 1

    net = Net()
    assert [net(Tensor([1.0, 1.0])).tolist() for _ in range(2)] == [[2.0, 3.0], [3.0, 4.0]]
    weight.mul_(2.0)
    assert weight.tolist() == [6.0, 8.0]


@pytest.mark.parametrize("name", [name for name in METHODS if name in ("normal_", "uniform_")])
def test_random_numbers_in_place(name: str) -> None:
    x = Tensor(np.zeros(1000, np.float32))
    getattr(x, name)()
    assert 0.2 < float(x.asnumpy().std()) < 1.2


def test_methods_and_arguments_that_scripts_of_mindspore_use() -> None:
    x = Tensor([0.1, 0.2, -0.3])
    assert x.erfinv_() is x
    np.testing.assert_allclose(x.asnumpy(), [0.088856, 0.179143, -0.272463], rtol=1e-5)
    found = Tensor(np.zeros((2, 3), np.float32)).scatter_(1, np.array([[0], [2]]), value=2.0)
    assert found.asnumpy().tolist() == [[2, 0, 0], [0, 0, 2]]
    assert x.new_ones((2,), gl.int32).dtype is gl.int32 and x.new_zeros((2,), gl.int32).shape == (2,)
    assert Tensor([1.0], const_arg=True).asnumpy().tolist() == [1.0]


INDICES, UPDATES = Tensor(np.int32([0, 1])), Tensor([5.0, 6.0])
NUMBER = Tensor
WRITING: Any = {
    "Assign": (lambda v, g: ops.Assign()(v, g), [0.1, 0.2, -0.3]),
    "AssignAdd": (lambda v, g: ops.AssignAdd()(v, g), [1.1, 2.2, 2.7]),
    "ApplyMomentum": (lambda v, g: ops.ApplyMomentum()(v, g * 0, NUMBER(0.1), g, NUMBER(0.9)), [0.99, 1.98, 3.03]),
    "ApplyGradientDescent": (lambda v, g: ops.ApplyGradientDescent()(v, NUMBER(0.1), g), [0.99, 1.98, 3.03]),
    "ApplyRMSProp": (
        lambda v, g: ops.ApplyRMSProp()(v, g * 0, g * 0, 0.1, g, 0.9, 0.9, 1e-8), [0.683774, 1.683773, 3.316228],
    ),
    "ScatterUpdate": (lambda v, g: ops.ScatterUpdate()(v, INDICES, UPDATES), [5, 6, 3]),
    "ScatterAdd": (lambda v, g: ops.ScatterAdd()(v, INDICES, UPDATES), [6, 8, 3]),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITING)
def test_operators_write_into_plain_tensors(name: str) -> None:
    """With the numbers of MindSpore 2.10 on a CPU; in a trace nothing would keep what is written."""
    write, expected = WRITING[name]
    x, g = Tensor([1.0, 2.0, 3.0]), Tensor([0.1, 0.2, -0.3])
    write(x, g)
    np.testing.assert_allclose(x.asnumpy(), expected, rtol=1e-5)
    with pytest.raises(TypeError, match="Parameter"):
        gl.compile(write, x, g, backend="numpy")
