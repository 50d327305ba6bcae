"""Wrong uses of datasets: one sentence, the user's line, the fitting builtin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphls
import graphls.dataset as ds
from graphls import GraphlsError
from graphls.dataset import transforms
from tests.dataset.sources import plain, streamed

ITEMS = [1, 2, 3]
ROWS = plain(6)
PAIRS = ds.GeneratorDataset([(1, 2)], ["a", "b"])


@pytest.mark.parametrize(
    ("use", "builtin", "text"),
    [
        (lambda: ds.GeneratorDataset(ITEMS), ValueError, "Neither columns_names nor schema are provided."),
        (lambda: ds.GeneratorDataset(3, "x"), TypeError, "is of type int"),
        (lambda: ds.GeneratorDataset({"a": 1}, "x"), TypeError, "is of type dict"),
        (lambda: ds.GeneratorDataset(ITEMS, [3]), TypeError, "not of type .*list.*str"),
        (lambda: ds.GeneratorDataset(ITEMS, []), ValueError, "should not be empty"),
        (lambda: ds.GeneratorDataset(ITEMS, ["x", "x"]), ValueError, "a name twice"),
        (lambda: ds.GeneratorDataset(ITEMS, "x", ["float33"]), TypeError, "'float33' is not a dtype"),
        (lambda: ds.GeneratorDataset(ITEMS, "x", [np.int8, np.int8]), ValueError, "not 2 for 1"),
        (lambda: ds.GeneratorDataset(ITEMS, schema=3), TypeError, "Argument schema with value 3 is not a path"),
        (lambda: ds.GeneratorDataset(ITEMS, schema="none.json"), OSError, "none.json cannot be read"),
        (lambda: ds.GeneratorDataset(ITEMS, "x", num_samples=-1), ValueError, "Input num_samples is not within"),
        (lambda: ds.GeneratorDataset(ITEMS, "x", num_samples=2.0), TypeError, "Argument num_samples with value"),
        (lambda: ds.GeneratorDataset(ITEMS, "x", num_parallel_workers=0), ValueError, "exceeds the boundary"),
        (lambda: ds.GeneratorDataset(ITEMS, "x", shuffle="yes"), TypeError, "Argument shuffle with value"),
        (
            lambda: ds.GeneratorDataset(ITEMS, "x", shuffle=True, sampler=[1]),
            ValueError,
            "sampler and shuffle cannot be specified at the same time.",
        ),
        (
            lambda: ds.GeneratorDataset(ITEMS, "x", num_shards=2, shard_id=0, sampler=[1]),
            ValueError,
            "sampler and sharding cannot be specified at the same time.",
        ),
        (
            lambda: ds.GeneratorDataset(ITEMS, "x", num_shards=2),
            ValueError,
            "num_shards and shard_id need to be passed in together.",
        ),
        (
            lambda: ds.GeneratorDataset(ITEMS, "x", shard_id=0),
            ValueError,
            "num_shards and shard_id need to be passed in together.",
        ),
        (lambda: ds.GeneratorDataset(ITEMS, "x", num_shards=2, shard_id=2), ValueError, "shard_id is below num_shards"),
        (lambda: ds.GeneratorDataset(ITEMS, "x", sampler=3), TypeError, "iterable of row indices"),
        (lambda: ds.GeneratorDataset(ITEMS, "x", batch_sampler=3), TypeError, "an iterable of lists"),
        (lambda: ds.GeneratorDataset(ITEMS, "x", collate_fn=list), ValueError, "only when batch_sampler is set"),
        (
            lambda: ds.GeneratorDataset(ITEMS, "x", batch_sampler=[[0]], shuffle=False),
            ValueError,
            "batch_sampler cannot be specified together",
        ),
        (lambda: ds.GeneratorDataset(iter(ITEMS), "x", sampler=[1]), ValueError, "attribute '__getitem__'"),
        (lambda: ds.GeneratorDataset(iter(ITEMS), "x", shuffle=True), ValueError, "attribute '__getitem__'"),
        (lambda: streamed(3).use_sampler([1]), ValueError, "a source with __getitem__"),
        (lambda: ds.NumpySlicesDataset(([1, 2], [3])), ValueError, "Data length in each column is not equal"),
        (lambda: ds.NumpySlicesDataset(3), TypeError, "an array or a list"),
        (lambda: ds.NumpySlicesDataset([[1], [2, 3]]), ValueError, "the same shape"),
        (lambda: ds.NumpySlicesDataset([1], ["a", "b"]), ValueError, "2 names for 1 columns"),
        (lambda: ds.PaddedDataset([]), ValueError, "has no rows"),
        (lambda: ds.PaddedDataset([{"a": 1}, {"b": 1}]), ValueError, "the same columns"),
        (lambda: ROWS.batch(0), ValueError, "Input batch_size is not within"),
        (lambda: ROWS.batch(2.5), TypeError, "Argument batch_size with value"),
        (lambda: ROWS.batch(2, drop_remainder=1), TypeError, "Argument drop_remainder with value"),
        (lambda: ROWS.batch(2, output_columns="y"), ValueError, "goes with per_batch_map only"),
        (lambda: ROWS.batch(2, per_batch_map=3), TypeError, "per_batch_map with value .* is not a function"),
        (lambda: ROWS.batch(2, per_batch_map=max, input_columns="y"), ValueError, "batch names 'y'"),
        (lambda: ROWS.padded_batch(2, pad_info={"y": None}), ValueError, "pad_info names 'y'"),
        (lambda: ROWS.padded_batch(2, pad_info={"x": 3}), TypeError, "with value 3 is not \\(shape, value\\)"),
        (lambda: ROWS.padded_batch(2, pad_info={"x": ("a", 0)}), TypeError, "with value 'a' is not a shape"),
        (lambda: ROWS.map(3), TypeError, "is not an operation or a function"),
        (lambda: ROWS.map([]), ValueError, "The list operations must not be empty"),
        (lambda: ROWS.map(abs, "label"), ValueError, "map names 'label', and the columns here are \\['x'\\]"),
        (lambda: PAIRS.map(abs, "a", "b"), ValueError, "The columns after map has a name twice"),
        (lambda: ROWS.map(abs, cache=3), TypeError, "does not offer caches of rows"),
        (lambda: ROWS.filter(True), TypeError, "predicate with value .* is not a function"),
        (lambda: ROWS.shuffle(1), ValueError, "Input buffer_size is not within"),
        (lambda: ROWS.shuffle(True), TypeError, "Argument buffer_size with value"),
        (lambda: ROWS.repeat(0), ValueError, "Input count is not within"),
        (lambda: ROWS.skip(-1), ValueError, "Input count is not within"),
        (lambda: ROWS.take(0), ValueError, "Input count is not within"),
        (lambda: ROWS.zip(3), TypeError, "datasets of zip with value 3 is not a dataset"),
        (lambda: ROWS.zip(plain(3)), ValueError, "The columns of zip has a name twice"),
        (lambda: ds.zip((PAIRS, [1])), TypeError, "datasets of zip with value .* is not a dataset"),
        (lambda: ROWS.concat(PAIRS), ValueError, "datasets of the same columns, not \\['x'\\] and \\['a', 'b'\\]"),
        (lambda: ROWS + 3, TypeError, "datasets of concat with value 3 is not a dataset"),
        (lambda: PAIRS.rename(["a"], ["c", "d"]), ValueError, "not 2 for 1"),
        (lambda: PAIRS.rename("a", "b"), ValueError, "a name twice"),
        (lambda: PAIRS.project("aa"), ValueError, "did you mean 'a'"),
        (lambda: ROWS.split([3, 2]), RuntimeError, "Sum of split sizes 5 is not equal to dataset size 6"),
        (lambda: ROWS.split([0.5, 0.4]), ValueError, "do not sum up to 1"),
        (lambda: ROWS.split([0.99, 0.01]), RuntimeError, "a part without rows"),
        (lambda: ROWS.split([3, 0.5]), ValueError, "row counts, or fractions"),
        (lambda: ROWS.split(3), TypeError, "Argument sizes with value"),
        (lambda: ROWS.apply(lambda d: 3), TypeError, "apply_func gives a dataset"),
        (lambda: ROWS.bucket_batch_by_length("x", [3, 2], [1, 1, 1]), ValueError, "grow, not \\[3, 2\\]"),
        (lambda: ROWS.bucket_batch_by_length("x", [3], [1]), ValueError, "one number more"),
        (lambda: ROWS.bucket_batch_by_length("x", [], [1]), ValueError, "bucket_boundaries cannot be empty"),
        (lambda: ROWS.bucket_batch_by_length("x", 3, [1]), TypeError, "a list of integers"),
        (lambda: ROWS.split([]), ValueError, "sizes cannot be empty"),
        (lambda: ROWS.take(np.array([1, 2])), TypeError, "Argument count with value"),
        (lambda: ROWS.repeat(np.array([1, 2])), TypeError, "Argument count with value"),
        (lambda: transforms.TypeCast(np.array([1, 2])), TypeError, "is not a dtype"),
        (lambda: ds.NumpySlicesDataset([1], sampler="ab"), TypeError, "sampler with value 'ab'"),
        (lambda: ds.SubsetRandomSampler(""), TypeError, "indices with value ''"),
        (lambda: ds.PKSampler(2, class_column=3), TypeError, "Argument class_column with value 3"),
        (lambda: PAIRS.bucket_batch_by_length(["a", "b"], [3], [1, 1]), ValueError, "element_length_function"),
        (lambda: ROWS.create_dict_iterator(num_epochs=0), ValueError, "num_epochs is 1 or more, or -1"),
        (lambda: ROWS.create_dict_iterator(num_epochs="1"), TypeError, "Argument num_epochs with value"),
        (lambda: ROWS.create_dict_iterator(output_numpy=1), TypeError, "Argument output_numpy with value"),
        (lambda: ROWS.create_tuple_iterator("y"), ValueError, "project names 'y'"),
        (lambda: ROWS.set_init_step(-1), ValueError, "Input init_step is not within"),
        (lambda: ROWS.set_init_step(1.0), TypeError, "Argument init_step with value"),
        (lambda: ROWS.shufle(3), AttributeError, "A dataset has no 'shufle'; did you mean 'shuffle'"),
        (lambda: ROWS["x"], TypeError, "integers as indices"),
        (lambda: ROWS[6], IndexError, "Row 6 is outside"),
        (lambda: ds.SequentialSampler(-1), ValueError, "Input start_index is not within"),
        (lambda: ds.SubsetSampler("ab"), TypeError, "indices with value 'ab' is not a list of integers"),
        (lambda: ds.WeightedRandomSampler([0, 0]), ValueError, "one at least is positive"),
        (lambda: ds.WeightedRandomSampler(["a"]), TypeError, "weights with value .* is not a list of numbers"),
        (lambda: ds.DistributedSampler(2, 0, offset=3), ValueError, "offset is num_shards"),
        (lambda: iter(ds.Sampler()), TypeError, "Sampler needs a method __iter__"),
        (lambda: ds.config.set_seed(-1), ValueError, "Seed given is not within the required range"),
        (lambda: ds.config.set_seed("1"), TypeError, "Argument Seed with value"),
        (lambda: ds.config.set_prefetch_size(0), ValueError, "Prefetch size given is not within"),
        (lambda: ds.config.set_num_parallel_workers(0), ValueError, "workers given is not within"),
        (lambda: ds.config.set_auto_num_workers(3), TypeError, "auto_num_workers with value 3 is not of type"),
        (lambda: ds.Schema().add_column(3, graphls.int8), TypeError, "Argument name with value 3 is not of type"),
        (lambda: ds.Schema().parse_columns([{"name": "x"}]), ValueError, "has a name and a type"),
    ],
)
def test_a_wrong_use_is_one_sentence_with_a_line(use: Callable[[], Any], builtin: type[Exception], text: str) -> None:
    with pytest.raises(GraphlsError, match=text) as caught:
        use()
    assert isinstance(caught.value, builtin)
    assert f"test_wrong_uses.py:{use.__code__.co_firstlineno}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_errors_of_the_iteration_name_the_line_of_the_node() -> None:
    made_here = plain(4).map(lambda x: np.zeros(int(x) % 2 + 1)).batch(2)
    line = test_errors_of_the_iteration_name_the_line_of_the_node.__code__.co_firstlineno + 1
    with pytest.raises(RuntimeError, match=f"^batch failed at row 0: .*test_wrong_uses.py:{line}\\)"):
        next(made_here.create_dict_iterator())


def test_an_array_that_is_no_tensor() -> None:
    with pytest.raises(TypeError, match="complex128") as caught:
        next(ds.GeneratorDataset([np.zeros(2, complex)], "x").create_dict_iterator())
    assert "test_wrong_uses.py" in str(caught.value)
    assert next(iter(ds.GeneratorDataset([np.zeros(2, complex)], "x").create_dict_iterator(output_numpy=True)))


def test_a_dataset_without_rows_has_no_step_to_start_at() -> None:
    empty = plain(0)
    empty.set_init_step(1)
    with pytest.raises(ValueError, match="without rows"):
        empty.create_dict_iterator()
    assert list(plain(0)) == []


def test_hints_are_accepted_and_remembered() -> None:
    for name, value in (
        ("auto_num_workers", True),
        ("enable_autotune", True),
        ("enable_shared_mem", False),
        ("enable_watchdog", False),
        ("multiprocessing_timeout_interval", 10),
        ("monitor_sampling_interval", 10),
        ("numa_enable", True),
    ):
        before = getattr(ds.config, f"get_{name}")()
        getattr(ds.config, f"set_{name}")(value)
        assert getattr(ds.config, f"get_{name}")() == value
        getattr(ds.config, f"set_{name}")(before)
