"""Files of a compiled step are written whole or not at all; what cannot be written is an error at the user's line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import graphls
from graphls import ops
from graphls.ir.errors import GraphFileError, GraphTypeError
from tests.train.test_whole_files import file_size_limit, files

X = np.ones(3, np.float32)
WAYS = ("save", "show", "dump")


@pytest.fixture(scope="module")
def step() -> graphls.Compiled:
    return graphls.compile(lambda x: ops.tanh(x), X, backend="numpy")


def way(step: graphls.Compiled, name: str) -> Callable[[Any], Any]:
    found: Callable[[Any], Any] = getattr(step, name)
    return found


def unwritable(tmp_path: Path) -> dict[str, Path]:
    """Paths at which there can be no file, nor a folder for one, and what is said of them."""
    (tmp_path / "file").write_text("as it was")
    os.symlink(tmp_path / "circle", tmp_path / "circle")
    os.mkfifo(tmp_path / "pipe")
    return {
        "file is not a directory": tmp_path / "file" / "x",
        "its links lead in a circle": tmp_path / "circle" / "x",
        "pipe is not a directory": tmp_path / "pipe" / "x",
        "embedded null": tmp_path / "a\0b",
        "File name too long": tmp_path / ("x" * 300),
    }


@pytest.mark.parametrize("name", ["save", "show"])
def test_a_file_that_cannot_be_written_says_why(step: graphls.Compiled, name: str, tmp_path: Path) -> None:
    paths = unwritable(tmp_path) | {"not a regular file": tmp_path, "it is not a regular": tmp_path / "pipe"}
    before = files(tmp_path)
    for reason, path in paths.items():
        with pytest.raises(GraphFileError, match=rf"cannot be written: .*{reason}.*\(.*test_written_steps"):
            way(step, name)(path)
    assert files(tmp_path) == before and (tmp_path / "file").read_text() == "as it was"


def test_a_folder_that_cannot_be_made_says_why(step: graphls.Compiled, tmp_path: Path) -> None:
    paths = unwritable(tmp_path)
    before = files(tmp_path)
    for path in (*paths.values(), tmp_path / "file", tmp_path / "pipe"):
        with pytest.raises(GraphFileError, match=r"00_trace\.ir cannot be written: .*\(.*test_written_steps"):
            step.dump(path)
    assert files(tmp_path) == before


def test_a_directory_in_place_of_a_file_of_a_dump_stays(step: graphls.Compiled, tmp_path: Path) -> None:
    (tmp_path / "index.html").mkdir()
    with pytest.raises(GraphFileError, match=r"index\.html cannot be written: it is not a regular file"):
        step.dump(tmp_path)
    assert files(tmp_path) == sorted([*(f"{s}.{end}" for s in step.stages for end in ("ir", "dot")), "index.html"])
    for stage, graph in step.stages.items():
        assert (tmp_path / f"{stage}.ir").read_text() == str(graph)


def test_a_full_disk_leaves_every_file_whole(step: graphls.Compiled, tmp_path: Path) -> None:
    """The texts fit, the page does not: it is as it was, and nothing unfinished stays."""
    (tmp_path / "index.html").write_text("as it was")
    with file_size_limit(2**13), pytest.raises(GraphFileError, match=r"index\.html cannot be written: File too large"):
        step.dump(tmp_path)
    assert (tmp_path / "index.html").read_text() == "as it was"
    assert not [name for name in files(tmp_path) if name.endswith(".tmp") or name == "step.onnx"]
    step.dump(tmp_path)
    assert (tmp_path / "index.html").read_text().endswith("</html>\n")
    onnx.checker.check_model(onnx.load(tmp_path / "step.onnx"))


@pytest.mark.parametrize("name", WAYS)
def test_a_path_is_text_bytes_or_a_path(step: graphls.Compiled, name: str, tmp_path: Path) -> None:
    for path in (tmp_path / "a", str(tmp_path / "b"), os.fsencode(tmp_path / "c")):
        way(step, name)(path)
    assert files(tmp_path) == ["a", "b", "c"]
    for path in (None, 3, ["a"]):
        with pytest.raises(GraphTypeError, match=r"named by a string or a path, not by .*test_written_steps"):
            way(step, name)(path)


def test_a_link_stays_a_link(step: graphls.Compiled, tmp_path: Path) -> None:
    (tmp_path / "latest.onnx").symlink_to("step.onnx")
    step.save(tmp_path / "latest.onnx")
    assert (tmp_path / "latest.onnx").is_symlink() and (tmp_path / "step.onnx").is_file()
