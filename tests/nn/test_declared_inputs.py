"""Tensors of open sizes, and cells that hold calls to what `set_inputs` told: what MindSpore 2.10 takes and refuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Tensor, nn, ops, set_context
from graphls.compat.executors import _cell_graph_executor
from graphls.compat.root import enable_dynamic
from graphls.frontend.tensors.dynamic_sizes import OpenSize
from graphls.ir.errors import GraphlsError


def declared(*sizes: Any, dtype: Any = graphls.float32) -> Tensor:
    return Tensor(shape=sizes, dtype=dtype)


def ones(*sizes: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.ones(sizes, dtype))


class One(nn.Cell):
    def construct(self, x: Tensor) -> Tensor:
        return ops.relu(x)


class Two(nn.Cell):
    def construct(self, x: Tensor, y: Tensor) -> Tensor:
        return ops.sum(x) + ops.sum(y)


class Any_(nn.Cell):
    def construct(self, *inputs: Tensor) -> Tensor:
        return inputs[0] + inputs[1]


class Within(nn.Cell):
    def construct(self, pair: Any, factor: int = 3) -> Tensor:
        return pair[0] * factor


@pytest.fixture(autouse=True)
def as_graphs() -> Iterator[None]:
    set_context(mode=graphls.GRAPH_MODE)
    yield
    set_context(mode=graphls.GRAPH_MODE)


@pytest.mark.parametrize(
    ("shape", "found"),
    [(None, (-2,)), ([-2], (-2,)), ([None, 3], (-1, 3)), ([-1, 3], (-1, 3)), ([OpenSize(max=4), 2], (-1, 2))],
)
def test_a_tensor_declares_open_sizes(shape: Any, found: tuple[int, ...]) -> None:
    tensor = Tensor(shape=shape, dtype=graphls.float32)
    assert (tensor.shape, tensor.ndim, tensor.size) == (found, len(found), 0)
    assert "not given" in repr(tensor) and "not given" in str(tensor)
    for use in (tensor.asnumpy, lambda: tensor + 1, lambda: One()(tensor)):
        with pytest.raises(ValueError, match="only declares"):
            use()


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (TypeError, {}),
        (TypeError, {"shape": "ab", "dtype": graphls.float32}),
        (TypeError, {"shape": [2.0, 3], "dtype": graphls.float32}),
        (ValueError, {"shape": [-3, 3], "dtype": graphls.float32}),
        (ValueError, {"shape": [None, -2], "dtype": graphls.float32}),
        (ValueError, {"shape": [None, 3]}),
        (ValueError, {"shape": [None, 3], "dtype": graphls.float32, "init": "ones"}),
        (ValueError, {"shape": (2**40, 2**30), "dtype": graphls.float32}),
        (ValueError, {"input_data": [1.0, 2.0], "shape": [2]}),
    ],
)
def test_wrong_declarations(error: type[Exception], options: dict[str, Any]) -> None:
    with pytest.raises(error) as raised:
        Tensor(**options)
    assert isinstance(raised.value, GraphlsError)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ValueError, {"divisor": 0}),
        (ValueError, {"divisor": 4, "remainder": 4}),
        (ValueError, {"min": -1}),
        (TypeError, {"max": "a"}),
        (TypeError, {"max": 1.5}),
        (TypeError, {"unique": 3}),
    ],
)
def test_wrong_bounds_of_a_size(error: type[Exception], options: dict[str, Any]) -> None:
    with pytest.raises(error) as raised:
        OpenSize(**options)
    assert isinstance(raised.value, GraphlsError)


@pytest.mark.parametrize(
    ("network", "told", "args"),
    [
        (One, [declared(None, 3)], [ones(2, 3)]),
        (One, [Tensor(shape=None, dtype=graphls.float32)], [ones(2, 3, 4)]),
        (One, [ones(2, 3)], [ones(2, 3)]),
        (Any_, [declared(None)] * 2, [ones(3), ones(3)]),
        (Two, {"x": declared(None, 3)}, [ones(2, 3), ones(7)]),
        (Within, [(declared(None, 3),), 3], [(ones(2, 3),), 3]),
        (Within, [(declared(None, 3),)], [graphls.mutable((ones(2, 3), ones(1)), True)]),
        (One, [declared(OpenSize(max=5, min=2, divisor=2), 3)], [ones(4, 3)]),
    ],
)
def test_calls_as_they_were_declared(network: type[nn.Cell], told: Any, args: list[Any]) -> None:
    cell = network()
    cell.set_inputs(**told) if isinstance(told, dict) else cell.set_inputs(*told)
    assert cell(*args).asnumpy().size


SAME = OpenSize(unique=True)


@pytest.mark.parametrize(
    ("error", "network", "told", "args"),
    [
        (ValueError, One, [declared(None, 3)], [ones(2, 3, 1)]),
        (ValueError, One, [declared(None, 3)], [ones(2, 4)]),
        (TypeError, One, [declared(None, 3)], [ones(2, 3, dtype=np.int32)]),
        (ValueError, One, [ones(2, 3)], [ones(4, 3)]),
        (TypeError, Two, [declared(None, 3)], [ones(2, 3), ones(2, 3)]),
        (ValueError, Any_, [declared(None, 3)], [ones(2, 3), ones(2, 3)]),
        (TypeError, Two, [declared(None, 3), None], [ones(2, 3), ones(2, 3)]),
        (TypeError, One, ["a"], [ones(2, 3)]),
        (ValueError, Within, [(declared(None, 3),), 3], [(ones(2, 3),), 4]),
        (ValueError, Within, [(declared(None, 3),)], [(ones(2, 4),)]),
        (ValueError, Two, {"y": declared(None, 3)}, [ones(2), ones(2)]),
        (ValueError, One, [declared(OpenSize(max=3))], [ones(5)]),
        (ValueError, One, [declared(OpenSize(min=7))], [ones(5)]),
        (ValueError, One, [declared(OpenSize(divisor=2))], [ones(5)]),
        (ValueError, Two, [declared(SAME), declared(SAME, 3)], [ones(5), ones(4, 3)]),
    ],
)
def test_calls_that_are_not_as_declared(
    error: type[Exception], network: type[nn.Cell], told: Any, args: list[Any]
) -> None:
    cell = network()
    cell.set_inputs(**told) if isinstance(told, dict) else cell.set_inputs(*told)
    with pytest.raises(error, match="declare") as raised:
        cell(*args)
    assert isinstance(raised.value, GraphlsError)


def test_what_set_inputs_refuses_and_what_comes_last_counts() -> None:
    cell = Two()
    with pytest.raises(ValueError, match="no input 'z' to declare; there are x, y"):
        cell.set_inputs(z=ones(1))
    with pytest.raises(ValueError, match="not both"):
        cell.set_inputs(ones(1), y=ones(1))
    with pytest.raises(TypeError, match="declares 3 inputs"):
        cell.set_inputs(ones(1), ones(1), ones(1))
    assert cell.get_inputs() is None
    one = One()
    for width in (3, 4):
        one.set_inputs(declared(None, width))
        assert one(ones(2, width)).shape == (2, width)


def test_eager_cells_and_cells_inside_take_anything_as_in_mindspore() -> None:
    inner = One()
    inner.set_inputs(declared(None, 3))
    assert nn.SequentialCell([inner])(ones(4)).shape == (4,)
    set_context(mode=graphls.PYNATIVE_MODE)
    assert inner(ones(4)).shape == (4,)


def test_compiling_for_open_sizes_waits_for_those_that_come() -> None:
    cell = One()
    cell.compile(declared(None, 3))
    first, second = (_cell_graph_executor.compile(cell, declared(None, 3)) for _ in range(2))
    assert first[1] and second[1] and first[0] != second[0]
    assert cell(ones(2, 3)).shape == (2, 3)


def test_functions_are_held_to_what_is_declared() -> None:
    @enable_dynamic(x=declared(None, 3))
    @graphls.jit
    def doubled(x: Tensor) -> Tensor:
        return x * 2

    assert [doubled(ones(n, 3)).shape for n in (2, 3)] == [(2, 3), (3, 3)]
    with pytest.raises(ValueError, match=r"declared with the sizes \[None, 3\]"):
        doubled(ones(2, 4))
    with pytest.raises(ValueError, match="no input 'y'"):
        enable_dynamic(y=declared(None))(doubled)
    with pytest.raises(TypeError, match="dynamic size"):
        enable_dynamic(x=ones(2))
