"""The data sets of published files in a pipeline."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from graphls.dataset import transforms, vision
from graphls.ir.errors import GraphValueError

pytest.importorskip("graphls.dataset.generator")


def write_mnist(folder: Path, count: int) -> None:
    pixels = np.arange(count * 784, dtype=np.int64) % 251
    images = struct.pack(">IIII", 2051, count, 28, 28) + pixels.astype(np.uint8).tobytes()
    (folder / "train-images-idx3-ubyte").write_bytes(images)
    labels = struct.pack(">II", 2049, count) + bytes(i % 10 for i in range(count))
    (folder / "train-labels-idx1-ubyte").write_bytes(labels)


def test_mnist_through_a_pipeline(tmp_path: Path) -> None:
    from graphls.dataset.readers.labelled import FashionMnistDataset, KMnistDataset, MnistDataset

    write_mnist(tmp_path, 7)
    for kind in (MnistDataset, FashionMnistDataset, KMnistDataset):
        dataset = kind(str(tmp_path), "train", shuffle=False)
        chain = [vision.Rescale(1 / 255, 0.0), vision.HWC2CHW()]
        dataset = dataset.map(chain, "image").map(transforms.OneHot(10), "label").batch(3)
        rows = list(dataset.create_dict_iterator(num_epochs=1, output_numpy=True))
        assert [row["image"].shape for row in rows] == [(3, 1, 28, 28), (3, 1, 28, 28), (1, 1, 28, 28)]
        np.testing.assert_array_equal(np.concatenate([row["label"] for row in rows]), np.eye(10, dtype=np.uint32)[:7])
        wanted = (np.arange(784) % 251 / np.float32(255)).reshape(28, 28)
        np.testing.assert_allclose(rows[0]["image"][0, 0], wanted, rtol=1e-6)


def test_shuffle_samples_shards_and_cache(tmp_path: Path) -> None:
    from graphls.dataset.readers.labelled import MnistDataset

    write_mnist(tmp_path, 10)
    shuffled = MnistDataset(str(tmp_path))
    assert sorted(int(label) for _, label in shuffled) == list(range(10))
    part = MnistDataset(str(tmp_path), num_shards=2, shard_id=1, shuffle=False)
    assert [int(label) for _, label in part] == [1, 3, 5, 7, 9]
    assert [int(label) for _, label in MnistDataset(str(tmp_path), num_samples=3, shuffle=False)] == [0, 1, 2]
    with pytest.raises(GraphValueError, match="cache"):
        MnistDataset(str(tmp_path), cache=object())


def test_cifar_and_folders_have_their_columns(tmp_path: Path) -> None:
    from graphls.dataset.readers.labelled import Cifar10Dataset, Cifar100Dataset, ImageFolderDataset

    (tmp_path / "test_batch.bin").write_bytes(bytes(3073))
    (tmp_path / "test.bin").write_bytes(bytes(3074))
    (tmp_path / "cat").mkdir()
    Image.new("RGB", (4, 3)).save(tmp_path / "cat" / "a.png")
    assert Cifar10Dataset(str(tmp_path)).get_col_names() == ["image", "label"]
    assert Cifar100Dataset(str(tmp_path)).get_col_names() == ["image", "coarse_label", "fine_label"]
    folder = ImageFolderDataset(str(tmp_path), decode=True)
    assert folder.get_col_names() == ["image", "label"]
    (row,) = folder.create_dict_iterator(num_epochs=1, output_numpy=True)
    assert (row["image"].shape, row["label"].dtype) == ((3, 4, 3), np.int32)
