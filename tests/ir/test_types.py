"""Element types, tensor types and broadcasting."""

from __future__ import annotations

import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphls.ir import DTYPES, TOKEN, DType, Type, as_dtype, parse_type
from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import bfloat16, bool_, broadcast_shapes, float16, float32, float64, int8, int64, type_of

DATA = [dtype for dtype in DTYPES if dtype.kind != "token"]
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@given(st.sampled_from(DATA), SHAPES)
def test_a_type_reads_back(dtype: DType, shape: tuple[int, ...]) -> None:
    assert parse_type(str(Type(dtype, shape))) == Type(dtype, shape)


def test_the_text_of_types() -> None:
    types = (Type(float16, (32, 10)), Type(int64), Type(bool_), TOKEN)
    assert [str(t) for t in types] == ["f16[32,10]", "i64[]", "bool[]", "token"]
    assert parse_type("token") is TOKEN


NO_TYPES = (
    "", "f32", "f32[", "float32[2]", "f32[2,]", "f32[,2]", "f32[-1]", "f32[2, 3]", "token[]", "f32[\u0663]", "f32[2]\n",
)  # fmt: skip


@pytest.mark.parametrize("text", NO_TYPES)
def test_a_text_that_is_no_type(text: str) -> None:
    with pytest.raises(GraphValueError, match="write it like f32"):
        parse_type(text)


@given(st.lists(SHAPES, max_size=4))
def test_shapes_broadcast_as_in_numpy(shapes: list[tuple[int, ...]]) -> None:
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        with pytest.raises(GraphValueError, match="do not broadcast"):
            broadcast_shapes(*shapes)
    else:
        assert broadcast_shapes(*shapes) == expected


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (float32, float32),
        ("f16", float16),
        ("float16", float16),
        ("i8", int8),
        ("bf16", bfloat16),
        (bool, bool_),
        (int, int64),
        (float, float32),
        (np.float64, float64),
        (np.dtype(">f8"), float64),
        (ml_dtypes.bfloat16, bfloat16),
        (np.bool_, bool_),
    ],
)
def test_as_dtype(value: object, dtype: DType) -> None:
    assert as_dtype(value) is dtype


NO_DTYPES = (None, "nope", 3, [1], {}, str, object, np.dtype("U3"), np.datetime64, object())


@pytest.mark.parametrize("value", NO_DTYPES)
def test_what_is_no_dtype(value: object) -> None:
    with pytest.raises(GraphTypeError, match="is not a dtype that graphls has"):
        as_dtype(value)


@pytest.mark.parametrize("value", [complex, "complex64", np.complex128])
def test_complex_numbers_are_refused(value: object) -> None:
    with pytest.raises(GraphTypeError, match=r"does not offer complex numbers \(.*keep real and imaginary parts"):
        as_dtype(value)


@pytest.mark.parametrize("dtype", DTYPES)
def test_there_is_one_object_per_dtype(dtype: DType) -> None:
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert as_dtype(dtype.name) is as_dtype(dtype.long_name) is dtype


@pytest.mark.parametrize("dtype", DATA)
def test_numpy_agrees_on_dtypes(dtype: DType) -> None:
    array = np.zeros((2, 3), dtype.numpy)
    assert type_of(array) == Type(dtype, (2, 3))
    assert array.itemsize == dtype.itemsize
    assert dtype.is_half == (dtype.is_float and array.itemsize == 2)


def test_a_token_holds_no_data() -> None:
    with pytest.raises(GraphTypeError, match="holds no data"):
        _ = TOKEN.dtype.numpy


def test_shapes_and_sizes() -> None:
    kind = Type(float32, (2, 3))
    assert (kind.rank, kind.size, Type(float32).size, Type(float32, (0, 3)).size) == (2, 6, 1, 0)
    assert (kind.nbytes, TOKEN.nbytes) == (6 * kind.dtype.itemsize, 0)
    assert (str(kind.with_dtype(float16)), str(kind.with_shape((6,)))) == ("f16[2,3]", "f32[6]")
