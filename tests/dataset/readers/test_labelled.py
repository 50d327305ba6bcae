"""Sources that read the files of MNIST, CIFAR and image folders, whole, damaged and hostile ones."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from graphls import dataset as ds
from graphls.dataset.readers.labelled import Cifar10Source, Cifar100Source, IdxSource, ImageFolderSource
from graphls.ir.errors import GraphlsError, GraphRuntimeError, GraphTypeError, GraphValueError

Digits = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def digits(count: int, seed: int) -> Digits:
    draw = np.random.default_rng(seed)
    return draw.integers(0, 256, (count, 28, 28), np.uint8), draw.integers(0, 10, count, np.uint8)


def idx_bytes(array: np.ndarray[Any, Any]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def write_digits(folder: Path, prefix: str, data: Digits, ending: str = "") -> None:
    write = gzip.compress if ending == ".gz" else bytes
    for name, array in zip(("images-idx3-ubyte", "labels-idx1-ubyte"), data, strict=True):
        (folder / f"{prefix}-{name}{ending}").write_bytes(write(idx_bytes(array)))


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_mnist_rows(tmp_path: Path, ending: str) -> None:
    train, test = digits(5, 0), digits(3, 1)
    write_digits(tmp_path, "train", train, ending)
    write_digits(tmp_path, "t10k", test, ending)
    parts = {"train": [train], "test": [test], "all": [test, train], None: [test, train]}
    for usage, wanted in parts.items():
        source = IdxSource(tmp_path, usage)
        images, labels = (np.concatenate([part[i] for part in wanted]) for i in range(2))
        assert len(source) == len(labels)
        for number in range(len(source)):
            image, label = source[number]
            assert (image.shape, image.dtype, label.shape, label.dtype) == ((28, 28, 1), np.uint8, (), np.uint32)
            np.testing.assert_array_equal(image[:, :, 0], images[number])
            assert label == labels[number]


def test_changing_a_row_does_not_change_the_file(tmp_path: Path) -> None:
    write_digits(tmp_path, "train", digits(2, 0))
    source = IdxSource(tmp_path)
    before = source[1][0].copy()
    source[1][0][:] = 0
    np.testing.assert_array_equal(source[1][0], before)


def test_names_with_a_dot_and_one_part_only(tmp_path: Path) -> None:
    write_digits(tmp_path, "train", digits(2, 0))
    for path in list(tmp_path.iterdir()):
        path.rename(tmp_path / path.name.replace("-idx", ".idx"))
    assert len(IdxSource(tmp_path)) == 2
    with pytest.raises(GraphRuntimeError, match="no MNIST files"):
        IdxSource(tmp_path, "test")


def huge(axes: int) -> bytes:
    return struct.pack(f">HBB{axes}I", 0, 8, axes, *[2**32 - 1] * axes)


IMAGES = idx_bytes(digits(2, 0)[0])
DAMAGED = {
    "magic": (struct.pack(">IIII", 2052, 2, 28, 28) + IMAGES[16:], "magic number is 2052, not 2051"),
    "truncated": (IMAGES[:-1], "speaks of 1584 bytes, but it holds 1583"),
    "longer": (IMAGES + b"x", "speaks of 1584 bytes, but it holds (1585|more)"),
    "header": (IMAGES[:9], "ends within its header"),
    "empty": (b"", "empty|ends within its header"),
    "huge": (huge(3) + bytes(100), "speaks of .* bytes"),
    "gigabytes": (struct.pack(">IIII", 2051, 5_000_000, 28, 28) + bytes(100), "speaks of 3920000016 bytes"),
    "wide": (idx_bytes(np.zeros((2, 28, 29), np.uint8)), "28 x 29, not 28 x 28"),
    "fewer": (idx_bytes(np.zeros((1, 28, 28), np.uint8)), "2 labels for the 1 images"),
}


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_images_give_an_error_with_the_path(tmp_path: Path, name: str, ending: str) -> None:
    data, message = DAMAGED[name]
    write_digits(tmp_path, "train", digits(2, 0), ending)
    path = tmp_path / f"train-images-idx3-ubyte{ending}"
    path.write_bytes(gzip.compress(data) if ending else data)
    tracemalloc.start()
    with pytest.raises(GraphRuntimeError, match=message) as caught:
        IdxSource(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000
    assert "train-" in str(caught.value) and str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("cut", [5, 30, 200])
def test_damaged_compression(tmp_path: Path, cut: int) -> None:
    write_digits(tmp_path, "train", digits(2, 0), ".gz")
    path = tmp_path / "train-images-idx3-ubyte.gz"
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    with pytest.raises(GraphRuntimeError, match="damaged"):
        IdxSource(tmp_path)
    path.write_bytes(whole[:-8] + bytes([whole[-8] ^ 1]) + whole[-7:])  # the checksum
    with pytest.raises(GraphRuntimeError, match="damaged"):
        IdxSource(tmp_path)


def test_a_compressed_bomb_is_not_unpacked(tmp_path: Path) -> None:
    write_digits(tmp_path, "train", digits(2, 0), ".gz")
    bomb = gzip.compress(IMAGES + bytes(50_000_000))
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(bomb)
    tracemalloc.start()
    with pytest.raises(GraphRuntimeError, match="holds more"):
        IdxSource(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5_000_000


def test_missing_and_wrong_labels(tmp_path: Path) -> None:
    write_digits(tmp_path, "train", digits(2, 0))
    labels = tmp_path / "train-labels-idx1-ubyte"
    labels.write_bytes(idx_bytes(np.array([3, 10], np.uint8)))
    with pytest.raises(GraphRuntimeError, match="label 10"):
        IdxSource(tmp_path)
    labels.unlink()
    with pytest.raises(GraphRuntimeError, match="no train labels"):
        IdxSource(tmp_path)


def test_folder_and_usage_are_checked(tmp_path: Path) -> None:
    for source in (IdxSource, Cifar10Source, ImageFolderSource):
        with pytest.raises(GraphValueError, match="does not exist") as caught:
            source(str(tmp_path / "absent"))
        assert "test_labelled.py" in str(caught.value)
        with pytest.raises(GraphTypeError, match="dataset_dir"):
            source(3)
        with pytest.raises(GraphRuntimeError, match="There are no"):
            source(tmp_path)
    with pytest.raises(GraphValueError, match="usage is one of"):
        IdxSource(tmp_path, "training")
    with pytest.raises(GraphTypeError, match="usage"):
        Cifar10Source(tmp_path, 3)


def cifar_records(count: int, labels: int, classes: int, seed: int) -> np.ndarray[Any, Any]:
    draw = np.random.default_rng(seed)
    pixels = draw.integers(0, 256, (count, 3072), np.uint8)
    return np.concatenate([draw.integers(0, classes, (count, labels), np.uint8), pixels], 1)


def test_cifar10_rows(tmp_path: Path) -> None:
    files = {"data_batch_1": 2, "data_batch_2": 3, "test_batch": 1}
    records = {name: cifar_records(count, 1, 10, count) for name, count in files.items()}
    for name, data in records.items():
        (tmp_path / f"{name}.bin").write_bytes(data.tobytes())
    train = np.concatenate([records["data_batch_1"], records["data_batch_2"]])
    wanted = {"train": train, "test": records["test_batch"], None: np.concatenate([train, records["test_batch"]])}
    for usage, rows in wanted.items():
        source = Cifar10Source(tmp_path, usage)
        assert len(source) == len(rows)
        for number, row in enumerate(rows):
            image, label = source[number]
            assert (image.shape, image.dtype, label.shape, label.dtype) == ((32, 32, 3), np.uint8, (), np.uint32)
            assert label == row[0]
            y, x = number + 3, 2 * number + 1
            assert image[y, x].tolist() == [row[1 + plane * 1024 + y * 32 + x] for plane in range(3)]


def test_cifar100_rows(tmp_path: Path) -> None:
    data = cifar_records(3, 2, 20, 0)
    (tmp_path / "train.bin").write_bytes(data.tobytes())
    source = Cifar100Source(tmp_path, "train")
    image, coarse, fine = source[2]
    assert (int(coarse), int(fine), image.shape) == (int(data[2, 0]), int(data[2, 1]), (32, 32, 3))
    assert image[31, 31].tolist() == data[2, [2 + 1023, 2 + 2047, 2 + 3071]].tolist()


@pytest.mark.parametrize("size", [0, 1, 3072, 3074, 6145])
def test_cifar_files_of_a_wrong_size(tmp_path: Path, size: int) -> None:
    path = tmp_path / "test_batch.bin"
    path.write_bytes(bytes(size))
    with pytest.raises(GraphRuntimeError, match=r"empty|not a whole number of records") as caught:
        Cifar10Source(tmp_path)
    assert str(path) in str(caught.value)


def test_a_cifar_label_that_is_no_class(tmp_path: Path) -> None:
    data = cifar_records(2, 1, 10, 0)
    data[1, 0] = 10
    (tmp_path / "test_batch.bin").write_bytes(data.tobytes())
    source = Cifar10Source(tmp_path)
    assert source[0][1] == data[0, 0]
    with pytest.raises(GraphRuntimeError, match=r"test_batch\.bin .*label 10"):
        source[1]


def write_images(folder: Path) -> None:
    names = {"cat": ["b.png", "a.PNG", "note.txt"], "dog": ["c.jpg", "d.bmp"], "ant": [], ".hidden": ["x.png"]}
    for number, (label, files) in enumerate(names.items()):
        (folder / label).mkdir()
        for name in files:
            Image.new("RGB", (3, 2), (number, len(name), 9)).save(folder / label / name, name_format(name))


def name_format(name: str) -> str:
    return {"jpg": "JPEG", "bmp": "BMP"}.get(name.rpartition(".")[2], "PNG")


def test_image_folder_rows(tmp_path: Path) -> None:
    write_images(tmp_path)
    source = ImageFolderSource(tmp_path)
    files = ["cat/a.PNG", "cat/b.png", "dog/c.jpg", "dog/d.bmp"]
    assert [int(source[i][1]) for i in range(len(source))] == [1, 1, 2, 2]
    for number, name in enumerate(files):
        data, label = source[number]
        assert (data.dtype, data.ndim, label.dtype, label.shape) == (np.uint8, 1, np.int32, ())
        assert data.tobytes() == (tmp_path / name).read_bytes()
    named = ImageFolderSource(tmp_path, decrypt=lambda path: Path(path).name.encode())
    assert bytes(named[0][0]).decode() in {path.name for path in tmp_path.glob("*/*")}
    decoded = ImageFolderSource(tmp_path, decode=True)
    for number, name in enumerate(files):
        np.testing.assert_array_equal(decoded[number][0], np.asarray(Image.open(tmp_path / name).convert("RGB")))


def test_image_folder_choices(tmp_path: Path) -> None:
    write_images(tmp_path)
    source = ImageFolderSource(tmp_path, [".png"], {"dog": 7, "cat": 3})
    assert [(len(source), int(source[0][1]))] == [(1, 3)]
    dataset = ds.ImageFolderDataset(tmp_path)
    assert (dataset.get_class_indexing(), dataset.num_classes()) == ({"ant": 0, "cat": 1, "dog": 2}, 3)
    assert dataset.batch(2).get_class_indexing() == dataset.get_class_indexing()
    with pytest.raises(GraphlsError, match=r"Resize takes .* shape \(\d+,\); vision.Decode\(\), or decode=True"):
        next(iter(dataset.map(ds.vision.Resize(4), "image")))
    assert len(ImageFolderSource(tmp_path, [".txt", ".PNG"])) == 2
    with pytest.raises(GraphValueError, match="no folder of that name"):
        ImageFolderSource(tmp_path, class_indexing={"cow": 0})
    with pytest.raises(GraphRuntimeError, match="no images"):
        ImageFolderSource(tmp_path, [".gif"])
    wrong: list[dict[str, Any]] = [
        {"extensions": ".png"}, {"extensions": [1]}, {"class_indexing": ["cat"]}, {"class_indexing": {"cat": "0"}},
        {"decode": 1},
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(GraphTypeError):
            ImageFolderSource(tmp_path, **arguments)


def test_an_image_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nnothing")
    (tmp_path / "cat" / "empty.png").write_bytes(b"")
    source = ImageFolderSource(tmp_path, decode=True)
    for number, name in enumerate(["broken.png", "empty.png"]):
        with pytest.raises(GraphlsError, match=name):
            source[number]
