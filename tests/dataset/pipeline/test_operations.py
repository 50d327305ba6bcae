"""What the operations of a pipeline give, and what they say about its size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
import graphls.dataset as ds
from tests.dataset.sources import Numbers, numbers, passes, plain, streamed, values


@pytest.fixture(params=[plain, streamed], ids=["indexed", "streamed"])
def counted(request: pytest.FixtureRequest) -> Any:
    """Makes a dataset of the numbers below n, of a source with items and of a generator function."""
    return request.param


def test_batch(counted: Any) -> None:
    assert values(counted(5).batch(2)) == [[0, 1], [2, 3], [4]]
    assert values(counted(5).batch(2, drop_remainder=True)) == [[0, 1], [2, 3]]
    assert values(counted(2).batch(3)) == [[0, 1]]
    assert values(counted(2).batch(3, True)) == []
    assert values(counted(6).batch(3).batch(2)) == [[[0, 1, 2], [3, 4, 5]]]


def test_sizes_of_batches_and_repetitions(counted: Any) -> None:
    """5 rows in batches of 2, three times: 9; repeated before: 8."""
    assert counted(5).batch(2).repeat(3).get_dataset_size() == 9
    assert counted(5).repeat(3).batch(2).get_dataset_size() == 8
    assert len(values(counted(5).batch(2).repeat(3))) == 9
    assert len(values(counted(5).repeat(3).batch(2))) == 8
    assert values(counted(5).repeat(3).batch(2))[2] == [4, 0]


def test_a_batch_has_one_shape_and_one_dtype() -> None:
    ragged = ds.GeneratorDataset([np.zeros(2), np.zeros(3)], "x", shuffle=False)
    with pytest.raises(
        RuntimeError, match=r"Cannot batch tensors with different shapes in column 0 \('x'\): \(2,\) and \(3,\)"
    ):
        values(ragged.batch(2))
    assert len(values(ragged.batch(1))) == 2
    mixed = ds.GeneratorDataset([np.zeros(2), np.zeros(2, np.float32)], "x", shuffle=False)
    with pytest.raises(RuntimeError, match=r"with different types in column 0 \('x'\): float32 and float64"):
        values(mixed.batch(2))


def test_texts_of_any_length_make_a_batch() -> None:
    (batch,) = ds.GeneratorDataset(["a", "bcd"], "x", shuffle=False).batch(2).create_tuple_iterator(num_epochs=1)
    assert isinstance(batch[0], np.ndarray)
    assert batch[0].tolist() == ["a", "bcd"]


def test_the_size_of_a_batch_may_be_a_function(counted: Any) -> None:
    grown = counted(7).batch(lambda info: info.get_batch_num() + 1 + info.get_epoch_num())
    assert passes(grown, 2) == [[[0], [1, 2], [3, 4, 5], [6]], [[0, 1], [2, 3, 4], [5, 6]]]
    assert grown.get_dataset_size() == 4
    assert grown.get_batch_size() == 1
    with pytest.raises(RuntimeError, match=r"batch_size failed for batch 0: .*The result of batch_size"):
        values(counted(3).batch(lambda info: "2"))


def test_per_batch_map(counted: Any) -> None:
    def shifted(column: list[Any], info: ds.BatchInfo) -> tuple[Any]:
        return ([x + 10 * info.get_batch_num() + 100 * info.get_epoch_num() for x in column],)

    assert passes(counted(4).batch(2, per_batch_map=shifted), 2) == [[[0, 1], [12, 13]], [[100, 101], [112, 113]]]
    doubled = counted(4).batch(2, per_batch_map=lambda x, _: np.stack(x) * 2)
    assert values(doubled) == [[0, 2], [4, 6]]


def test_per_batch_map_may_change_the_columns() -> None:
    pairs = ds.GeneratorDataset([(1, 2, 3), (4, 5, 6)], ["a", "b", "c"], shuffle=False)
    summed = pairs.batch(2, input_columns=["a", "c"], output_columns="sum", per_batch_map=lambda a, c, _: np.add(a, c))
    assert summed.get_col_names() == ["sum", "b"]
    assert values(summed) == [[[4, 10], [2, 5]]]
    wrong = pairs.batch(2, input_columns=["a"], per_batch_map=lambda a, _: (a, a))
    with pytest.raises(RuntimeError, match="gave 2 columns where output_columns has 1"):
        values(wrong)
    assert pairs.batch(2, column_order=["c", "a"]).get_col_names() == ["c", "a"]


def test_padded_batch() -> None:
    rows = ds.GeneratorDataset([(np.arange(n), n) for n in (1, 3, 2)], ["x", "n"], shuffle=False)
    assert values(rows.padded_batch(2)) == [[[[0, 0, 0], [0, 1, 2]], [1, 3]], [[[0, 1]], [2]]]
    padded = rows.padded_batch(3, pad_info={"x": ([4], -1)})
    assert values(padded)[0][0] == [[0, -1, -1, -1], [0, 1, 2, -1], [0, 1, -1, -1]]
    assert values(rows.batch(3, pad_info={"x": ([None], 9)}))[0][0] == [[0, 9, 9], [0, 1, 2], [0, 1, 9]]
    with pytest.raises(RuntimeError, match=r"row of shape \(3,\), larger than \(2,\) in pad_info"):
        values(rows.padded_batch(3, pad_info={"x": ([2], 0)}))
    with pytest.raises(RuntimeError, match="rows of 1 axes where pad_info has 2"):
        values(rows.padded_batch(3, pad_info={"x": ([2, 2], 0)}))


def test_padded_batch_of_images_and_texts() -> None:
    images = [(np.ones(shape, np.float32), text) for shape, text in (((1, 2), "a"), ((2, 1), "bc"))]
    ((x, text),) = values(ds.GeneratorDataset(images, ["x", "t"], shuffle=False).padded_batch(2))
    assert x == [[[1, 1], [0, 0]], [[1, 0], [1, 0]]]
    assert text == ["a", "bc"]


def test_map_replaces_columns_in_place(counted: Any) -> None:
    assert values(counted(3).map(lambda x: x * 2)) == [0, 2, 4]
    assert values(counted(3).map([lambda x: x + 1, lambda x: x * 10], input_columns="x")) == [10, 20, 30]
    renamed = counted(3).map(lambda x: x, "x", "y")
    assert renamed.get_col_names() == ["y"]
    assert renamed.get_dataset_size() == 3


def test_map_takes_the_first_column_where_none_is_named() -> None:
    assert values(ds.GeneratorDataset([(1, 2)], ["a", "b"]).map(lambda a: a + 10)) == [[11, 2]]


def test_map_of_another_number_of_columns_puts_them_first() -> None:
    rows = ds.GeneratorDataset([(1, 2, 3)], ["a", "b", "c"])
    more = rows.map([lambda b: (b, b + 1), lambda x, y: (x, y, x * y)], ["b"], ["b", "next", "product"])
    assert more.get_col_names() == ["b", "next", "product", "a", "c"]
    assert values(more) == [[2, 3, 6, 1, 3]]
    fewer = rows.map(lambda a, c: a + c, ["a", "c"], ["sum"])
    assert fewer.get_col_names() == ["sum", "b"]
    assert values(fewer) == [[4, 2]]
    swapped = rows.map(lambda a, c: (c, a), ["a", "c"], ["c", "a"], column_order=["a", "b", "c"])
    assert values(swapped) == [[1, 2, 3]]


def test_map_functions_get_arrays_and_give_anything_that_is_a_column() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.append(x)
        return graphls.Tensor(x) + 1

    assert values(plain(2).map([look, lambda x: x.asnumpy().tolist()])) == [1, 2]
    assert all(isinstance(x, np.ndarray) and x.shape == () for x in seen)


def test_map_that_gives_another_number_of_columns_than_named() -> None:
    with pytest.raises(RuntimeError, match=r"map failed at row 0: .* gave 2 columns where output_columns has 1"):
        values(plain(2).map(lambda x: (x, x)))


def test_filter(counted: Any) -> None:
    assert values(counted(6).filter(lambda x: x % 2 == 0)) == [0, 2, 4]
    assert counted(6).filter(lambda x: x > 3).get_dataset_size() == 2
    assert values(counted(6).filter(lambda x: x > 3).batch(5)) == [[4, 5]]
    both = ds.GeneratorDataset([(1, 2), (3, 1)], ["a", "b"], shuffle=False)
    assert values(both.filter(lambda a, b: a > b)) == [[3, 1]]
    assert values(both.filter(lambda b: b == 2, input_columns=["b"])) == [[1, 2]]


def test_skip_and_take(counted: Any) -> None:
    assert values(counted(5).skip(2)) == [2, 3, 4]
    assert values(counted(5).take(2)) == [0, 1]
    assert values(counted(5).take()) == values(counted(5).take(9)) == [0, 1, 2, 3, 4]
    assert values(counted(5).skip(1).take(2).skip(1)) == [2]
    assert values(counted(5).skip(9)) == []
    assert counted(5).skip(2).get_dataset_size() == 3
    assert counted(5).take(9).get_dataset_size() == 5


def test_repeat_for_ever(counted: Any) -> None:
    endless = counted(3).repeat()
    assert endless.get_dataset_size() == 3
    assert endless.get_repeat_count() == 1
    iterator = endless.create_tuple_iterator(output_numpy=True)
    assert [int(next(iterator)[0]) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]
    assert values(endless.take(4)) == [0, 1, 2, 0]
    assert values(plain(0).repeat()) == values(streamed(0).repeat()) == []


def test_zip_and_concat(counted: Any) -> None:
    other = counted(3).map(lambda x: x * 10, "x", "y")
    zipped = counted(4).zip(other)
    assert zipped.get_col_names() == ["x", "y"]
    assert values(zipped) == values(ds.zip((counted(4), other))) == [[0, 0], [1, 10], [2, 20]]
    assert len(zipped) == 3
    joined = counted(2).concat([counted(1), counted(3)])
    assert values(joined) == [0, 1, 0, 0, 1, 2]
    assert values(counted(2) + counted(1)) == [0, 1, 0]
    assert len(joined) == 6


def test_rename_and_project() -> None:
    rows = ds.GeneratorDataset([(1, 2, 3)], ["a", "b", "c"])
    assert rows.rename(["a", "c"], ["c", "d"]).get_col_names() == ["c", "b", "d"]
    picked = rows.project(["c", "a"])
    assert picked.get_col_names() == ["c", "a"]
    assert values(picked) == [[3, 1]]
    assert [row[0].item() for row in rows.create_tuple_iterator(columns="b", num_epochs=1)] == [2]


def test_split_shares_rows_out(counted: Any) -> None:
    train, test = counted(10).split([0.8, 0.2])
    parts = passes(train, 2), passes(test, 2)
    assert sorted(parts[0][0] + parts[1][0]) == list(range(10))
    assert parts[0][0] == parts[0][1]
    assert sorted(parts[1][0]) != [8, 9]
    assert (len(train), len(test)) == (8, 2)
    first, second = counted(5).split([2, 3], randomize=False)
    assert values(first) == [0, 1]
    assert values(second) == [2, 3, 4]
    assert [len(part) for part in counted(10).split([0.33, 0.33, 0.34])] == [4, 3, 3]


def test_split_of_a_shuffled_source_never_shares_a_row() -> None:
    train, test = ds.GeneratorDataset(list(range(20)), "x").split([15, 5])
    for first, second in zip(passes(train.shuffle(15), 3), passes(test, 3), strict=True):
        assert sorted(first + second) == list(range(20))


def test_apply() -> None:
    assert values(plain(4).apply(lambda dataset: dataset.skip(1).batch(2))) == [[1, 2], [3]]


def test_bucket_batch_by_length(counted: Any) -> None:
    lengths = [1, 5, 2, 9, 6, 1, 7]
    rows = counted(7).map(lambda i: np.full(lengths[int(i)], i))
    batches = values(rows.bucket_batch_by_length(["x"], [4, 8], [2, 2, 1]))
    assert [[row[0] for row in batch] for batch in batches] == [[0, 2], [3], [1, 4], [5], [6]]
    assert batches[0] == [[0, 0], [2, 2]]
    dropped = rows.bucket_batch_by_length("x", [4, 8], [2, 2, 1], drop_remainder=True)
    assert len(values(dropped)) == dropped.get_dataset_size() == 3
    short = rows.filter(lambda x: len(x) < 8)
    padded = short.bucket_batch_by_length(
        "x", [4, 8], [2, 2, 1], lambda x: len(x), {"x": ([None], -1)}, pad_to_bucket_boundary=True
    )
    assert values(padded)[0] == [[0, -1, -1], [2, 2, -1]]
    with pytest.raises(RuntimeError, match="longer than the last of bucket_boundaries"):
        values(rows.bucket_batch_by_length("x", [4, 8], [2, 2, 1], None, {"x": ([None], 0)}, True))


def test_a_node_may_have_two_consumers() -> None:
    shared = ds.GeneratorDataset(Numbers(6), ["image", "label"])
    labels = shared.project("label")
    both = ds.zip((labels, labels.map(lambda x: x * 10, "label", "tens")))
    for ones, tens in passes(both, 2)[1]:
        assert tens == 10 * ones
    assert values(shared.batch(3))[0][1] == [one for one, _ in values(both)[:3]]


def test_a_pipeline_of_everything_with_items_and_streamed() -> None:
    def pipeline(source: Any) -> ds.Dataset:
        joined = source(20).map(lambda x: x + 1).concat(source(10).skip(3))
        return joined.take(24).zip(source(30).rename("x", "y")).repeat(2).batch(7, drop_remainder=True)

    assert values(pipeline(plain)) == values(pipeline(streamed))
    assert len(values(pipeline(plain))) == pipeline(plain).get_dataset_size() == pipeline(streamed).get_dataset_size()


def test_labels_of_a_classifier_in_batches() -> None:
    for batch in numbers(10).batch(4).create_dict_iterator(num_epochs=1):
        assert batch["image"].dtype is graphls.float32
        assert batch["image"].asnumpy()[:, 0, 0, 0].tolist() == batch["label"].tolist()
