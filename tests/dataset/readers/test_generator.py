"""GeneratorDataset: kinds of sources, items, and every parameter."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
import graphls.dataset as ds
from graphls import GraphlsError, Tensor
from tests.dataset.sources import Numbers, numbers, passes, plain, rows_of, streamed, values


def counted() -> Iterator[tuple[int, str]]:
    yield from zip(range(3), "abc", strict=True)


class Rewinding:
    """An iterable of the style that starts again in `__iter__` and gives rows in `__next__`."""

    def __init__(self) -> None:
        self.place = 0

    def __iter__(self) -> Rewinding:
        self.place = 0
        return self

    def __next__(self) -> tuple[int]:
        if self.place == 3:
            raise StopIteration
        self.place += 1
        return (self.place,)


@pytest.mark.parametrize(
    ("source", "columns", "rows"),
    [
        ([5, 6, 7], ["x"], [5, 6, 7]),
        ((5, 6, 7), ["x"], [5, 6, 7]),
        ([(1, 2.5), (3, 4.5)], ["x", "y"], [[1, 2.5], [3, 4.5]]),
        ([[1, 2], [3, 4]], ["x", "y"], [[1, 2], [3, 4]]),
        ([[1, 2], [3, 4]], ["x"], [[1, 2], [3, 4]]),
        ([[1, 2, 3], [4]], ["x"], [[1, 2, 3], [4]]),
        ([[np.arange(2)], [np.arange(3)]], ["x"], [[0, 1], [0, 1, 2]]),
        (np.arange(6).reshape(3, 2), ["x"], [[0, 1], [2, 3], [4, 5]]),
        (["a", "bc"], "x", ["a", "bc"]),
        ([b"a", b"bc"], "x", [b"a", b"bc"]),
        ([np.str_("a"), np.float32(2.5), True], "x", ["a", 2.5, True]),
        ([Tensor([1, 2]), Tensor([3, 4])], "x", [[1, 2], [3, 4]]),
        ([([Tensor(1), Tensor(2)],)], "x", [[1, 2]]),
        (counted, ["x", "y"], [[0, "a"], [1, "b"], [2, "c"]]),
        (zip(range(3), "abc", strict=True), ["x", "y"], [[0, "a"], [1, "b"], [2, "c"]]),
        (counted(), ["x", "y"], [[0, "a"], [1, "b"], [2, "c"]]),
        (iter([4, 5]), "x", [4, 5]),
        ({4}, "x", [4]),
        (Rewinding(), "x", [1, 2, 3]),
    ],
)
def test_every_kind_of_source_in_every_pass(source: Any, columns: Any, rows: list[Any]) -> None:
    shuffle = False if hasattr(source, "__getitem__") else None
    dataset = ds.GeneratorDataset(source, columns, shuffle=shuffle)
    assert dataset.get_dataset_size() == len(dataset) == len(rows)
    assert passes(dataset, 2) == [rows, rows]


def test_an_object_with_items_is_shuffled_unless_told_otherwise() -> None:
    first, second = passes(ds.GeneratorDataset(list(range(50)), "x"), 2)
    assert sorted(first) == sorted(second) == list(range(50))
    assert len({tuple(first), tuple(second), tuple(range(50))}) == 3
    assert values(plain(50)) == list(range(50))
    assert passes(plain(50, shuffle=True), 2) == [first, second]


def test_python_numbers_are_int64_and_float64_and_arrays_keep_their_dtype() -> None:
    row = ds.GeneratorDataset([(1, 2.5, True, np.float64(3), np.float16([1]))], list("abcde"))[0]
    assert [tensor.dtype for tensor in row] == [
        graphls.int64, graphls.float64, graphls.bool_, graphls.float64, graphls.float16,
    ]  # fmt: skip


def test_arrays_become_tensors_without_a_copy() -> None:
    image = np.ones((3, 3), np.float32)
    assert next(ds.GeneratorDataset([(image,)], "x").create_tuple_iterator())[0].asnumpy() is image
    copied = next(ds.GeneratorDataset([(image,)], "x").create_tuple_iterator(do_copy=True))[0].asnumpy()
    assert not np.shares_memory(copied, image)


def test_arrays_of_the_other_byte_order_become_native() -> None:
    (tensor,) = ds.GeneratorDataset([np.array([1, 2], ">i4")], "x")[0]
    assert tensor.dtype is graphls.int32
    assert tensor.tolist() == [1, 2]


def test_column_types_hold_arrays_and_convert_python_numbers() -> None:
    dataset = ds.GeneratorDataset([(1, [2, 3])], ["x", "y"], column_types=[graphls.float32, np.int8])
    assert [tensor.dtype for tensor in dataset[0]] == [graphls.float32, graphls.int8]
    wrong = ds.GeneratorDataset([np.zeros(2)], ["x"], column_types=[graphls.float32])
    with pytest.raises(RuntimeError, match="gave float64 for 'x', where column_types has float32"):
        next(wrong.create_dict_iterator())


def test_a_schema_names_the_columns(tmp_path: Path) -> None:
    schema = ds.Schema()
    schema.add_column("x", graphls.float32, shape=[])
    schema.add_column("y", "string")
    dataset = ds.GeneratorDataset([(1, "a")], schema=schema)
    assert dataset.get_col_names() == ["x", "y"]
    assert dataset.output_types()[0] == np.float32
    (tmp_path / "schema.json").write_text(schema.to_json())
    assert ds.GeneratorDataset([(1, "a")], schema=str(tmp_path / "schema.json")).output_types()[0] == np.float32
    assert str(ds.Schema(str(tmp_path / "schema.json"))) == schema.to_json()


def test_num_samples_bounds_every_kind_of_source() -> None:
    assert values(plain(7, num_samples=3)) == [0, 1, 2]
    shuffled = values(plain(7, num_samples=3, shuffle=True))
    assert len(set(shuffled)) == len(shuffled) == 3
    assert values(ds.GeneratorDataset(counted, ["x", "y"], num_samples=2)) == [[0, "a"], [1, "b"]]
    assert values(plain(7, sampler=[6, 5, 4, 3], num_samples=2)) == [6, 5]
    assert len(plain(7, num_samples=3)) == 3


def test_shards_are_equally_long() -> None:
    assert values(plain(7, shuffle=False, num_shards=2, shard_id=0)) == [0, 2, 4, 6]
    assert values(plain(7, shuffle=False, num_shards=2, shard_id=1)) == [1, 3, 5, 0]
    assert len(plain(7, num_shards=2, shard_id=1)) == 4


def test_shards_of_a_shuffled_source_have_all_rows_in_every_pass() -> None:
    shards = [ds.GeneratorDataset(list(range(8)), "x", num_shards=2, shard_id=i) for i in range(2)]
    parts = [passes(shard, 2) for shard in shards]
    for epoch in range(2):
        assert sorted(parts[0][epoch] + parts[1][epoch]) == list(range(8))
    assert parts[0][0] != parts[0][1]


def test_batch_sampler_and_collate_fn() -> None:
    batches = [[0, 1], [4], [2, 3, 0]]
    dataset = numbers(5, batch_sampler=batches)
    assert len(dataset) == 3
    images, labels = dataset[2]
    assert images.shape == (3, 1, 2, 2)
    assert [row[1] for row in passes(dataset, 2)[1]] == batches
    assert labels.tolist() == [2, 3, 0]

    def collate(items: list[tuple[Any, int]]) -> tuple[Any, Any]:
        return np.stack([image for image, _ in items]).sum(), [label * 10 for _, label in items]

    ragged = ds.GeneratorDataset([[1], [2, 3]], "x", batch_sampler=[[0, 1]])
    with pytest.raises(RuntimeError, match="Cannot batch tensors with different shapes in column 0"):
        values(ragged)
    collated = numbers(5, batch_sampler=batches, collate_fn=collate)
    assert values(collated)[:2] == [[4.0, [0, 10]], [16.0, [40]]]


def test_an_iterator_is_read_once_and_kept() -> None:
    taken: list[int] = []

    def logged() -> Iterator[int]:
        for number in range(4):
            taken.append(number)
            yield number

    dataset = ds.GeneratorDataset(logged(), "x").batch(2)
    assert dataset.get_dataset_size() == 2
    assert passes(dataset, 2) == [[[0, 1], [2, 3]]] * 2
    assert taken == [0, 1, 2, 3]


def test_two_iterators_may_read_an_iterator_that_is_kept() -> None:
    dataset = ds.GeneratorDataset(map(slowly, range(200)), "x")
    first, second = dataset.create_tuple_iterator(num_epochs=1), dataset.create_tuple_iterator(num_epochs=1)
    pairs = [(a[0].item(), b[0].item()) for a, b in zip(first, second, strict=True)]
    assert pairs == [(i, i) for i in range(200)]


def slowly(number: int) -> int:
    return int(np.sort(np.arange(20_000)[::-1])[number])


def test_a_source_that_does_not_know_its_length() -> None:
    class Endless:
        def __getitem__(self, index: int) -> int:
            return index

    with pytest.raises(RuntimeError, match="does not know its length: TypeError"):
        len(ds.GeneratorDataset(Endless(), "x"))


class Published:
    """The source of the notebook, with its two mistakes."""

    def __init__(self, n: int) -> None:
        self.data = [np.zeros((3, 4, 5)) for _ in range(n)]
        self.label = [np.ones(1) for _ in range(n)]

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, idx: int) -> Any:
        self.data = self.data[idx]  # type: ignore[assignment]
        self.label = self.label[idx]  # type: ignore[assignment]
        return data, label  # type: ignore[name-defined]  # noqa: F821


def test_the_source_of_the_notebook_as_published_fails_in_the_iteration_only() -> None:
    dataset = ds.GeneratorDataset(Published(100), column_names=["data", "label"])
    assert dataset.get_dataset_size() == 100
    with pytest.raises(RuntimeError, match="NameError: name 'data' is not defined") as caught:
        next(dataset.create_dict_iterator())
    assert isinstance(caught.value, GraphlsError)
    assert isinstance(caught.value.__cause__, NameError)
    first, *trace = str(caught.value).splitlines()
    assert "test_generator.py:" in first
    assert any("return data, label" in line for line in trace)


def test_a_wrong_number_of_columns_shows_in_the_iteration() -> None:
    with pytest.raises(RuntimeError, match="gave 2 columns where column_names has 3"):
        values(ds.GeneratorDataset([(1, 2)], ["a", "b", "c"]))


def test_a_generator_function_that_raises_gives_the_rows_before() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise KeyError("gone")

    iterator = ds.GeneratorDataset(failing, "x").create_tuple_iterator()
    assert rows_of([next(iterator)]) == [1]
    with pytest.raises(RuntimeError, match="KeyError: 'gone'") as caught:
        next(iterator)
    assert 'raise KeyError("gone")' in str(caught.value)


def test_items_that_are_no_columns() -> None:
    with pytest.raises(RuntimeError, match="numbers, text, bytes or dicts, not object objects"):
        values(ds.GeneratorDataset([object()], "x"))
    with pytest.raises(RuntimeError, match="must have the same length"):
        values(ds.GeneratorDataset([([[1], [2, 3]],)], "x"))


def test_information_about_the_columns() -> None:
    dataset = numbers(10).batch(4).repeat(3)
    assert dataset.get_col_names() == ["image", "label"]
    assert dataset.output_shapes() == [[4, 1, 2, 2], [4]]
    assert dataset.output_types() == [np.dtype(np.float32), np.dtype(np.int64)]
    assert dataset.get_batch_size() == 4
    assert dataset.get_repeat_count() == 3
    assert dataset.dataset_size == 9


def test_rows_by_number_read_only_that_row() -> None:
    source = Numbers(100)
    dataset = ds.GeneratorDataset(source, ["image", "label"]).map(lambda x: x + 1, "label").shuffle(10)
    order = [row[1] for row in values(dataset)]
    source.read.clear()
    assert dataset[7][1].item() == order[7]
    assert dataset[-1][1].item() == order[-1]
    assert source.read == [order[7] - 1, order[-1] - 1]
    assert rows_of([streamed(5)[3]]) == [3]
    with pytest.raises(IndexError, match="Row 100 is outside of the 100 rows"):
        dataset[100]


def test_numpy_slices() -> None:
    assert values(ds.NumpySlicesDataset([[1, 2], [3, 4]], shuffle=False)) == [[1, 2], [3, 4]]
    pairs = ds.NumpySlicesDataset((np.arange(3), ["a", "b", "c"]), ["x", "y"], shuffle=False)
    assert values(pairs) == [[0, "a"], [1, "b"], [2, "c"]]
    named = ds.NumpySlicesDataset({"a": [1, 2], "b": [3.5, 4.5]}, sampler=ds.SequentialSampler(1))
    assert named.get_col_names() == ["a", "b"]
    assert values(named) == [[2, 4.5]]
    assert ds.NumpySlicesDataset(([1], [2])).get_col_names() == ["column_0", "column_1"]
    assert values(ds.NumpySlicesDataset(np.arange(7), shuffle=False, num_shards=2, shard_id=1)) == [1, 3, 5, 0]
    assert ds.NumpySlicesDataset(Tensor([1.5, 2.5]), shuffle=False)[1][0].dtype is graphls.float32


def test_padded_samples_fill_a_dataset_up() -> None:
    filled = plain(3) + ds.PaddedDataset([{"x": 7}, {"x": 8}])
    assert values(filled) == [0, 1, 2, 7, 8]
