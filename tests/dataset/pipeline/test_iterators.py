"""Iterators: what a row is, where a pass begins, and rows as inputs of compiled steps."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import graphls
import graphls.dataset as ds
from graphls import Tensor, nn
from tests.dataset.sources import Numbers, numbers, plain, rows_of

TEXTS = ds.GeneratorDataset([(1, "a", b"b")], ["number", "text", "bytes"])


def test_tuple_iterators_give_lists_of_tensors() -> None:
    row = next(numbers(4).batch(2).create_tuple_iterator())
    assert type(row) is list
    assert all(isinstance(column, Tensor) for column in row)
    assert [type(column) for column in next(numbers(4).create_tuple_iterator(output_numpy=True))] == [np.ndarray] * 2


def test_dict_iterators_give_tensors_by_name() -> None:
    row = next(numbers(4).batch(2).create_dict_iterator())
    assert {name: column.shape for name, column in row.items()} == {"image": (2, 1, 2, 2), "label": (2,)}
    assert isinstance(next(numbers(4).create_dict_iterator(output_numpy=True))["image"], np.ndarray)


def test_text_and_bytes_stay_arrays() -> None:
    row = next(TEXTS.create_dict_iterator())
    assert isinstance(row["number"], Tensor)
    assert row["text"] == "a"
    assert row["bytes"].item() == b"b"


def test_columns_in_any_order() -> None:
    assert rows_of(TEXTS.create_tuple_iterator(["text", "number"], 1)) == [["a", 1]]
    assert rows_of(TEXTS.create_tuple_iterator("number", 1)) == [1]


def test_an_iterator_has_as_many_passes_as_asked_for() -> None:
    iterator = plain(2).create_tuple_iterator(num_epochs=2)
    assert [rows_of(iterator) for _ in range(3)] == [[0, 1], [0, 1], []]
    assert rows_of(plain(2)) == [0, 1]
    endless = plain(2).create_tuple_iterator()
    assert [rows_of(endless) for _ in range(4)] == [[0, 1]] * 4


def test_iter_without_a_row_taken_stays_at_the_pass() -> None:
    first = ds.GeneratorDataset(list(range(9)), "x")
    expected = [rows_of(iterator) for iterator in [first.create_tuple_iterator()] for _ in range(2)]
    iterator = first.create_tuple_iterator()
    assert rows_of(iter(iter(iterator))) == expected[0]
    assert rows_of(iterator) == expected[1]


def test_iter_goes_on_with_a_pass_that_next_has_begun() -> None:
    iterator = plain(4).create_tuple_iterator()
    assert rows_of([next(iterator), iterator.get_next()]) == [0, 1]
    assert rows_of(iterator) == [2, 3]
    assert rows_of(iterator) == [0, 1, 2, 3]


def test_iter_leaves_a_pass_that_a_loop_has_begun() -> None:
    iterator = plain(4).create_tuple_iterator(num_epochs=3)
    for row in iterator:
        assert row[0].item() == 0
        break
    assert rows_of(iterator) == [0, 1, 2, 3]
    assert rows_of(iterator) == [0, 1, 2, 3]
    assert rows_of(iterator) == []


class Shared:
    """A source that may not be used by two threads at once, as one file handle may not."""

    def __init__(self) -> None:
        self.users = 0

    def __len__(self) -> int:
        return 50

    def __getitem__(self, index: int) -> int:
        self.users += 1
        assert self.users == 1
        np.sort(np.arange(20_000)[::-1])
        self.users -= 1
        return index


def test_a_pass_left_in_the_middle_does_not_read_beside_the_next() -> None:
    iterator = ds.GeneratorDataset(Shared(), "x", shuffle=False).create_tuple_iterator()
    for _ in range(5):
        for _ in iterator:
            break
    assert rows_of(iterator) == list(range(50))


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_batches_are_inputs_of_a_compiled_step(backend: str) -> None:
    """A weight trained by rows of a dataset is the one trained by the same arrays."""

    def trained(batches: list[Any]) -> Any:
        graphls.set_seed(1)
        network = nn.SequentialCell(nn.Flatten(), nn.Dense(4, 20))
        loss = nn.WithLossCell(network, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"))
        cell = nn.TrainOneStepCell(loss, nn.Momentum(network.trainable_params(), 0.1, 0.9)).set_train()
        step = graphls.compile(cell, *batches[0], backend=backend)
        losses = [step(*batch).item() for batch in batches]
        return losses, [parameter.asnumpy() for parameter in network.trainable_params()]

    source = Numbers(20)
    dataset = ds.GeneratorDataset(source, ["image", "label"], shuffle=False).batch(5)
    fed = [(batch["image"], batch["label"]) for batch in dataset.create_dict_iterator(num_epochs=1)]
    arrays = [(np.stack([source[i][0] for i in rows]), np.array(rows)) for rows in np.arange(20).reshape(4, 5).tolist()]
    (losses, weights), (expected_losses, expected_weights) = trained(fed), trained(arrays)
    assert losses == expected_losses
    for weight, expected in zip(weights, expected_weights, strict=True):
        np.testing.assert_array_equal(weight, expected)


def read_by_threads(iterator: ds.DatasetIterator, count: int) -> tuple[list[Any], list[str]]:
    """The rows of a pass of which several threads take some each, and what they raise."""
    taken: list[Any] = []
    raised: list[str] = []
    all_are_there = threading.Barrier(count)  # who comes when a pass has ended begins the next

    def take() -> None:
        rows = iter(iterator)
        all_are_there.wait(60)
        try:
            taken.extend(row[0].item() for row in iter(rows.__next__, None))
        except RuntimeError as error:
            raised.append(str(error))

    threads = [threading.Thread(target=take, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return taken, raised


@pytest.mark.parametrize("workers", [1, 2])
def test_threads_that_share_an_iterator_get_each_row_once(workers: int) -> None:
    iterator = plain(400).map(lambda x: x + 1, num_parallel_workers=workers).create_tuple_iterator(num_epochs=2)
    for _ in range(2):
        taken, raised = read_by_threads(iterator, 8)
        assert sorted(taken) == list(range(1, 401)) and not raised
    assert rows_of(iterator) == []


def test_a_pass_that_fails_ends_for_all_threads() -> None:
    failing = plain(200).map(lambda x: 1 // int(x < 100), num_parallel_workers=2)
    taken, (error,) = read_by_threads(failing.create_tuple_iterator(num_epochs=1), 4)
    assert taken == [1] * 100 and "ZeroDivisionError" in error
