"""Columns of Python dicts, as MindSpore 2.10 takes and gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
import graphls.dataset as ds
from graphls import Tensor
from graphls.dataset import Dataset


def described(number: int) -> dict[str, Any]:
    return {"a": number, "b": np.arange(3) + number, "c": "x" * number, "d": {"e": [1.5, None]}}


ROWS = ds.GeneratorDataset([(described(i), np.int32(i)) for i in range(4)], ["d", "x"], shuffle=False)
SIMPLE = ds.GeneratorDataset([{"a": i, "b": [i, 2.5], "c": "x" * i} for i in range(3)], "d", shuffle=False)


def first(dataset: Dataset, **arguments: Any) -> list[Any]:
    row: list[Any] = next(dataset.create_tuple_iterator(num_epochs=1, **arguments))
    return row


@pytest.mark.parametrize("do_copy", [False, True])
def test_what_is_in_a_dict_becomes_tensors_or_arrays(do_copy: bool) -> None:
    found, number = first(ROWS.skip(2), do_copy=do_copy)
    assert isinstance(number, Tensor) and found["a"].dtype is graphls.int64 and found["a"].asnumpy() == 2
    assert found["b"].tolist() == [2, 3, 4] and found["c"] == "xx"
    assert found["d"]["e"][0].asnumpy() == 1.5 and found["d"]["e"][1] is None
    found, _ = first(ROWS.skip(2), output_numpy=True, do_copy=do_copy)
    assert all(isinstance(value, np.ndarray) for value in (found["a"], found["b"], found["c"], found["d"]["e"][0]))
    assert ROWS.output_shapes() == [[0], []] and ROWS.output_types() == [np.dtype(object), np.dtype(np.int32)]


@pytest.mark.parametrize("processes", [False, True])
def test_functions_get_the_dict_itself(processes: bool) -> None:
    split = ROWS.map(lambda d: (d["a"] + 1, {"q": d["c"]}), "d", ["p", "q"], None, 2, processes)
    assert [(int(p), str(q["q"]), int(x)) for p, q, x in split] == [(i + 1, "x" * i, i) for i in range(4)]
    kept = ROWS.filter(lambda d: d["a"] > 1, "d")
    assert [int(x) for _, x in kept] == [2, 3]
    assert [int(d["v"]) for (d,) in ds.NumpySlicesDataset([4], "x").map(lambda x: {"v": x})] == [4]
    numbers = ROWS.batch(2, per_batch_map=lambda d, info: ([item["a"] for item in d],), input_columns="d")
    assert [batch[0].tolist() for batch in numbers] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    "batch",
    [
        lambda rows: rows.batch(2, True),
        lambda rows: rows.padded_batch(2, True),
        lambda rows: rows.bucket_batch_by_length(["d"], [5], [2, 2], lambda d: 1, drop_remainder=True),
        lambda rows: rows.bucket_batch_by_length(["d"], [1], [2, 1], drop_remainder=True),
    ],
)
def test_batches_of_dicts_are_dicts_of_arrays(batch: Callable[[Dataset], Dataset]) -> None:
    ((found,),) = batch(SIMPLE).create_tuple_iterator(num_epochs=1, output_numpy=True)
    assert {key: value.tolist() for key, value in found.items()} == {
        "a": [0, 1], "b": [[0, 2.5], [1, 2.5]], "c": ["", "x"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([{"a": 1}, {"b": 1}], "different keys"),
        ([{"a": 1}, 2], "different keys"),
        ([{"a": [1]}, {"a": [1, 2]}], "different shapes"),
        ([{"a": {"b": 1}}, {"a": {"b": 1}}], "per_batch_map"),
        ([{"a": None}, {"a": None}], "per_batch_map"),
    ],
)
def test_dicts_that_do_not_stack(rows: list[Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        first(ds.GeneratorDataset(rows, "d", shuffle=False).batch(2))


def test_announced_types_and_other_objects_are_errors() -> None:
    with pytest.raises(RuntimeError, match="gave a dict for 'd', where column_types has float32"):
        first(ds.GeneratorDataset([{"a": 1}], "d", [np.float32]))
    for wrong in (None, {1}, object()):
        with pytest.raises(RuntimeError, match="numbers, text, bytes or dicts"):
            first(ds.GeneratorDataset([wrong], "d"))
