"""Files that are no models, and models that are broken: an error in one sentence, and never another one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphls.ir import dump
from graphls.ir.errors import GraphFileError, GraphlsError, GraphValueError
from graphls.onnx.importing import files, inference
from graphls.onnx.importing.reader import read_onnx
from tests.importing import onnx_models as models

WHOLE = models.branch().SerializeToString()


def cycle() -> onnx.ModelProto:
    return models.model([onnx.helper.make_node("Add", ["x", "b"], ["a"]), onnx.helper.make_node("Neg", ["a"], ["b"])])


def from_nowhere() -> onnx.ModelProto:
    return models.model([onnx.helper.make_node("Add", ["x", "lost"], ["y"])])


def no_result() -> onnx.ModelProto:
    return models.model([onnx.helper.make_node("Neg", ["x"], ["z"])])


def twice() -> onnx.ModelProto:
    return models.model([onnx.helper.make_node("Neg", ["x"], ["y"])] * 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (cycle, "The operator Add waits for its own result, in a cycle"),
        (from_nowhere, "The operator Add reads the tensor 'lost', which nothing defines"),
        (no_result, "The model reads the tensor 'y', which nothing defines"),
        (twice, "The model defines the tensor 'y' twice"),
    ],
)
def test_broken_graphs_are_told(make: Callable[[], onnx.ModelProto], message: str, tmp_path: Path) -> None:
    with pytest.raises(GraphValueError, match=f"^{message}"):
        read_onnx(make())
    path = tmp_path / "broken.onnx"
    path.write_bytes(make().SerializeToString())
    with pytest.raises(GraphValueError) as caught:
        read_onnx(path)
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "there is no graph in it"),
        (b"graph @main() {\n}\n", "is not an ONNX model"),
        (b"\x08\x0a", "there is no graph in it"),
        (WHOLE[:-3], "is not an ONNX model, or not all of one"),
    ],
)
def test_other_files_are_told(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "other.onnx"
    path.write_bytes(data)
    with pytest.raises(GraphValueError, match=message):
        read_onnx(path)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.onnx", tmp_path):
        with pytest.raises(GraphFileError, match="cannot be read"):
            read_onnx(str(path))


def test_files_that_are_too_large_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.onnx"
    path.write_bytes(WHOLE)
    monkeypatch.setattr(files, "LARGEST", len(WHOLE) - 1)
    with pytest.raises(GraphValueError, match="is larger than 2 GiB"):
        read_onnx(path)


@pytest.mark.parametrize("version", [-1, 0, 10_000])
def test_an_unknown_version_of_the_operators_is_shown(version: int) -> None:
    model = models.chain(["a", "b"])
    model.opset_import[0].version = version
    assert [n.primitive.name for n in read_onnx(model).nodes] == ["Relu", "Relu"]


def test_where_types_do_not_follow_they_are_unknown() -> None:
    model = models.model([onnx.helper.make_node("NoSuch", ["x"], ["z"]), onnx.helper.make_node("Neg", ["z"], ["y"])])
    assert [str(n.output.type) for n in read_onnx(model).nodes] == ["?", "f32[2]"]


@pytest.mark.parametrize(("limit", "value"), [("MOST_SECONDS", 0.0), ("_INFER", "import os; os.abort()")])
def test_where_inference_fails_the_model_is_shown(limit: str, value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, limit, value)
    assert [str(n.output.type) for n in read_onnx(models.chain(["a", "b"])).nodes] == ["?", "f32[2]"]


def test_a_shape_that_would_fill_the_memory_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference, "_INFER", inference._INFER.replace(str(2**32), str(2**29)))
    shape = models.info("shape", [2**28], models.INT64)
    nodes = [onnx.helper.make_node("Expand", ["x", "shape"], ["z"]), onnx.helper.make_node("Neg", ["z"], ["y"])]
    assert str(read_onnx(models.model(nodes, ["x", shape])).nodes[0].output.type) in ("?", "f32[...]")


def test_names_that_are_not_utf8_are_shown() -> None:
    model = onnx.ModelProto.FromString(models.chain(["a", "b"]).SerializeToString().replace(b"t1", b"\xff\xfe"))
    assert [n.output.name for n in read_onnx(model).nodes] == ["\\xff\\xfe", "y"]


def shown_or_told(data: bytes, path: Path) -> None:
    path.write_bytes(data)
    try:
        text = dump(read_onnx(path, infer_types=False))
    except GraphlsError as error:
        assert "\n" not in str(error)
    else:
        assert all(c == "\n" or c.isprintable() for c in text)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_shown_or_told(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    shown_or_told(data, tmp_path_factory.getbasetemp() / "random.onnx")


@pytest.mark.parametrize("make", models.MADE)
def test_truncated_models_are_told_or_shown(make: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    data = make().SerializeToString()
    for size in range(0, len(data), max(1, len(data) // 100)):
        shown_or_told(data[:size], tmp_path / "short.onnx")


@pytest.mark.parametrize("make", models.MADE)
def test_models_with_changed_bytes_are_told_or_shown(make: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    generator = random.Random(0)
    for _ in range(200):
        data = bytearray(make().SerializeToString())
        for _ in range(generator.choice((1, 1, 4))):
            data[generator.randrange(len(data))] = generator.randrange(256)
        shown_or_told(bytes(data), tmp_path / "changed.onnx")
