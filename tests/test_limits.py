"""What is too much for a machine or for Python, and a working directory that is gone: errors in one sentence."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import GraphlsError, Tensor, nn, ops
from graphls import dataset as ds
from graphls.context import GRAPH_MODE, PYNATIVE_MODE, set_context
from graphls.ir.errors import GraphMemoryError, GraphRecursionError
from graphls.train import OnRequestExit, load_checkpoint

X = np.ones((2, 2), np.float32)


class Nested(nn.Cell):
    """A dense layer in so many cells."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Nested(depth - 1) if depth else nn.Dense(2, 2)

    def construct(self, x: Any) -> Any:
        return self.inner(x)


class Endless(nn.Cell):
    """A cell that calls itself."""

    def construct(self, x: Any) -> Any:
        return self(x)


@pytest.mark.parametrize("mode", [GRAPH_MODE, PYNATIVE_MODE])
def test_cells_that_call_themselves(mode: int) -> None:
    set_context(mode=mode)
    try:
        with pytest.raises(GraphRecursionError, match=r"calls itself without end, or raise .* \(tests/test_limits.py"):
            Endless()(Tensor(X))
    finally:
        set_context(mode=GRAPH_MODE)
    assert graphls.compile(nn.Dense(2, 2), X)(X).shape == (2, 2)


def test_cells_that_are_nested_deep_need_a_higher_limit() -> None:
    network, limit = Nested(300), sys.getrecursionlimit()
    with pytest.raises(GraphRecursionError, match=r"sys\.setrecursionlimit"):
        graphls.compile(network, X)
    sys.setrecursionlimit(20_000)
    try:
        assert graphls.compile(network, X)(X).shape == (2, 2)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("make", [
    lambda: nn.Dense(2**30, 2**30),
    lambda: graphls.Parameter(np.broadcast_to(np.float32(1), (2**40, 2))),
    lambda: graphls.compile(lambda x: x + ops.sum(ops.standard_normal((2**40,))), X)(X),
    lambda: graphls.compile(lambda x: ops.exp(ops.broadcast_to(x[:1, :1], (2**20, 2**20))), X)(X),
    lambda: graphls.compile(lambda x: ops.sum(ops.exp(ops.broadcast_to(x[:1, :1], (2**20, 2**20)))), X)(X),
])  # fmt: skip
def test_tensors_that_no_memory_holds(make: Any) -> None:
    with pytest.raises(GraphMemoryError):
        make()


def safetensors(path: Path, header: str, size: int) -> str:
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode() + b"\0" * size)
    return str(path)


@pytest.mark.parametrize(("shape", "end"), [([0, 2**32, 2**32, 2**32], 0), ([1] * 100, 4)])
def test_shapes_that_no_array_has(tmp_path: Path, shape: list[int], end: int) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": shape, "data_offsets": [0, end]}})
    with pytest.raises(GraphlsError, match="'w' has the impossible shape"):
        load_checkpoint(safetensors(tmp_path / "a.safetensors", header, end))


def test_a_name_that_stands_in_a_file_twice(tmp_path: Path) -> None:
    entry = '"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
    with pytest.raises(GraphlsError, match="the name 'w' appears in it twice"):
        load_checkpoint(safetensors(tmp_path / "a.safetensors", f"{{{entry},{entry}}}", 4))


def test_brackets_without_end_in_files_of_json(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[" * 100_000)
    with pytest.raises(GraphlsError, match="is not JSON"):
        ds.Schema(str(path))
    assert not OnRequestExit(config_file=str(path))._is_configured()


@pytest.mark.parametrize("processes", [False, True])
def test_more_workers_than_there_can_be(monkeypatch: pytest.MonkeyPatch, processes: bool) -> None:
    rows = ds.NumpySlicesDataset(np.arange(4))
    with pytest.raises(GraphlsError, match="num_parallel_workers exceeds the boundary between 1 and 1024"):
        rows.map(abs, num_parallel_workers=100_000)

    def refuse(*ignored: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(f"graphls.dataset.pipeline.workers.{'Process' if processes else 'Thread'}Worker", refuse)
    with pytest.raises(GraphlsError, match=r"the system started 0 .*; give a smaller num_parallel_workers"):
        list(rows.map(abs, num_parallel_workers=8, python_multiprocessing=processes))


def test_a_working_directory_that_is_gone(tmp_path: Path) -> None:
    program = """
import os, shutil, numpy as np, graphls
from graphls import nn, train, GraphlsError
x = np.ones((2, 2), np.float32)
os.rmdir(os.getcwd())
step = graphls.compile(nn.Dense(2, 2), x)
step(x)
for write in (lambda: step.save("a.onnx"), lambda: step.show("a.html"), lambda: step.dump("a"),
              lambda: train.save_checkpoint(nn.Dense(2, 2), "a.ckpt"), lambda: train.load_checkpoint("a.ckpt"),
              lambda: train.ModelCheckpoint(), lambda: train.SummaryRecord("a")):
    try:
        write()
    except GraphlsError as error:
        print(error)
"""
    folder, file = tmp_path / "folder", tmp_path / "program.py"
    folder.mkdir()
    file.write_text(program)
    done = subprocess.run([sys.executable, str(file)], cwd=folder, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) >= 6
