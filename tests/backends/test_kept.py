"""A step that was compiled before starts without lowering or optimizing it, and has the same bits."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn, ops
from graphls.context import reset_context
from graphls.runtime.cache import Cache
from graphls.runtime.onnxruntime import guard, model, optimized
from tests.backends.damage import DAMAGES, poison
from tests.backends.processes import assert_processes_share
from tests.backends.test_guard import IS_UNUSUAL
from tests.backends.test_weights import Tables, narrow  # noqa: F401  a fixture

X, Y = np.ones((4, 1, 8, 8), np.float32), np.zeros(4, np.int32)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    """A cache of one's own."""
    graphls.set_cache_dir(tmp_path / "cache")
    yield tmp_path / "cache"
    reset_context()


def forbid(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(model, "lower", lambda *given, **named: pytest.fail("it was lowered again"))
    patch.setattr(model, "open_guarded", lambda *given: pytest.fail("it was optimized again"))


class Network(nn.Cell):
    """A convolution, whose layout the runtime changes, and random numbers, which the host draws."""

    def __init__(self) -> None:
        super().__init__()
        graphls.set_seed(3)
        self.layers = nn.SequentialCell(
            nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Dropout(p=0.5), nn.Flatten(), nn.Dense(1024, 3)
        )

    def construct(self, x: Any) -> Any:
        return self.layers(x)


def compiled() -> graphls.Compiled:
    network = nn.WithLossCell(Network(), nn.CrossEntropyLoss())
    optimizer = nn.Momentum(network.trainable_params(), 0.1, 0.9)
    scaled = nn.TrainOneStepWithLossScaleCell(network, optimizer, nn.DynamicLossScaleUpdateCell(2**10, 2, 2))
    with pytest.warns(UserWarning, match="need no loss scaling"):
        return graphls.compile(scaled, X, Y)


def bits(step: graphls.Compiled, *inputs: Any) -> bytes:
    results = [np.asarray(r) for _ in range(3) for r in _flat(step(*inputs))]
    return b"".join(a.tobytes() for a in (*results, *(p.asnumpy() for p in step.parameters.values())))


def _flat(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_the_second_start_neither_lowers_nor_optimizes_and_gives_the_same_bits(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphls.set_cache_dir(None)
    without = bits(compiled(), X, Y)
    graphls.set_cache_dir(folder)
    assert bits(compiled(), X, Y) == without
    assert len(list(folder.iterdir())) == 1
    forbid(monkeypatch)
    assert bits(compiled(), X, Y) == without


def test_what_needs_the_lowered_model_has_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compiled()
    with monkeypatch.context() as patch:
        forbid(patch)
        second = compiled()
    assert "lowered" not in vars(second._session.model)
    assert second.onnx == first.onnx
    assert str(second.placement()) == str(first.placement())
    assert second.profile(X, Y, steps=1).runs


def test_an_error_of_the_runtime_still_names_the_line_and_spares_the_states() -> None:
    class Table(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.w = graphls.Parameter(np.ones((4, 3), np.float32), name="w")
            self.b = graphls.Parameter(np.ones(3, np.float32), name="b")

        def construct(self, i: Any) -> Any:
            y = self.w[i].sum()
            for _ in range(20):
                y = y.tanh() + 1
            self.b = self.b * y
            return y

    def failing() -> list[str]:
        cell = Table()
        step = graphls.compile(cell, np.int32(1))
        with pytest.raises(graphls.GraphlsError) as raised:
            step(np.int32(9))
        return [str(raised.value), str(cell.b.asnumpy())]

    assert failing() == failing()


def test_arrays_that_a_model_does_not_hold_are_kept(
    narrow: None, folder: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    monkeypatch.setattr("graphls.runtime.cache.FEWEST", 1)
    x = np.ones((2, 40), np.float32)
    expected = bits(graphls.compile(Tables(), x), x)
    (entry,) = folder.iterdir()
    assert "weights" in (Cache(folder).load(entry.stem) or {})
    forbid(monkeypatch)
    step = graphls.compile(Tables(), x)
    assert bits(step, x) == expected and step._session.model.outside


class Small(nn.Cell):
    """A table as the optimizer's state, and as few nodes as are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.table = graphls.Parameter(np.ones((4, 3), np.float32), name="table")

    def construct(self, i: Any) -> Any:
        y = self.table[i].sum()
        for _ in range(10):
            y = y.tanh() + 1
        self.table = self.table * y
        return y


def small() -> bytes:
    return bits(graphls.compile(Small(), np.int32(1)), np.int32(2))


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_entry_of_which_nothing_can_be_made_is_one_warning_and_written_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    expected = small()
    poison(folder, damage)
    Cache.has_warned.clear()
    with pytest.warns(UserWarning, match="A compiled step in .* is damaged and is made again") as warnings:
        assert small() == expected
    assert len(warnings) == 1
    forbid(monkeypatch)
    assert small() == expected


def test_an_entry_of_another_step_counts_as_none(folder: Path) -> None:
    def of(operator: Any) -> float:
        class Long(nn.Cell):
            def construct(self, x: Any) -> Any:
                for _ in range(30):
                    x = operator(x)
                return x

        return float(graphls.compile(Long(), np.ones(3, np.float32))(np.ones(3, np.float32)).asnumpy()[0])

    sine = of(ops.sin)
    (entry,) = folder.iterdir()
    cosine = of(ops.cos)
    (other,) = set(folder.iterdir()) - {entry}
    entry.write_bytes(other.read_bytes())
    assert sine != cosine and of(ops.sin) == sine


def test_a_damaged_entry_is_written_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = bits(compiled(), X, Y)
    (entry,) = folder.iterdir()
    entry.write_bytes(entry.read_bytes()[:-100])
    assert bits(compiled(), X, Y) == expected
    forbid(monkeypatch)
    assert bits(compiled(), X, Y) == expected


def test_a_runtime_of_another_build_has_an_entry_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = compiled()._session.runtime
    monkeypatch.setattr(runtime, "get_build_info", lambda: "another", raising=False)
    compiled()
    assert len(list(folder.iterdir())) == 2


def test_a_step_whose_model_cannot_be_written_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(options: Any, file: Path, has_weights: bool) -> None:
        options.optimized_model_filepath = "/dev/full"

    monkeypatch.setattr(model, "write_optimized", elsewhere)
    assert bits(compiled(), X, Y)
    assert not folder.exists()


def test_a_model_that_was_tried_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tried: list[str] = []
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(guard, "is_unusual", lambda model: True)
    monkeypatch.setattr(guard, "_survives", lambda runtime, model, level: tried.append(level) or True)
    monkeypatch.setattr(guard, "_remember", lambda key, level: None)
    for _ in range(2):
        monkeypatch.setattr(guard, "_survived", {})
        compiled()
    assert tried == ["ORT_ENABLE_ALL"]
    assert IS_UNUSUAL is not guard.is_unusual


def test_a_copy_and_repeated_steps_are_kept_as_well(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import copy

    step = compiled()
    step.repeated(2)
    assert len(list(folder.iterdir())) == 2
    forbid(monkeypatch)
    copy.deepcopy(step)
    step.repeated(2)


SCRIPT = """
import hashlib, warnings
warnings.simplefilter("ignore", UserWarning)
from tests.backends.test_kept import X, Y, bits, compiled
import pytest
pytest.warns = lambda *given, **named: warnings.catch_warnings()
step = compiled()
print("lowered" in vars(step._session.model), hashlib.sha256(bits(step, X, Y)).hexdigest())
"""


def test_processes_share_a_folder(folder: Path) -> None:
    assert_processes_share(folder, SCRIPT)
    assert [path.suffix for path in folder.iterdir()] == [".compiled"]


def test_the_optimized_model_goes_to_a_folder_that_is_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = optimized.TemporaryDirectory

    def watched(**named: Any) -> Any:
        found = real(**named)
        made.append(found.name)
        return found

    monkeypatch.setattr(optimized, "TemporaryDirectory", watched)
    compiled()
    assert made and not any(map(os.path.exists, made))
