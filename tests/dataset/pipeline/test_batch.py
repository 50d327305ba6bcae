"""Batches are their rows stacked, whatever the way that makes them, and name the row that cannot be made."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
import graphls.dataset as ds
from tests.dataset.sources import plain, values


class Mixed:
    """Items of which some need a closer look, and one that cannot be read."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> Any:
        if self.items[index] is None:
            raise KeyError("no such item")
        return self.items[index]


ONE = np.ones(2, np.float32)


@pytest.mark.parametrize(
    ("items", "dtypes"),
    [
        ([(ONE, 1), (ONE, 2)], ("float32", "int64")),
        ([(ONE, 1.5), (ONE, 2.0)], ("float32", "float64")),
        ([(ONE, np.int32(1)), (ONE, np.int32(2))], ("float32", "int32")),
        ([(ONE, np.array(1, np.int8)), [ONE, np.array(2, np.int8)]], ("float32", "int8")),
        ([(ONE, True), (ONE, np.True_)], ("float32", "bool")),
        ([([1.0, 1.0], 1), (ONE.astype(np.float64), 2)], ("float64", "int64")),
        ([(graphls.Tensor(ONE), "a"), (ONE, "bc")], ("float32", "<U2")),
    ],
)
def test_a_batch_is_its_rows_stacked(items: list[Any], dtypes: tuple[str, str]) -> None:
    dataset = ds.GeneratorDataset(Mixed(items), ["x", "y"], shuffle=False)
    rows = list(dataset.create_tuple_iterator(num_epochs=1, output_numpy=True))
    (batch,) = dataset.batch(2).create_tuple_iterator(num_epochs=1, output_numpy=True)
    for column, found in enumerate(batch):
        np.testing.assert_array_equal(found, np.stack([row[column] for row in rows]))
    assert tuple(map(str, (array.dtype for array in batch))) == dtypes


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([(ONE, 1), None], "failed at row 1: KeyError"),
        ([(ONE,), None], "failed at row 0: it gave 1 columns"),
        ([(ONE, 1), (ONE, object())], "failed at row 1: a column holds numbers"),
        ([(ONE, 1), (ONE, 2**70)], "column 'y' holds numbers"),
        ([(ONE, 1), (ONE, 1.5)], "different types in column 1"),
        ([(ONE, 1), (np.ones(3, np.float32), 1)], "different shapes in column 0"),
    ],
)
def test_the_row_at_fault_is_told(items: list[Any], message: str) -> None:
    dataset = ds.GeneratorDataset(Mixed(items), ["x", "y"], shuffle=False).batch(2)
    with pytest.raises(RuntimeError, match=message):
        list(dataset.create_tuple_iterator(num_epochs=1))


def test_a_batch_function_takes_arrays() -> None:
    def summed(values: list[Any], info: Any) -> Any:
        assert all(isinstance(value, np.ndarray) for value in values)
        return (np.sum(values),)

    dataset = ds.GeneratorDataset(Mixed([(1,), (2,)]), ["x"], shuffle=False)
    (batch,) = dataset.batch(2, per_batch_map=summed, input_columns="x").create_tuple_iterator(output_numpy=True)
    assert int(batch[0]) == 3


def test_a_size_is_an_integer_of_python_or_numpy_that_32_bits_hold() -> None:
    rows = ds.NumpySlicesDataset(np.arange(6))
    assert rows.batch(np.int64(2), num_parallel_workers=np.int32(1)).get_batch_size() == 2
    with pytest.raises(ValueError, match=r"within the required interval of \[1, 2147483647\]"):
        rows.batch(2**31)


LARGE = np.random.default_rng(0).normal(size=(5, 64, 65)).astype(np.float32)
"""Rows that are copied to the batch when they come."""


@pytest.mark.parametrize("change", ["none", "dtype", "big-endian", "in one array"])
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
def test_large_rows_are_batched_as_small_ones(change: str, indexed: bool, workers: int) -> None:
    dtype = {"dtype": "float64", "big-endian": ">f8"}.get(change, "float32")
    memory = np.empty(LARGE.shape[1:], dtype)

    def changed(index: Any) -> Any:
        if change != "in one array":
            return LARGE[index].astype(dtype)
        memory[...] = LARGE[index]
        return memory

    rows = ds.NumpySlicesDataset((np.arange(5), [f"text {i}" * i for i in range(5)]), ["x", "text"], shuffle=False)
    rows = rows if indexed else rows.filter(lambda index: True, "x")
    rows = rows.map(changed, "x", num_parallel_workers=1 if change == "in one array" else workers)
    found = list(rows.batch(2).create_tuple_iterator(num_epochs=1, output_numpy=True))
    assert [len(text) for _, text in found] == [2, 2, 1]
    for start, (batch, text) in zip((0, 2, 4), found, strict=True):
        assert batch.dtype == dtype and batch.flags.owndata and text[0] == f"text {start}" * start
        np.testing.assert_array_equal(batch, LARGE[start : start + 2].astype(dtype))
    assert len(list(rows.batch(2, drop_remainder=True))) == 2


@pytest.mark.parametrize("different", [LARGE[0, :9], LARGE[0].astype(np.float64)])
def test_a_large_row_that_does_not_fit_is_named(different: Any) -> None:
    rows = ds.GeneratorDataset([LARGE[0], LARGE[1], different, LARGE[2]], ["x"], shuffle=False).map(lambda x: x)
    what = "types" if different.shape == LARGE[0].shape else "shapes"
    with pytest.raises(RuntimeError, match=rf"batch failed at row 0: .*different {what} in column 0 \('x'\)"):
        list(rows.batch(4))
    if what == "shapes":
        ((found,),) = rows.batch(4, pad_info={}).create_tuple_iterator(num_epochs=1, output_numpy=True)
        np.testing.assert_array_equal(found[2, :9], different)


def test_a_batch_of_more_rows_than_memory_holds_has_those_that_there_are() -> None:
    rows = ds.GeneratorDataset(list(LARGE), ["x"], shuffle=False).filter(lambda x: True)
    ((found,),) = rows.batch(2**31 - 1).create_tuple_iterator(num_epochs=1, output_numpy=True)
    np.testing.assert_array_equal(found, LARGE)


def test_rows_without_axes_are_as_long_as_0_and_lengths_that_fail_are_errors_of_the_row() -> None:
    assert values(plain(5).bucket_batch_by_length(["x"], [1, 2], [2, 3, 4])) == [[0, 1], [2, 3], [4]]
    for function, text in ((lambda x: 1 // int(x), "ZeroDivisionError"), (lambda x: -1, "-1"), (lambda x: "a", "'a'")):
        with pytest.raises(RuntimeError, match=f"^bucket_batch_by_length failed at row 0: .*{text}.*test_batch.py"):
            values(plain(2).bucket_batch_by_length(["x"], [1], [1, 1], function))
