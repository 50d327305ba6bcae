"""Orders and random rows: a function of the seed, the same for any workers, and found again at any step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphls
import graphls.dataset as ds
from graphls.dataset import config, randomness
from tests.dataset.sources import Numbers, noisy, numbers, passes, plain, rows_of, streamed, values


@pytest.fixture(autouse=True)
def seeds() -> Iterator[None]:
    yield
    config._settings.reset()
    randomness.SEED.reset()
    graphls.set_seed(0)


def shuffled(**arguments: Any) -> ds.Dataset:
    return plain(40, shuffle=True).map(noisy, **arguments).shuffle(8).batch(4)


def test_the_seed_decides() -> None:
    graphls.set_seed(3)
    first = passes(shuffled(), 3)
    assert passes(shuffled(), 3) == first
    assert first[0] != first[1] != first[2]
    graphls.set_seed(4)
    assert passes(shuffled(), 3) != first
    ds.config.set_seed(3)
    assert ds.config.get_seed() == 3
    assert passes(shuffled(), 3) == first


def test_an_iterator_takes_the_seed_when_it_is_made() -> None:
    expected = values(shuffled())
    iterator = shuffled().create_tuple_iterator(output_numpy=True)
    graphls.set_seed(9)
    assert rows_of(iterator) == expected


def test_what_is_appended_to_a_pipeline_leaves_the_draws_before_it_alone() -> None:
    source = plain(20, shuffle=True).map(noisy)
    assert sorted(row[0] for row in values(source.shuffle(5).batch(1))) == sorted(values(source))


@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_workers_change_nothing(processes: bool) -> None:
    expected = passes(shuffled(), 2)
    assert passes(shuffled(num_parallel_workers=3, python_multiprocessing=processes), 2) == expected
    read = ds.GeneratorDataset(
        Numbers(40), ["image", "label"], num_parallel_workers=3, python_multiprocessing=processes
    )
    assert passes(read.batch(3), 2) == passes(numbers(40).batch(3), 2)
    mapped = plain(40).batch(4, per_batch_map=lambda x, _: [noisy(i) for i in x], num_parallel_workers=2)
    alone = plain(40).batch(4, per_batch_map=lambda x, _: [noisy(i) for i in x])
    assert passes(mapped, 2) == passes(alone, 2)


def test_the_settings_of_the_config_change_nothing() -> None:
    expected = passes(shuffled(), 2)
    ds.config.set_num_parallel_workers(3)
    ds.config.set_prefetch_size(1)
    assert (ds.config.get_num_parallel_workers(), ds.config.get_prefetch_size()) == (3, 1)
    assert passes(shuffled(), 2) == expected


def test_processes_seed_the_global_generators_for_every_row() -> None:
    def drawing(x: Any) -> Any:
        return np.array([x, np.random.randint(1 << 30)])

    def drawn(workers: int) -> list[Any]:
        return values(plain(20).map(drawing, num_parallel_workers=workers, python_multiprocessing=True))

    assert drawn(2) == drawn(3)
    assert len({number for _, number in drawn(2)}) == 20


def test_rows_nodes_and_passes_draw_numbers_of_their_own() -> None:
    noise = ds.GeneratorDataset([0.0] * 30, "x").map(noisy).map(noisy)
    first, second = passes(noise.repeat(2), 2)
    assert len({*first, *second}) == 120
    once = values(ds.GeneratorDataset([0.0], "x").map(noisy))
    twice = values(ds.GeneratorDataset([0.0], "x").map(noisy).map(noisy))
    assert twice != [2 * once[0]]


def test_operations_of_one_map_share_the_generator_of_the_row() -> None:
    one = ds.GeneratorDataset([0.0], "x").map([noisy, noisy])
    generator = randomness.Key(0, 1, 0).generator(0)
    assert values(one) == [generator.random() + generator.random()]


def outside() -> float:
    return float(randomness.generator().random())


def test_the_generator_outside_of_a_pipeline_follows_the_seed() -> None:
    found = []
    for seed in (5, 5, 6):
        graphls.set_seed(seed)
        found.append([outside() for _ in range(3)])
    assert found[0] == found[1] != found[2]
    ds.config.set_seed(6)
    first = outside()
    ds.config.set_seed(6)
    assert outside() == first


def test_counting_rows_leaves_the_draws_outside_alone() -> None:
    graphls.set_seed(1)
    expected = [outside(), outside()]
    graphls.set_seed(1)
    first = outside()
    assert len(plain(9).map(noisy).filter(lambda x: x > 4)) > 0
    assert plain(5)[3][0].item() == 3
    assert [first, outside()] == expected


def pipelines() -> dict[str, Callable[[], ds.Dataset]]:
    return {
        "source": lambda: plain(11, shuffle=True),
        "sharded": lambda: plain(11, num_shards=3, shard_id=1),
        "sampled": lambda: plain(11, sampler=ds.RandomSampler(num_samples=5)),
        "shuffled by a buffer": lambda: plain(11).shuffle(4),
        "random map": lambda: plain(11, shuffle=True).map(noisy).batch(3),
        "batches without the last": lambda: plain(11).map(noisy).shuffle(5).batch(2, drop_remainder=True),
        "repeated": lambda: plain(4, shuffle=True).map(noisy).repeat(3).batch(5),
        "repeated batches": lambda: plain(5, shuffle=True).batch(2).map(noisy).repeat(2),
        "skip and take": lambda: plain(11, shuffle=True).skip(2).map(noisy).take(7).batch(2),
        "zipped": lambda: plain(7, shuffle=True).zip(plain(9).rename("x", "y").map(noisy)).batch(2),
        "joined": lambda: (plain(4, shuffle=True) + plain(5).map(noisy)).shuffle(3).repeat(2),
        "split": lambda: plain(12, shuffle=True).split([9, 3])[0].shuffle(9).map(noisy).batch(2),
        "streamed": lambda: streamed(11).map(noisy).shuffle(4).batch(3),
        "streamed and repeated": lambda: streamed(5).map(noisy).repeat(2).shuffle(3).batch(2),
        "streamed and joined": lambda: (streamed(5) + plain(3, shuffle=True) + streamed(2)).map(noisy).batch(3),
        "filtered": lambda: plain(12, shuffle=True).filter(lambda x: x % 3 != 0).map(noisy).batch(3),
        "filtered and split": lambda: plain(12).filter(lambda x: x > 2).split([4, 5])[1].shuffle(5),
        "sizes by a function": lambda: plain(12, shuffle=True).batch(lambda info: 1 + info.get_batch_num() % 3),
        "batches by a sampler": lambda: plain(12, batch_sampler=[[0, 1], [2], [3, 4]]).map(noisy, "x"),
        "buckets": lambda: plain(9).map(lambda x: np.ones(int(x) % 4 + 1)).bucket_batch_by_length("x", [3], [2, 3]),
        "workers": lambda: plain(11, shuffle=True).map(noisy, num_parallel_workers=2).batch(3),
    }


@pytest.mark.parametrize("name", pipelines())
def test_every_step_can_be_resumed_bit_for_bit(name: str) -> None:
    make = pipelines()[name]
    full = passes(make(), 3)
    size = make().get_dataset_size()
    assert [len(rows) for rows in full] == [size] * 3
    for step in range(2 * size + 1):
        epoch, rest = divmod(step, size)
        resumed = passes(make(), 3 - epoch, init_step=step)
        assert resumed == [full[epoch][rest:], *full[epoch + 1 :]]


def test_only_the_next_iterator_starts_late() -> None:
    dataset = plain(5)
    dataset.set_init_step(7)
    assert dataset.get_init_step() == 7
    assert rows_of(dataset.create_tuple_iterator(num_epochs=1)) == [2, 3, 4]
    assert values(dataset) == [0, 1, 2, 3, 4]
    dataset.set_init_step(3)
    dataset.reset()
    assert rows_of(dataset.create_tuple_iterator(num_epochs=1)) == [0, 1, 2, 3, 4]


def test_skipped_rows_are_neither_read_nor_mapped() -> None:
    source, mapped = Numbers(100), list[int]()

    def log(label: Any) -> Any:
        mapped.append(int(label))
        return label

    dataset = ds.GeneratorDataset(source, ["image", "label"]).map(log, "label").shuffle(10).batch(8).repeat(2)
    dataset.set_init_step(dataset.get_dataset_size() + 20)
    rows = [int(label) for batch in dataset.create_dict_iterator(1) for label in batch["label"].tolist()]
    assert source.read == mapped == rows
    assert len(rows) == 100 - 7 * 8


def test_a_dataset_that_repeats_for_ever_resumes_in_its_only_pass() -> None:
    endless = plain(4, shuffle=True).repeat()
    iterator = endless.create_tuple_iterator(output_numpy=True)
    expected = [int(next(iterator)[0]) for _ in range(13)]
    endless.set_init_step(9)
    iterator = endless.create_tuple_iterator(output_numpy=True)
    assert [int(next(iterator)[0]) for _ in range(4)] == expected[9:]


@settings(max_examples=60)
@given(st.data())
def test_any_pipeline_resumes_and_has_the_rows_that_python_says(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    dataset: ds.Dataset = data.draw(st.sampled_from([plain, streamed]))(size)
    rows: list[Any] = list(range(size))
    for _ in range(data.draw(st.integers(0, 4))):
        dataset, rows = data.draw(st.sampled_from(STEPS))(data.draw(st.integers(1, 5)), dataset, rows)
    (found,) = passes(dataset)
    assert found == rows
    assert dataset.get_dataset_size() == len(rows)
    if rows:
        step = data.draw(st.integers(0, len(rows)))
        assert passes(dataset, 2, init_step=step)[0] == (rows[step:] or rows)


def group(rows: list[Any], size: int) -> list[Any]:
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def flat(x: Any) -> Any:
    return np.sum(x)


def total(x: Any) -> Any:
    return sum(map(total, x)) if isinstance(x, list) else x


STEPS: list[Callable[[int, Any, list[Any]], tuple[Any, list[Any]]]] = [
    lambda n, d, r: (d.skip(n), r[n:]),
    lambda n, d, r: (d.take(n), r[:n]),
    lambda n, d, r: (d.repeat(n), r * n),
    lambda n, d, r: (d.map(lambda x: x + n), [x + n for x in r]),
    lambda n, d, r: (d.filter(lambda x: x % n == 0), [x for x in r if x % n == 0]),
    lambda n, d, r: (d.concat(plain(n)), [*r, *range(n)]),
    lambda n, d, r: (d.zip(streamed(n).rename("x", "y")).project("x"), r[:n]),
    lambda n, d, r: (d.batch(n).map(flat), [total(batch) for batch in group(r, n)]),
    lambda n, d, r: (d.batch(n, True).map(flat), [total(batch) for batch in group(r, n) if len(batch) == n]),
    lambda n, d, r: (d.batch(lambda _: n).map(flat), [total(batch) for batch in group(r, n)]),
]
