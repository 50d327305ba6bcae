"""Samplers, alone, chained, and written by users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphls.dataset as ds
from tests.dataset.sources import Numbers, passes, plain, values


def chosen(sampler: Any, size: int = 6) -> list[int]:
    dataset = plain(size, sampler=sampler)
    found = values(dataset)
    assert len(dataset) == len(found)
    return found


@pytest.mark.parametrize(
    ("sampler", "rows"),
    [
        (ds.SequentialSampler(), [0, 1, 2, 3, 4, 5]),
        (ds.SequentialSampler(2), [2, 3, 4, 5]),
        (ds.SequentialSampler(start_index=1, num_samples=2), [1, 2]),
        (ds.SubsetSampler([5, 1, 1]), [5, 1, 1]),
        (ds.SubsetSampler(3), [3]),
        (ds.SubsetSampler([5, 1, 1], num_samples=1), [5]),
        (ds.DistributedSampler(4, 3, shuffle=False), [3, 1]),
        (ds.DistributedSampler(2, 0, shuffle=False, num_samples=2), [0, 2]),
        (ds.DistributedSampler(4, 1, shuffle=False, offset=1), [0, 4]),
        (ds.DistributedSampler(4, 0, shuffle=False, offset=1), [3]),
        (ds.IterSampler(range(5, -1, -1), num_samples=3), [5, 4, 3]),
        ([4, 0], [4, 0]),
        ([-1], [5]),
    ],
)
def test_samplers_that_draw_nothing(sampler: Any, rows: list[int]) -> None:
    assert chosen(sampler) == rows


def test_random_sampler() -> None:
    assert sorted(chosen(ds.RandomSampler())) == list(range(6))
    assert len(set(chosen(ds.RandomSampler(num_samples=4)))) == 4
    drawn = chosen(ds.RandomSampler(replacement=True, num_samples=600))
    assert len(drawn) == 600
    assert set(Counter(drawn)) == set(range(6))
    assert max(Counter(drawn).values()) < 150
    assert len(chosen(ds.RandomSampler(replacement=True))) == 6


def test_subset_random_sampler_takes_the_subset_in_orders_of_its_own() -> None:
    first, second = passes(plain(100, sampler=ds.SubsetRandomSampler(range(50, 80))), 2)
    assert sorted(first) == sorted(second) == list(range(50, 80))
    assert first != second


def test_weighted_random_sampler() -> None:
    drawn = Counter(chosen(ds.WeightedRandomSampler([1, 0, 3], 4000)))
    assert set(drawn) == {0, 2}
    assert drawn[2] / drawn[0] == pytest.approx(3, rel=0.15)
    assert sorted(chosen(ds.WeightedRandomSampler([1, 0, 3, 5], 9, replacement=False))) == [0, 2, 3]
    with pytest.raises(RuntimeError, match=r"WeightedRandomSampler failed: .* 7 weights for 6 rows"):
        chosen(ds.WeightedRandomSampler([1] * 7))


@pytest.mark.parametrize("shuffle", [False, True])
def test_pk_sampler(shuffle: bool) -> None:
    labels = [0, 1, 2, 0, 1, 2, 0, 1, 2, 7]
    source = [(index, label) for index, label in enumerate(labels)]
    sampler = ds.PKSampler(2, num_class=3, shuffle=shuffle)
    dataset = ds.GeneratorDataset(source, ["index", "label"], sampler=sampler)
    rows = values(dataset)
    assert len(dataset) == len(rows) == 6
    assert all(labels[index] == label for index, label in rows)
    assert len({index for index, _ in rows}) == 6
    assert [label for _, label in rows][::2] == [label for _, label in rows][1::2]
    assert {label for _, label in rows} == {0, 1, 2}
    every = ds.GeneratorDataset(source, ["index", "label"], sampler=ds.PKSampler(2))
    assert [row for row in values(every) if row[1] == 7] == [[9, 7], [9, 7]]


def test_chained_samplers() -> None:
    sampler = ds.SequentialSampler(1, 2)
    sampler.add_child(ds.SubsetSampler([5, 3, 1, 0]))
    assert chosen(sampler) == [3, 1]
    assert sampler.get_child() is not None
    with pytest.raises(ValueError, match="one child"):
        sampler.add_child(ds.SequentialSampler())


def test_use_sampler_and_add_sampler() -> None:
    dataset = plain(6)
    dataset.use_sampler(ds.SubsetSampler([4, 2, 0]))
    assert values(dataset) == [4, 2, 0]
    dataset.add_sampler(ds.SequentialSampler(1))
    assert values(dataset) == [2, 0]


class Reverse(ds.Sampler):
    def __iter__(self) -> Iterator[int]:
        yield from range(self.dataset_size - 1, -1, -1)


class Alternating(ds.Sampler):
    """Other rows, and another number of them, in every pass."""

    def __init__(self) -> None:
        super().__init__()
        self.turn = 0

    def __iter__(self) -> Iterator[int]:
        self.turn += 1
        return iter(range(self.turn))


def test_samplers_of_users() -> None:
    assert chosen(Reverse()) == [5, 4, 3, 2, 1, 0]
    assert chosen(Reverse(num_samples=2)) == [5, 4]
    assert passes(plain(6, sampler=Alternating()), 3) == [[0], [0, 1], [0, 1, 2]]
    assert passes(plain(6, sampler=Alternating()).batch(2), 3) == [[[0]], [[0, 1]], [[0, 1], [2]]]


def test_samplers_that_fail_in_the_iteration() -> None:
    class Failing(ds.Sampler):
        def __iter__(self) -> Iterator[int]:
            yield 0
            raise KeyError("no more")

    with pytest.raises(RuntimeError, match="Failing failed: KeyError: 'no more'"):
        values(plain(3, sampler=Failing()))
    with pytest.raises(RuntimeError, match=r"SubsetSampler failed: .* chose row 9 of a source of 6 rows"):
        values(plain(6, sampler=ds.SubsetSampler([1, 9])))


def test_a_sampler_reads_only_what_it_chooses() -> None:
    source = Numbers(1000)
    assert len(values(ds.GeneratorDataset(source, ["image", "label"], sampler=[7, 500]))) == 2
    assert source.read == [7, 500]


def test_shuffles_are_not_biased() -> None:
    """Every row comes to every place about equally often: chi square of 5 x 5 counts, 16 degrees of freedom."""
    counts = np.zeros((5, 5))
    for order in passes(plain(5, shuffle=True), 1000):
        counts[np.arange(5), order] += 1
    assert ((counts - 200) ** 2 / 200).sum() < 45
