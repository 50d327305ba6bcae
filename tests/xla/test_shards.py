"""Checkpoints in shards: written by the devices of one mesh, read by another or by none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import Mesh, nn
from graphls.interop.formats.shards import INDEX, StoredTensor
from graphls.ir.errors import GraphFileError, GraphValueError
from graphls.train import (
    Callback,
    CheckpointConfig,
    Model,
    ModelCheckpoint,
    load_checkpoint,
    load_param_into_net,
    save_checkpoint,
)
from graphls.train import shards as saving
from tests.xla.training import ROWS, STEPS, batch, cell_of, compiled, trained

pytest.importorskip("jax")
package = pytest.importorskip("safetensors.numpy")

FIRST = STEPS // 2
Saved = tuple[Path, list[Any], dict[str, np.ndarray[Any, Any]]]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Saved:
    """A checkpoint of eight devices after half of a training, the rest of it, and the values that were saved."""
    folder = tmp_path_factory.mktemp("shards") / "checkpoint"
    cell = cell_of(is_divided=True)
    step = compiled(cell, Mesh(data=4, model=2), zero=1)
    trained(step, last=FIRST)
    save_checkpoint(cell, folder, format="shards", append_dict={"epoch": 3, "note": "half"})
    values = {parameter.name: parameter.asnumpy() for parameter in cell.get_parameters()}
    return folder, trained(step, FIRST), values


def test_the_values_are_read_whole(saved: Saved) -> None:
    folder, _, values = saved
    for name in (folder, folder / INDEX):
        entries = load_checkpoint(name)
        assert (entries.pop("note"), entries.pop("epoch").asnumpy()) == ("half", 3)
        assert entries.keys() == values.keys()
        for key, value in values.items():
            np.testing.assert_array_equal(entries[key].asnumpy(), value)
            assert entries[key].asnumpy().dtype == value.dtype


def test_what_is_loaded_is_saved_again(saved: Saved, tmp_path: Path) -> None:
    folder, _, values = saved
    for format in ("shards", "safetensors"):
        save_checkpoint(load_checkpoint(folder), tmp_path / "again", format=format)
        entries = load_checkpoint(tmp_path / ("again" if format == "shards" else "again.safetensors"))
        for key, value in values.items():
            np.testing.assert_array_equal(entries[key].asnumpy(), value)


@pytest.mark.parametrize(("mesh", "zero"), [(None, 0), (Mesh(data=8), 3), (Mesh(model=4, data=2), 0)])
def test_a_training_resumes_on_another_mesh(
    mesh: Mesh | None, zero: int, saved: Saved, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rest, _ = saved
    cell = cell_of(seed=5, is_divided=mesh is not None and "model" in mesh.sizes)
    sizes: list[tuple[int, ...]] = []
    read = StoredTensor.region

    def noted(self: StoredTensor, region: tuple[slice, ...]) -> Any:
        array = read(self, region)
        sizes.append(array.shape)
        return array

    monkeypatch.setattr(StoredTensor, "region", noted)
    assert load_param_into_net(cell, load_checkpoint(folder)) == ([], ["epoch", "note"])
    np.testing.assert_allclose(trained(compiled(cell, mesh, zero), FIRST), rest, rtol=1e-6, equal_nan=True)
    assert ((64, 20) in sizes) == (mesh is None) and (zero != 3 or (8, 20) in sizes), "devices read their parts alone"


def test_each_device_writes_its_parts_alone(saved: Saved) -> None:
    folder, _, values = saved
    index = json.loads((folder / INDEX).read_text())
    files = {path.name: package.load_file(path) for path in folder.glob("*.safetensors")}
    assert {key: file for file, entries in files.items() for key in entries} == index["weight_map"]
    assert [name[14:] for name in sorted(files)] == [f"-{n:05d}-of-00008.safetensors" for n in range(1, 9)]
    assert index["metadata"]["total_size"] == sum(value.nbytes for value in values.values()) + 8
    weight = next(name for name in index["shards"] if name.endswith("0.weight") and values[name].shape == (64, 20))
    shard = index["shards"][weight]
    assert shard["shape"] == [64, 20]
    for key, bounds in shard["parts"].items():
        region = tuple(slice(*pair) for pair in bounds)
        np.testing.assert_array_equal(files[index["weight_map"][key]][key], values[weight][region])
    moments = [name for name in index["shards"] if len(index["shards"][name]["parts"]) == 8]
    assert moments, "ZeRO divides moments among all devices"


def test_a_save_that_fails_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Dense(3, 2, "ones")
    save_checkpoint(net, tmp_path, format="shards")
    before = sorted(tmp_path.iterdir())
    net.weight.set_data(graphls.Tensor(np.zeros((2, 3), np.float32)))
    with monkeypatch.context() as patched:
        patched.setattr(saving.Save, "write_index", _fail)
        with pytest.raises(GraphFileError, match="the disk is full"):
            save_checkpoint(net, tmp_path, format="shards")
    assert sorted(tmp_path.iterdir()) == before and load_checkpoint(tmp_path)["weight"].asnumpy().all()
    leftover = tmp_path / "model-00000000-00001-of-00001.safetensors"  # of a process that was killed
    leftover.write_bytes(b"")
    (tmp_path / "model-mine.safetensors").write_bytes(b"")
    save_checkpoint(net, tmp_path, format="shards")
    assert not leftover.exists() and len(list(tmp_path.iterdir())) == 3
    assert not load_checkpoint(tmp_path)["weight"].asnumpy().any()


def _fail(*_: object) -> None:
    raise GraphFileError("the disk is full.")


def test_shards_of_other_programs_are_read(tmp_path: Path) -> None:
    values = {name: np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32) for name in "abc"}
    package.save_file({"a": values["a"]}, tmp_path / "model-00001-of-00002.safetensors")
    package.save_file({"b": values["b"], "c": values["c"]}, tmp_path / "model-00002-of-00002.safetensors")
    places = {name: f"model-0000{1 + (name != 'a')}-of-00002.safetensors" for name in "abc"}
    (tmp_path / INDEX).write_text(json.dumps({"metadata": {"total_size": 72}, "weight_map": places}))
    entries = load_checkpoint(tmp_path)
    for name, value in values.items():
        np.testing.assert_array_equal(entries[name].asnumpy(), value)


def _changed(change: Callable[[Any], object]) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        index = json.loads((folder / INDEX).read_text())
        change(index)
        (folder / INDEX).write_text(json.dumps(index))

    return act


def _cut(folder: Path) -> None:
    path = next(folder.glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-4])


def _first(index: Any) -> Any:
    return next(iter(index["shards"].values()))["parts"]


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no index": (lambda folder: (folder / INDEX).unlink(), "cannot be read"),
    "no file": (lambda folder: next(folder.glob("*.safetensors")).unlink(), "cannot be read"),
    "no json": (lambda folder: (folder / INDEX).write_text("{"), "is damaged"),
    "empty": (lambda folder: next(folder.glob("*.safetensors")).write_bytes(b""), "cannot be read"),
    "noise": (lambda folder: next(folder.glob("*.safetensors")).write_bytes(b"\xff" * 99), "not a file of safetensors"),
    "cut": (_cut, "is damaged"),
    "no map": (_changed(lambda index: index.pop("weight_map")), "no weight_map"),
    "elsewhere": (
        _changed(lambda index: index["weight_map"].update(x="../other.safetensors")), "which is none of safetensors"
    ),
    "unknown": (_changed(lambda index: index["weight_map"].pop(next(iter(_first(index))))), "in none of its files"),
    "missing part": (_changed(lambda index: _first(index).popitem()), "are missing, or overlap"),
    "shape": (_changed(lambda index: next(iter(index["shards"].values())).update(shape=[1])), "number of axes"),
    "bounds": (_changed(lambda index: _first(index).update({next(iter(_first(index))): [[3]]})), "without bounds"),
}  # fmt: skip


@pytest.fixture(scope="module")
def small(saved: Saved) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in saved[0].iterdir()}


@pytest.mark.parametrize("fault", FAULTS)
def test_damaged_shards_are_errors(fault: str, small: dict[str, bytes], tmp_path: Path) -> None:
    for name, data in small.items():
        (tmp_path / name).write_bytes(data)
    act, message = FAULTS[fault]
    act(tmp_path)
    with pytest.raises(GraphValueError, match=message):
        load_checkpoint(tmp_path)


def test_what_shards_do_not_have_is_an_error(tmp_path: Path) -> None:
    for option in ("async_save", "crc_check"):
        with pytest.raises(GraphValueError, match=option):
            save_checkpoint(nn.Dense(2, 1), tmp_path, format="shards", **{option: True})  # type: ignore[arg-type]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(GraphFileError, match="not a directory"):
        save_checkpoint(nn.Dense(2, 1), tmp_path / "file", format="shards")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "file"]


def model_and_data(seed: int, mesh: Mesh | None, zero: int) -> tuple[Model, Any]:
    """A model whose step is on a mesh, and its batches, in which one row overflows."""
    cell = cell_of(seed, is_divided=mesh is not None and "model" in mesh.sizes)
    batches = [batch(number) for number in range(STEPS)]
    rows = {name: np.concatenate(column) for name, column in zip("xy", zip(*batches, strict=True), strict=True)}
    data = graphls.dataset.NumpySlicesDataset(rows, shuffle=False).batch(ROWS)
    return Model(cell, engine="xla", mesh=mesh, zero=zero), data


class Losses(Callback):
    """The losses, flags and scales of all steps."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[float]] = []

    def on_train_step_end(self, run_context: Any) -> None:
        """Note what the step has returned."""
        self.rows.append([value.asnumpy().item() for value in run_context.original_args().net_outputs])


@pytest.mark.parametrize(("mesh", "zero"), [(Mesh(data=8), 3), (None, 0)], ids=["another mesh", "one device"])
def test_a_model_saves_shards_from_which_another_mesh_goes_on(mesh: Mesh | None, zero: int, tmp_path: Path) -> None:
    model, data = model_and_data(1, Mesh(data=4, model=2), 1)
    config = CheckpointConfig(save_checkpoint_steps=3, keep_checkpoint_max=3, format="shards", append_info=["step_num"])
    whole = Losses()
    model.train(2, data, [whole, ModelCheckpoint("net", tmp_path, config)])
    names = ["net-1_6.shards", "net-2_1.shards", "net-2_4.shards", "net-2_7.shards", "net-2_8.shards"]
    assert sorted(path.name for path in tmp_path.glob("*.shards")) == names[-3:], "older folders are removed"
    assert len(list((tmp_path / names[-2]).iterdir())) == 9, "a file of each device and the index"

    other, data = model_and_data(7, mesh, zero)
    entries = load_checkpoint(tmp_path / "net-2_4.shards")
    done = entries.pop("step_num").asnumpy().item()
    load_param_into_net(other.train_network, entries)
    data.set_init_step(done)
    rest, later = Losses(), ModelCheckpoint("net", tmp_path, config)
    other.train(2, data, [rest, later])
    np.testing.assert_allclose(rest.rows, whole.rows[done:], rtol=1e-6, equal_nan=True)
    assert Path(later.latest_ckpt_file_name).name == "net_1-2_8.shards"
    assert any(flag for _, flag, _ in whole.rows)


def test_a_folder_of_shards_keeps_files_of_the_user(tmp_path: Path) -> None:
    save_checkpoint({"x": graphls.Tensor([1.0])}, tmp_path / "a", format="shards")
    (tmp_path / "a" / "notes.txt").write_text("mine")
    saving.remove_shards(tmp_path / "a")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["notes.txt"]
