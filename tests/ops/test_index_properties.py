"""Random index expressions against NumPy: taken, written, added to, and their gradients."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphls
from graphls import ops
from tests.ops.agree import BACKENDS

SHAPES = [(), (3,), (1,), (0,), (2, 3), (3, 1), (2, 0), (2, 3, 4), (3, 2, 2, 3)]
PICKS = [(), (2,), (1, 2), (3, 1), (0,)]


@st.composite
def arrays_and_indices(draw: Any) -> tuple[Any, Any]:
    """An array and an index that NumPy takes for it."""
    shape = draw(st.sampled_from(SHAPES))
    items: list[Any] = []
    axis = 0
    pick = draw(st.sampled_from(PICKS))
    while axis < len(shape):
        kind = draw(st.sampled_from(["int", "slice", "slice", "array", "array", "mask", "none", "end"]))
        size = shape[axis]
        if kind == "end":
            break
        if kind == "none":
            items.append(None)
            continue
        if kind == "int" and size:
            items.append(draw(st.integers(-size, size - 1)))
        elif kind == "array" and (size or 0 in pick):
            own = tuple(draw(st.sampled_from([n, 1])) if n else n for n in pick)[draw(st.integers(0, len(pick))) :]
            items.append(draw_integers(draw, own, size))
        elif kind == "mask" and pick == (2,) and size > 1:
            mask = np.zeros(size, bool)
            mask[list(draw(st.sampled_from([(0, 1), (size - 1, 0)])))] = True
            items.append(mask)
        else:
            items.append(draw(st.slices(size)))
        axis += 1
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    x = np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.float32).reshape(shape)
    index = items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NumPy only warns of an index out of range where nothing is taken
            x[index]
    except (IndexError, DeprecationWarning):
        index = (..., None)
    return x, index


def draw_integers(draw: Any, shape: tuple[int, ...], size: int) -> Any:
    count = int(np.prod(shape, dtype=int))
    numbers = draw(st.lists(st.integers(-size, max(size - 1, -size)), min_size=count, max_size=count))
    return np.array(numbers, np.int64).reshape(shape)


def same(found: Any, expected: Any) -> None:
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.asnumpy(), expected)


@settings(max_examples=400)
@given(arrays_and_indices())
def test_elements_are_taken_and_written_as_numpy_does(case: Any) -> None:
    x, index = case
    expected = np.asarray(x[index])
    same(graphls.Tensor(x)[index], expected)
    value = -np.arange(1, expected.size + 1, dtype=np.float32).reshape(expected.shape)
    for given_value in (value, 7.0, value[..., :1] if value.ndim and value.shape[-1] else value):
        wanted, tensor = x.copy(), graphls.Tensor(x)
        wanted[index] = given_value
        tensor[index] = given_value
        same(tensor, wanted)


def split(index: Any) -> tuple[list[Any], Any]:
    """The integer arrays of an index, and the index made anew from tensors in their place."""
    items = index if isinstance(index, tuple) else (index,)
    is_array = [isinstance(i, np.ndarray) and i.dtype == np.int64 for i in items]
    arrays = [i for i, a in zip(items, is_array, strict=True) if a]

    def joined(tensors: Any) -> Any:
        iterator = iter(tensors)
        made = tuple(next(iterator) if a else i for i, a in zip(items, is_array, strict=True))
        return made if isinstance(index, tuple) else made[0]

    return arrays, joined


@pytest.mark.parametrize("backend", BACKENDS)
def test_computed_indices_and_gradients_are_those_of_numpy(backend: str) -> None:
    @settings(max_examples=40)
    @given(arrays_and_indices())
    def check(case: Any) -> None:
        x, index = case
        arrays, joined = split(index)
        taken = np.asarray(x[index])
        value = -np.arange(1, taken.size + 1, dtype=np.float32).reshape(taken.shape)
        weights = np.arange(-5, x.size - 5, dtype=np.float32).reshape(x.shape)

        def step(x: Any, value: Any, *tensors: Any) -> Any:
            def forward(x: Any, value: Any) -> Any:
                y = ops.mul(x, 2.0)
                y[joined(tensors)] = value
                return ops.sum(y * weights) + ops.sum(x[joined(tensors)] * value), y

            (_, y), gradients = ops.value_and_grad(forward, (0, 1), has_aux=True)(x, value)
            return y, *gradients

        found = graphls.compile(step, x, value, *arrays, backend=backend)(x, value, *arrays)
        written = np.asarray(2 * x)
        written[index] = value
        owner = np.full(x.shape, -1)
        owner[index] = np.arange(taken.size).reshape(taken.shape)
        by_x, by_value = np.where(owner < 0, 2 * weights, np.float32(0)), taken.copy().reshape(-1)
        np.add.at(by_x, index, value)
        for place, number in zip(owner.reshape(-1), weights.reshape(-1), strict=True):
            by_value[place if place >= 0 else slice(0)] += number
        for tensor, array in zip(found, (written, by_x, by_value.reshape(taken.shape)), strict=True):
            same(tensor, array)

    check()
