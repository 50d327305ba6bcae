"""A step on OpenVINO that was compiled before starts without lowering or compiling it, and has the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.context import reset_context
from graphls.runtime.cache import Cache
from graphls.runtime.openvino import model, runtime
from graphls.runtime.openvino.part import OpenvinoPart
from tests.backends.damage import DAMAGES, poison
from tests.backends.processes import assert_processes_share
from tests.backends.test_kept import Small

pytest.importorskip("openvino")
X, Y = np.random.default_rng(0).normal(size=(4, 1, 8, 8)).astype(np.float32), np.array([0, 2, 1, 0], np.int32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """A cache of one's own."""
    graphls.set_cache_dir(tmp_path / "cache")
    yield tmp_path / "cache"
    reset_context()


def forbid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(model.Model, "lowered", property(lambda self: pytest.fail("it was lowered again")))


class Network(nn.Cell):
    """A convolution in bfloat16, a table, which takes indices, and random numbers, which the host draws."""

    def __init__(self) -> None:
        super().__init__()
        graphls.set_seed(3)
        self.convolution = nn.Conv2d(1, 16, 3).to_float(graphls.bfloat16)
        self.rest = nn.SequentialCell(nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(p=0.5), nn.Flatten(), nn.Dense(1024, 3))
        self.table = nn.Embedding(3, 3)

    def construct(self, x: Any, i: Any) -> Any:
        y = self.rest(ops.cast(self.convolution(x), graphls.float32)) + self.table(i)
        return ops.cross_entropy(y, ops.clip_by_value(i, 0, 2))


def compiled() -> graphls.Compiled:
    network = Network().set_train()
    cell = nn.TrainOneStepCell(network, nn.Momentum(network.trainable_params(), 0.1, 0.9))
    return graphls.compile(cell, X, Y, engine="openvino")


def bits(step: graphls.Compiled) -> bytes:
    results = [step(X, Y).asnumpy() for _ in range(3)]
    return b"".join(a.tobytes() for a in (*results, *(p.asnumpy() for p in step.parameters.values())))


def models(step: graphls.Compiled) -> list[model.Model]:
    """The models of a step that are OpenVINO's."""
    session = step._session
    parts = (getattr(part, "part", part) for part in (*session.first, *session.last))
    return [part.model for part in parts if isinstance(part, OpenvinoPart)]


def test_the_second_start_neither_lowers_nor_compiles_and_gives_the_same_bits(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphls.set_cache_dir(None)
    without = bits(compiled())
    graphls.set_cache_dir(folder)
    assert bits(compiled()) == without
    forbid(monkeypatch)
    assert bits(compiled()) == without


def test_what_needs_the_lowered_model_has_it() -> None:
    first, second = compiled(), compiled()
    assert models(second) and not any("lowered" in vars(one) for one in models(second))
    assert second.onnx == first.onnx
    runs = second.profile(X, Y, steps=1).runs
    assert any(kernel.node for run in runs for kernel in run.kernels)


def test_a_wrong_index_still_names_the_line_and_spares_the_states() -> None:
    def failing() -> list[str]:
        step = compiled()
        with pytest.raises(graphls.GraphlsError, match=r"out of range for an axis of size 3.*test_kept.py") as raised:
            step(X, Y + 9)
        return [str(raised.value), *(str(p.asnumpy()) for p in step.parameters.values())]

    assert failing() == failing()


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_entry_of_which_nothing_can_be_made_is_one_warning_and_written_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    def result() -> bytes:
        return bytes(graphls.compile(Small(), np.int32(1), engine="openvino")(np.int32(2)).asnumpy().tobytes())

    expected = result()
    poison(folder, damage)
    Cache.has_warned.clear()
    with pytest.warns(UserWarning, match="A compiled step in .* is damaged and is made again"):
        assert result() == expected
    forbid(monkeypatch)
    assert result() == expected


def test_a_damaged_entry_is_written_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = bits(compiled())
    for entry in folder.iterdir():
        entry.write_bytes(entry.read_bytes()[:-100])
    assert bits(compiled()) == expected
    forbid(monkeypatch)
    assert bits(compiled()) == expected


def test_openvino_of_another_build_has_an_entry_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled()
    before = len(list(folder.iterdir()))
    monkeypatch.setattr(runtime.load_openvino(), "get_version", lambda: "another")
    compiled()
    assert len(list(folder.iterdir())) > before


SCRIPT = """
import hashlib
from tests.openvino.test_kept import bits, compiled, models
step = compiled()
print(any("lowered" in vars(one) for one in models(step)), hashlib.sha256(bits(step)).hexdigest())
"""


def test_processes_share_a_folder(folder: Path) -> None:
    assert_processes_share(folder, SCRIPT)
    assert {path.suffix for path in folder.iterdir()} == {".compiled"}
