"""Shards of every kind of dataset, as ranks read them: equally long, together all rows, padded with the first rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from graphls import dataset as ds
from graphls.dataset.mindrecord.writer import FileWriter
from tests.dataset.readers.test_labelled import idx_bytes
from tests.dataset.readers.test_tfrecord import example, record

ROWS, SHARDS = 7, 3
Make = Callable[..., ds.Dataset]


def generator(folder: Path) -> Make:
    return lambda **chosen: ds.GeneratorDataset(list(range(ROWS)), "x", **chosen)


def slices(folder: Path) -> Make:
    return lambda **chosen: ds.NumpySlicesDataset(np.arange(ROWS), **chosen)


def mnist(folder: Path) -> Make:
    images = np.arange(ROWS, dtype=np.uint8)[:, None, None] * np.ones((1, 28, 28), np.uint8)
    for name, array in (("images-idx3-ubyte", images), ("labels-idx1-ubyte", images[:, 0, 0])):
        (folder / f"train-{name}").write_bytes(idx_bytes(array))
    return lambda **chosen: ds.MnistDataset(str(folder), **chosen)


def cifar(folder: Path) -> Make:
    rows = np.arange(ROWS, dtype=np.uint8)[:, None] * np.ones((1, 3073), np.uint8)
    (folder / "data_batch_1.bin").write_bytes(rows.tobytes())
    return lambda **chosen: ds.Cifar10Dataset(str(folder), "train", **chosen)


def images(folder: Path) -> Make:
    (folder / "one").mkdir()
    for number in range(ROWS):
        Image.new("RGB", (2, 2), (number, 0, 0)).save(folder / "one" / f"{number}.png")
    return lambda **chosen: ds.ImageFolderDataset(str(folder), decode=True, **chosen)


def lines(folder: Path) -> Make:
    (folder / "a.txt").write_text("\n".join(map(str, range(ROWS))))
    return lambda **chosen: ds.TextFileDataset(str(folder / "a.txt"), **chosen)


def treebank(folder: Path) -> Make:
    (folder / "ptb.train.txt").write_text("\n".join(map(str, range(ROWS))))
    return lambda **chosen: ds.PennTreebankDataset(str(folder), "train", **chosen)


def records(folder: Path) -> Make:
    (folder / "a.tfrecord").write_bytes(b"".join(record(example({"label": [i]})) for i in range(ROWS)))
    return lambda **chosen: ds.TFRecordDataset(str(folder / "a.tfrecord"), shard_equal_rows=True, **chosen)


def mindrecord(folder: Path) -> Make:
    writer = FileWriter(str(folder / "a.mindrecord"), 1, True)
    writer.add_schema({"x": {"type": "int32"}}, "numbers")
    writer.write_raw_data([{"x": i} for i in range(ROWS)])
    writer.commit()
    return lambda **chosen: ds.MindDataset(str(folder / "a.mindrecord"), **chosen)


KINDS = [generator, slices, mnist, cifar, images, lines, treebank, records, mindrecord]
SAMPLED = [generator, slices, mnist, cifar, images, mindrecord]
"""Those that take a sampler."""


def numbers(dataset: ds.Dataset) -> list[int]:
    """What tells each row of one pass."""
    rows = dataset.create_tuple_iterator(num_epochs=1, output_numpy=True)
    return [int(np.asarray(row[0]).reshape(-1)[0]) for row in rows]


def check(shards: list[ds.Dataset], order: list[int], in_turn: bool = True) -> None:
    """That these are the shards of rows in some order, which have them in turn, or one shard after the other."""
    found = [numbers(shard) for shard in shards]
    rounds = -(-ROWS // SHARDS)
    assert [len(rows) for rows in found] == [shard.get_dataset_size() for shard in shards] == [rounds] * SHARDS
    dealt = [rows[i] for i in range(rounds) for rows in found] if in_turn else [row for rows in found for row in rows]
    assert dealt[ROWS:] == dealt[: rounds * SHARDS - ROWS], "the last round begins again at the first rows"
    assert dealt[:ROWS] == order if order else sorted(dealt[:ROWS]) == list(range(ROWS))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_num_shards(kind: Callable[[Path], Make], tmp_path: Path) -> None:
    make = kind(tmp_path)
    in_turn = kind not in (lines, treebank, records)
    check([make(num_shards=SHARDS, shard_id=i, shuffle=False) for i in range(SHARDS)], list(range(ROWS)), in_turn)
    check([make(num_shards=SHARDS, shard_id=i, shuffle=True) for i in range(SHARDS)], [], in_turn)


@pytest.mark.parametrize("kind", SAMPLED, ids=lambda kind: kind.__name__)
def test_samplers(kind: Callable[[Path], Make], tmp_path: Path) -> None:
    make = kind(tmp_path)
    for shuffle, order in ((False, list(range(ROWS))), (True, [])):
        check([make(sampler=ds.DistributedSampler(SHARDS, i, shuffle)) for i in range(SHARDS)], order)
    uneven: list[Any] = [make(sampler=ds.DistributedSampler(SHARDS, i, False, offset=1)) for i in range(SHARDS)]
    assert [numbers(shard) for shard in uneven] == [[2, 5], [0, 3, 6], [1, 4]]


def test_classes_are_the_same_on_all_ranks() -> None:
    labels = np.array([0, 1, 0, 1, 0, 2, 0])
    shards = [ds.NumpySlicesDataset((np.arange(ROWS), labels), ["x", "label"], sampler=ds.PKSampler(2)) for _ in "ab"]
    assert numbers(shards[0]) == numbers(shards[1])
    assert [int(labels[i]) for i in numbers(shards[0])] == [0, 0, 1, 1, 2, 2]
