"""CSV files, MNIST, CIFAR and ImageNet as MindRecord files, in the columns of MindSpore 2.10."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphls.dataset.mindrecord.convert import Cifar10ToMR, Cifar100ToMR, CsvToMR, ImageNetToMR, MnistToMR
from graphls.dataset.mindrecord.reader import FileReader, Layout
from graphls.dataset.mindrecord.schema import ParamValueError, PathNotExistsError
from graphls.ir.errors import GraphFileError, GraphlsError, GraphRuntimeError, GraphValueError


@pytest.fixture(autouse=True)
def short_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of 48 KiB, not MiB."""
    monkeypatch.setattr(Layout.__init__, "__defaults__", ("", 1 << 14, 1 << 15))


def read(path: Path) -> list[dict[str, Any]]:
    return list(FileReader(str(path)).get_next())


def schema(path: Path) -> dict[str, Any]:
    return FileReader(str(path)).schema()


def pixels(data: bytes) -> np.ndarray[Any, Any]:
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(io.BytesIO(data)), np.float32)


def write_csv(folder: Path, text: str) -> str:
    (folder / "a.csv").write_text(text, encoding="utf-8")
    return str(folder / "a.csv")


def test_csv_files(tmp_path: Path) -> None:
    path = write_csv(tmp_path, 'i,f,b,s\n1,2,True,"x, y"\n-3,4.5,False,\n')
    CsvToMR(path, str(tmp_path / "a")).transform()
    assert schema(tmp_path / "a") == {
        "b": {"type": "int32"}, "f": {"type": "float64"}, "i": {"type": "int64"}, "s": {"type": "string"},
    }  # fmt: skip
    assert read(tmp_path / "a") == [{"i": 1, "f": 2.0, "b": 1, "s": "x, y"}, {"i": -3, "f": 4.5, "b": 0, "s": ""}]
    CsvToMR(path, str(tmp_path / "b"), ["s", "i"], 2).transform()
    assert [list(row) for row in read(tmp_path / "b0")] == [["i", "s"]] * 2 and (tmp_path / "b1.db").exists()


@pytest.mark.parametrize(
    ("text", "columns", "error", "message"),
    [
        ("a\n1", ["b"], GraphRuntimeError, "column b does not exist"),
        ("1,2\n3,4", None, GraphValueError, "does not allow starting with a number"),
        ("a,b\n1", None, GraphRuntimeError, "Row 0 of .* has 1 values for 2 columns"),
        ("a,b\n1,2", "a", GraphValueError, "must be list of str"),
    ],
)
def test_csv_files_that_are_refused(
    tmp_path: Path, text: str, columns: Any, error: type[GraphlsError], message: str
) -> None:
    with pytest.raises(error, match=message):
        CsvToMR(write_csv(tmp_path, text), str(tmp_path / "a"), columns).transform()
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_arguments_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GraphFileError, match="do not exist"):
        CsvToMR(str(tmp_path / "no"), str(tmp_path / "a")).transform()
    with pytest.raises(GraphValueError, match="partition_number must be int"):
        CsvToMR("a", "b", None, 2.0)  # type: ignore[arg-type]
    with pytest.raises(GraphValueError, match="source must be str"):
        CsvToMR(3, "b")  # type: ignore[arg-type]
    with pytest.raises(ParamValueError):
        MnistToMR("a", "")


def test_images_of_imagenet(tmp_path: Path) -> None:
    for name, files in {"n1": ["b.JPEG", "a.jpg", "c.txt"], "n2": ["d.JPEG"]}.items():
        (tmp_path / "images" / name).mkdir(parents=True)
        for file in files:
            (tmp_path / "images" / name / file).write_bytes(file.encode())
    (tmp_path / "map").write_text("n1 0\nn2 7\nn3 8\n")
    ImageNetToMR(str(tmp_path / "map"), str(tmp_path / "images"), str(tmp_path / "a")).transform()
    found = [(row["label"], row["image"], Path(row["file_name"]).name) for row in read(tmp_path / "a")]
    assert found == [(0, b"a.jpg", "a.jpg"), (0, b"b.JPEG", "b.JPEG"), (7, b"d.JPEG", "d.JPEG")]
    with pytest.raises(PathNotExistsError):
        ImageNetToMR(str(tmp_path / "map"), str(tmp_path), str(tmp_path / "b")).transform()
    with pytest.raises(GraphFileError, match="not exists"):
        ImageNetToMR(str(tmp_path / "no"), str(tmp_path), str(tmp_path / "b")).transform()


def test_digits_of_mnist(tmp_path: Path) -> None:
    flat = np.full((2, 28, 28), 1, np.uint8) * np.array([40, 200], np.uint8)[:, None, None]
    for prefix in ("train", "t10k"):
        (tmp_path / f"{prefix}-images-idx3-ubyte").write_bytes(
            b"\0\0\x08\3\0\0\0\2\0\0\0\x1c\0\0\0\x1c" + flat.tobytes()
        )
        (tmp_path / f"{prefix}-labels-idx1-ubyte").write_bytes(b"\0\0\x08\1\0\0\0\2\5\7")
    MnistToMR(str(tmp_path), str(tmp_path / "a")).transform()
    for part in ("train", "test"):
        rows = read(tmp_path / f"a_{part}.mindrecord")
        assert [row["label"] for row in rows] == [5, 7]
        np.testing.assert_allclose([pixels(row["data"]) for row in rows], flat, atol=2)


@pytest.mark.parametrize(
    ("made", "labels", "files"),
    [
        (Cifar10ToMR, {"label": 3}, ["data_batch_1.bin", "test_batch.bin"]),
        (Cifar100ToMR, {"coarse_label": 3, "fine_label": 50}, ["train.bin", "test.bin"]),
    ],
)
def test_images_of_cifar(tmp_path: Path, made: Any, labels: dict[str, int], files: list[str]) -> None:
    colors = np.repeat(np.array([200, 100, 50], np.uint8), 1024).tobytes()
    for file in files:
        (tmp_path / file).write_bytes((bytes(labels.values()) + colors) * 2)
    made(str(tmp_path), str(tmp_path / "a")).transform(["id"])
    for path in (tmp_path / "a", tmp_path / "a_test"):
        first, second = read(path)
        assert {name: second[name] for name in ("id", *labels)} == {"id": 1, **labels}
        np.testing.assert_allclose(pixels(first["data"])[5, 7], [200, 100, 50], atol=3)
    with pytest.raises(GraphValueError, match="should be None or list"):
        made(str(tmp_path), str(tmp_path / "b")).transform("id")
