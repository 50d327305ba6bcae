"""ModelCheckpoint and CheckpointConfig: when they save, what, under which names, and what stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphls
from graphls import nn
from graphls.frontend.tensors.random import random_state
from graphls.ir.errors import GraphFileError, GraphTypeError, GraphValueError
from graphls.train import background
from graphls.train.callbacks import checkpoint
from graphls.train.callbacks.callback import Callback
from graphls.train.callbacks.checkpoint import CheckpointConfig, ModelCheckpoint, Saved, retained_files
from graphls.train.serialization import load_checkpoint, load_param_into_net
from tests.train.checkpointed_training import batch, run, told, training


class Clock:
    """Time that passes where the test says so."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(checkpoint, "time", clock)
    return clock


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def train(callback: Any, steps: range | int, made: Any = None, backend: str = "numpy") -> nn.Cell:
    cell, step = made or training(backend)
    for _ in run(cell, step, callback, steps if isinstance(steps, range) else range(steps)):
        pass
    trained: nn.Cell = cell
    return trained


def test_the_names_of_files_and_what_they_hold(tmp_path: Path) -> None:
    callback = ModelCheckpoint("lenet", str(tmp_path / "new" / "folder"))
    assert isinstance(callback, Callback) and callback.latest_ckpt_file_name == ""
    cell = train(callback, 12)
    folder = tmp_path / "new" / "folder"
    assert names(folder) == [f"lenet-1_{n}.ckpt" for n in (10, 8, 9)] + ["lenet-2_1.ckpt", "lenet-2_2.ckpt"]
    assert callback.latest_ckpt_file_name == str(folder / "lenet-2_2.ckpt")
    found = load_checkpoint(callback.latest_ckpt_file_name)
    assert list(found) == [*(p.name for p in cell.get_parameters()), "random_state"]
    assert {"global_step", "learning_rate", "moment1.0.weight", "beta1_power"} <= found.keys()
    assert all(found[p.name].asnumpy().tobytes() == p.asnumpy().tobytes() for p in cell.get_parameters())
    assert found["random_state"].tolist() == random_state().tolist()


@pytest.mark.parametrize(
    ("steps", "kept", "files"),
    [
        (1, 2, ["CKP-1_6.ckpt", "CKP-1_7.ckpt"]),
        (3, 9, ["CKP-1_3.ckpt", "CKP-1_6.ckpt", "CKP-1_7.ckpt"]),
        (7, 9, ["CKP-1_7.ckpt"]),
        (100, 9, ["CKP-1_7.ckpt"]),
        (2, 0, ["CKP-1_7.ckpt"]),
    ],
)
def test_saving_every_so_many_steps_and_at_the_end(tmp_path: Path, steps: int, kept: int, files: list[str]) -> None:
    config = CheckpointConfig(save_checkpoint_steps=steps, keep_checkpoint_max=kept)
    train(ModelCheckpoint(directory=str(tmp_path), config=config), 7)
    assert names(tmp_path) == files


def test_a_call_that_runs_many_steps_saves_once(tmp_path: Path) -> None:
    cell, _ = training()
    parameters = told(cell)
    callback = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(3))
    context = type("Context", (), {"original_args": lambda self: parameters})()
    for step, epoch in ((10, 1), (11, 2), (12, 2), (13, 2), (20, 2)):
        parameters.cur_step_num, parameters.cur_epoch_num = step, epoch
        callback.on_train_step_end(context)
    assert names(tmp_path) == ["net-1_10.ckpt", "net-2_10.ckpt", "net-2_3.ckpt"]
    assert (parameters.last_save_ckpt_step, parameters.latest_ckpt_file) == (20, str(tmp_path / "net-2_10.ckpt"))


def test_steps_count_from_where_a_training_begins(tmp_path: Path) -> None:
    config = CheckpointConfig(save_checkpoint_steps=4)
    callback = ModelCheckpoint("net", str(tmp_path), config)
    train(callback, range(5, 15))
    assert names(tmp_path) == ["net-1_9.ckpt", "net-2_3.ckpt", "net-2_5.ckpt"]
    train(callback, range(0, 5))
    assert names(tmp_path) == ["net-1_4.ckpt", "net-1_5.ckpt", "net-1_9.ckpt", "net-2_3.ckpt", "net-2_5.ckpt"]


def test_saving_by_time(tmp_path: Path, clock: Clock) -> None:
    cell, step = training()
    config = CheckpointConfig(save_checkpoint_steps=0, save_checkpoint_seconds=30)
    callback = ModelCheckpoint("net", str(tmp_path), config)
    for _ in run(cell, step, callback, range(8)):
        clock.now += 12
    assert names(tmp_path) == ["net-1_4.ckpt", "net-1_7.ckpt", "net-1_8.ckpt"]


def test_keeping_one_file_for_every_n_minutes(tmp_path: Path, clock: Clock) -> None:
    cell, step = training()
    config = CheckpointConfig(keep_checkpoint_max=0, keep_checkpoint_per_n_minutes=2)
    callback = ModelCheckpoint("net", str(tmp_path), config)
    for number in run(cell, step, callback, range(9)):
        clock.now += 50
        if number == 5:
            assert names(tmp_path) == ["net-1_1.ckpt", "net-1_4.ckpt", "net-1_5.ckpt"]
    assert names(tmp_path) == ["net-1_1.ckpt", "net-1_4.ckpt", "net-1_7.ckpt", "net-1_9.ckpt"]


def test_which_files_are_kept() -> None:
    def kept(config: CheckpointConfig, times: list[int]) -> list[float]:
        return [file.time for file in retained_files([Saved(Path(str(t)), 60 * t) for t in times], config)]

    assert kept(CheckpointConfig(keep_checkpoint_max=3), [0, 1, 2, 3, 4]) == [120, 180, 240]
    assert kept(CheckpointConfig(keep_checkpoint_max=None), [0, 1]) == [60]
    assert kept(CheckpointConfig(keep_checkpoint_max=None), []) == []
    minutes = CheckpointConfig(keep_checkpoint_max=None, keep_checkpoint_per_n_minutes=10)
    assert kept(minutes, [0, 3, 9, 11, 12]) == [0, 660, 720]
    assert kept(minutes, [0, 25, 50]) == [0, 1500, 3000]


def test_a_prefix_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    config = CheckpointConfig(keep_checkpoint_max=1)
    for _ in range(3):
        train(ModelCheckpoint("net", str(tmp_path), config), 1)
    for other in ("network-1_1.ckpt", "net_7-graph.meta", "net_x-1_1.ckpt", "net_20.ckpt"):
        (tmp_path / other).write_text("")
    assert sorted(p.name for p in tmp_path.glob("net*1_1.ckpt")) == [
        "net-1_1.ckpt", "net_1-1_1.ckpt", "net_2-1_1.ckpt", "net_x-1_1.ckpt", "network-1_1.ckpt",
    ]  # fmt: skip
    train(ModelCheckpoint("net", str(tmp_path), config), 1)
    assert (tmp_path / "net_3-1_1.ckpt").exists()
    (tmp_path / "net_9-3_3.safetensors").write_text("")
    train(ModelCheckpoint("net", str(tmp_path), config), 1)
    assert (tmp_path / "net_10-1_1.ckpt").exists()


def test_only_files_of_this_training_are_removed(tmp_path: Path) -> None:
    for name in ("net-9_9.ckpt", "net_1-9_9.ckpt", "other-1_1.ckpt"):
        (tmp_path / name).write_text("precious")
    train(ModelCheckpoint("net", str(tmp_path), CheckpointConfig(keep_checkpoint_max=1)), 3)
    assert names(tmp_path) == ["net-9_9.ckpt", "net_1-9_9.ckpt", "net_2-1_3.ckpt", "other-1_1.ckpt"]


def test_appended_entries(tmp_path: Path) -> None:
    appended = {"rate": 0.5, "note": "first", "done": False, "best": graphls.Tensor([1.0, 2.0])}
    config = CheckpointConfig(append_info=["epoch_num", "step_num", "random_state", appended])
    callback = ModelCheckpoint("net", str(tmp_path), config)
    train(callback, 12)
    found = load_checkpoint(callback.latest_ckpt_file_name)
    assert (found["epoch_num"].item(), found["step_num"].item()) == (2, 12)
    assert found["epoch_num"].dtype is graphls.int64 and found["epoch_num"].shape == ()
    assert (found["rate"].item(), found["note"], found["done"].item()) == (0.5, "first", False)
    assert found["best"].tolist() == [1.0, 2.0]
    assert load_checkpoint(tmp_path / "net-1_10.ckpt")["step_num"].item() == 10


def test_another_network_is_saved_where_the_config_names_it(tmp_path: Path) -> None:
    made = training()
    backbone = made[0].network
    for info, extra in ((None, []), (["random_state"], ["random_state"])):
        config = CheckpointConfig(saved_network=backbone, append_info=info)
        callback = ModelCheckpoint("net", str(tmp_path), config)
        train(callback, 1, made)
        names = [p.name for p in backbone.get_parameters()]
        assert list(load_checkpoint(callback.latest_ckpt_file_name)) == names + extra


def test_a_network_without_cells_is_a_network(tmp_path: Path) -> None:
    config = CheckpointConfig(saved_network=nn.SequentialCell(), append_info=["epoch_num"])
    callback = ModelCheckpoint("net", str(tmp_path), config)
    train(callback, 1)
    assert list(load_checkpoint(callback.latest_ckpt_file_name)) == ["epoch_num"]


@pytest.mark.parametrize("options", [{"async_save": True}, {"format": "safetensors"}, {"crc_check": True}])
def test_ways_of_saving(tmp_path: Path, options: dict[str, Any]) -> None:
    callback = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(keep_checkpoint_max=2, **options))
    cell = train(callback, 6)
    ending = options.get("format", "ckpt")
    assert names(tmp_path) == [f"net-1_5.{ending}", f"net-1_6.{ending}"]
    found = load_checkpoint(callback.latest_ckpt_file_name, crc_check="crc_check" in options)
    assert found["global_step"].tolist() == [6]
    assert found["0.weight"].asnumpy().tobytes() == cell.parameters_dict()["0.weight"].asnumpy().tobytes()


def test_with_async_saves_no_file_goes_before_a_newer_one_is_complete(tmp_path: Path) -> None:
    cell, step = training()
    callback = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(keep_checkpoint_max=1, async_save=True))
    for number in run(cell, step, callback, range(5)):
        background.wait()
        readable = [int(load_checkpoint(file)["global_step"]) for file in tmp_path.glob("net-*.ckpt")]
        assert max(readable) == number and len(readable) <= 2
    assert names(tmp_path) == ["net-1_5.ckpt"]


def test_the_graph_is_written_once_where_the_network_has_compiled_one(tmp_path: Path) -> None:
    cell, _ = training()
    callback = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(2))
    for _ in run(cell, cell, callback, range(3)):
        (tmp_path / "net-graph.meta").touch()
    text = (tmp_path / "net-graph.meta").read_text()
    graph = graphls.parse(text)
    assert {"global_step", "0.weight", "random_state"} <= {state.name for state in graph.states}


class Failing(Exception):
    pass


@pytest.mark.parametrize("error", [Failing, KeyboardInterrupt, SystemExit])
def test_an_exception_saves_what_the_last_whole_step_left(tmp_path: Path, error: Any) -> None:
    cell, step = training()
    config = CheckpointConfig(100, exception_save=True, append_info=["step_num"])

    def failing(*inputs: Any) -> None:
        if int(cell.optimizer.global_step.item()) == 4:
            raise error
        step(*inputs)

    with pytest.raises(error):
        train(ModelCheckpoint("net", str(tmp_path), config), 9, (cell, failing))
    assert names(tmp_path) == ["net-1_4_breakpoint.ckpt"]
    found = load_checkpoint(tmp_path / "net-1_4_breakpoint.ckpt")
    assert (found["step_num"].item(), found["global_step"].tolist()) == (4, [4])
    with pytest.raises(error):
        train(ModelCheckpoint("other", str(tmp_path)), 9, (cell, failing))
    assert names(tmp_path) == ["net-1_4_breakpoint.ckpt"]


class Monitored(ModelCheckpoint):
    """Raises at the end of a step, as a callback before this one may."""

    def on_train_step_end(self, run_context: Any) -> None:
        if run_context.original_args().cur_step_num == 3:
            raise Failing
        super().on_train_step_end(run_context)


def test_a_step_that_ran_counts_though_a_callback_raised(tmp_path: Path) -> None:
    config = CheckpointConfig(100, exception_save=True, append_info=["step_num"])
    with pytest.raises(Failing):
        train(Monitored("net", str(tmp_path), config), 9)
    found = load_checkpoint(tmp_path / "net-1_3_breakpoint.ckpt")
    assert (found["step_num"].item(), found["global_step"].tolist()) == (3, [3])


def test_an_exception_before_the_first_step_saves_nothing(tmp_path: Path) -> None:
    def failing(*inputs: Any) -> None:
        raise Failing

    with pytest.raises(Failing):
        train(ModelCheckpoint("net", str(tmp_path), CheckpointConfig(exception_save=True)), 3, (training()[0], failing))
    assert names(tmp_path) == []


def test_an_exception_among_the_steps_of_one_call_saves_those_that_ran(tmp_path: Path) -> None:
    """In sink mode many steps run between the hooks, and their number rises after each part of them."""
    cell, _ = training()
    parameters = told(cell)
    context = type("Context", (), {"original_args": lambda self: parameters})()
    config = CheckpointConfig(100, exception_save=True, append_info=["step_num"])
    with pytest.raises(Failing), ModelCheckpoint("net", str(tmp_path), config) as callback:
        callback.on_train_begin(context)
        callback.on_train_step_begin(context)
        parameters.net_outputs, parameters.cur_step_num = "outputs", 6
        raise Failing
    assert load_checkpoint(tmp_path / "net-1_6_breakpoint.ckpt")["step_num"].item() == 6


def test_names_and_folders_by_function(tmp_path: Path) -> None:
    callback = ModelCheckpoint(lambda p: f"step{p.cur_step_num}", lambda p: f"{tmp_path}/{p.cur_step_num % 2}")
    train(callback, 3)
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.ckpt")) == [
        "0/step2.ckpt", "1/step1.ckpt", "1/step3.ckpt",
    ]  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "onnxruntime"])
def test_a_training_goes_on_from_any_of_its_files(tmp_path: Path, backend: str) -> None:
    graphls.set_seed(3)
    config = CheckpointConfig(2, append_info=["epoch_num", "step_num"])
    whole = train(ModelCheckpoint("net", str(tmp_path), config), 7, backend=backend)
    state = {p.name: p.asnumpy().tobytes() for p in whole.get_parameters()}
    for name in ("net-1_2.ckpt", "net-1_4.ckpt"):
        graphls.set_seed(77)
        cell, step = training(backend)
        found = load_checkpoint(tmp_path / name)
        assert load_param_into_net(cell, found, strict_load=True) == ([], ["epoch_num", "step_num"])
        for number in range(int(found["step_num"]), 7):
            step(*batch(number))
        assert {p.name: p.asnumpy().tobytes() for p in cell.get_parameters()} == state


def test_a_file_that_cannot_be_removed_is_warned_of(tmp_path: Path) -> None:
    cell, step = training()
    callback = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(keep_checkpoint_max=1))
    with pytest.warns(UserWarning, match=r"net-1_1.ckpt cannot be removed"):
        for number in run(cell, step, callback, range(2)):
            if number == 1:
                (tmp_path / "net-1_1.ckpt").unlink()
                (tmp_path / "net-1_1.ckpt").mkdir()
    assert (tmp_path / "net-1_2.ckpt").is_file()


def test_wrong_callbacks(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for prefix in ("a/b", "", 3, None, "a\0"):
        with pytest.raises(GraphValueError, match="'prefix' for checkpoint file name is invalid"):
            ModelCheckpoint(prefix, str(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(GraphTypeError, match="should be 'CheckpointConfig'"):
        ModelCheckpoint("a", str(tmp_path), {})  # type: ignore[arg-type]
    for directory in (3, ""):
        with pytest.raises(GraphTypeError, match="'directory' must be a string"):
            ModelCheckpoint("a", directory)  # type: ignore[arg-type]
    with pytest.raises(GraphFileError, match="cannot be created"):
        ModelCheckpoint("a", str(tmp_path / "file" / "b"))


WRONG: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"save_checkpoint_steps": -1}, GraphValueError, "'save_checkpoint_steps' must be int and must >= 0"),
    ({"save_checkpoint_steps": 1.5}, GraphTypeError, "'save_checkpoint_steps' must be int"),
    ({"save_checkpoint_seconds": "1"}, GraphTypeError, "'save_checkpoint_seconds'"),
    ({"keep_checkpoint_max": True}, GraphTypeError, "'keep_checkpoint_max'"),
    ({"keep_checkpoint_per_n_minutes": -2}, GraphValueError, "'keep_checkpoint_per_n_minutes'"),
    ({"save_checkpoint_steps": 0, "keep_checkpoint_max": None}, GraphValueError, "can't be all None or 0"),
    ({"saved_network": 3}, GraphTypeError, "'saved_network' must be None or Cell"),
    ({"append_info": {"a": 1}}, GraphTypeError, "'append_info' must be list"),
    ({"append_info": [3]}, GraphTypeError, "must be str or dict"),
    ({"append_info": ["loss"]}, GraphValueError, "'epoch_num', 'step_num'"),
    ({"append_info": [{}, {}]}, GraphTypeError, "only one dict"),
    ({"append_info": [{"a": None}]}, GraphTypeError, "keys of the dict"),
    ({"append_info": [{3: 1}]}, GraphTypeError, "keys of the dict"),
    ({"integrated_save": None}, GraphTypeError, "integrated_save"),
    ({"async_save": 1}, GraphTypeError, "async_save"),
    ({"exception_save": 1}, GraphTypeError, "exception_save"),
    ({"crc_check": 1}, GraphTypeError, "crc_check"),
    ({"remove_redundancy": 1}, GraphTypeError, "remove_redundancy"),
    ({"enc_key": b"0"}, GraphValueError, "does not offer encrypted files"),
    ({"format": "pt"}, GraphValueError, "'format' must be one of"),
    ({"format": "safetensors", "crc_check": True}, GraphValueError, "'crc_check'"),
    ({"format": "shards", "async_save": True}, GraphValueError, "the format 'shards' has no 'async_save'"),
]


@pytest.mark.parametrize(("options", "error", "text"), WRONG)
def test_wrong_configs(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        CheckpointConfig(**options)


def test_the_rules_that_count() -> None:
    policy = CheckpointConfig(save_checkpoint_seconds=30, keep_checkpoint_per_n_minutes=5).get_checkpoint_policy()
    assert policy == {
        "save_checkpoint_steps": 1,
        "save_checkpoint_seconds": None,
        "keep_checkpoint_max": 5,
        "keep_checkpoint_per_n_minutes": None,
        "saved_network": None,
    }
    config = CheckpointConfig(0, 30, None, 5)
    assert (config.save_checkpoint_seconds, config.keep_checkpoint_per_n_minutes) == (30, 5)
    assert CheckpointConfig(keep_checkpoint_max=0).keep_checkpoint_max == 1


def test_values_are_those_of_the_step_and_not_of_a_later_one(tmp_path: Path) -> None:
    cell, step = training("onnxruntime")
    callback = ModelCheckpoint("net", str(tmp_path), CheckpointConfig(1, keep_checkpoint_max=9, async_save=True))
    seen = []
    for _ in run(cell, step, callback, range(5)):
        seen.append(cell.parameters_dict()["0.weight"].asnumpy())
    for number, weight in enumerate(seen, 1):
        np.testing.assert_array_equal(load_checkpoint(tmp_path / f"net-1_{number}.ckpt")["0.weight"].asnumpy(), weight)
