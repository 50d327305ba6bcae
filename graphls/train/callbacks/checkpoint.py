"""ModelCheckpoint, which saves the state of a training run and prunes old checkpoint files."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from graphls.base.errors import GraphFileError, GraphTypeError, GraphValueError
from graphls.base.files.files import remove_leftovers, write_text
from graphls.base.reporting import warn
from graphls.frontend.tensors.random import random_state
from graphls.ir.text import dump
from graphls.nn.cell import Cell
from graphls.nn.parameter_names import check_distinct
from graphls.step.calling.cache import CompileCache
from graphls.train import background
from graphls.train.callbacks.callback import Callback, InternalCallbackParam, RunContext
from graphls.train.callbacks.checkpoint_config import COUNTS, RANDOM_STATE, CheckpointConfig
from graphls.train.ranks import flag_of_first_rank
from graphls.train.serialization import SHARDS, save_checkpoint
from graphls.train.shards import remove_shards


class Saved(NamedTuple):
    """A saved file with its time."""

    path: Path
    time: float


def unused_prefix(folder: Path, prefix: str) -> str:
    """The prefix itself, or with the next number where checkpoints in this folder have it.

    Unfinished files of killed trainings with this prefix are removed.
    """
    remove_leftovers(folder, prefix, ending="[-_]*")
    pattern = re.compile(re.escape(prefix) + r"(?:_(\d+))?-.*\.(?:ckpt|safetensors|shards)")
    matches = filter(None, (pattern.fullmatch(name) for name in os.listdir(folder)))
    numbers = [int(match[1] or 0) for match in matches]
    return f"{prefix}_{max(numbers) + 1}" if numbers else prefix


def retained_files(saved: list[Saved], config: CheckpointConfig) -> list[Saved]:
    """The files, oldest first, that a config retains; the newest is always one of them."""
    if config.keep_checkpoint_max:
        return saved[-config.keep_checkpoint_max :]
    span = 60 * (config.keep_checkpoint_per_n_minutes or 0)
    retained: list[Saved] = []
    for file in saved:
        if not retained or file.time - retained[-1].time >= span:
            retained.append(file)
    return retained if not saved or retained[-1] is saved[-1] else [*retained, saved[-1]]


def ensure_folder(directory: object) -> Path:
    """The path of a directory, which is created if it is missing."""
    if directory is not None and (not isinstance(directory, (str, os.PathLike)) or not os.fsdecode(directory)):
        raise GraphTypeError(f"For 'ModelCheckpoint', the 'directory' must be a string, but got {directory!r}.")
    path = Path(".") if directory is None else Path(os.fsdecode(directory))
    try:
        path = Path(os.path.abspath(path))
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise GraphFileError(f"The directory {path} cannot be created: {reason}.") from None
    return path


def remove_file(path: Path) -> None:
    """Remove a file, or a folder of shards; warn where that fails."""
    try:
        if path.suffix == f".{SHARDS}":
            remove_shards(path)
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        warn(f"The old checkpoint {path} cannot be removed: {error.strerror}.")


__all__ = ["CheckpointConfig", "ModelCheckpoint"]


class ModelCheckpoint(Callback):
    """Saves the training step as `<prefix>-<epoch>_<step in the epoch>.ckpt` in `directory`, scheduled by `config`.

    The file holds every parameter of the training step: weights, moments, counters, the loss scale; and the entry
    `random_state`, from which dropout continues. `load_checkpoint` and `load_param_into_net` restore all of it in a
    training step of the same construction. The last step is saved in any case. A file is removed only after a newer one
    is complete. In the format "shards" of the config each is a folder, `<prefix>-<epoch>_<step>.shards`, as
    `save_checkpoint` writes it. Where `directory` (default: the current one) holds checkpoints of this prefix already,
    the prefix gets `_1`, `_2` and so on. Of several ranks with one directory, the first writes. `<prefix>-graph.meta`
    is the IR of the compiled step as text. Either argument may be a function of the state that callbacks see; a
    `prefix` that is one returns the whole name.

    Raises GraphValueError for a prefix that is not a string or contains '/', GraphTypeError for another config, and
    GraphFileError where the directory cannot be created.

    Examples:
        >>> import os
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import CheckpointConfig, Model, ModelCheckpoint
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1)
        >>> config = CheckpointConfig(save_checkpoint_steps=1, keep_checkpoint_max=2)
        >>> keep = ModelCheckpoint("net", "checkpoints", config)
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(2, rows, callbacks=[keep])
        >>> sorted(os.listdir("checkpoints"))
        ['net-2_1.ckpt', 'net-2_2.ckpt', 'net-graph.meta']
    """

    def __init__(
        self, prefix: str | Callable[[Any], str] = "CKP",
        directory: str | os.PathLike[str] | Callable[[Any], str] | None = None, config: CheckpointConfig | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if not callable(prefix) and (not isinstance(prefix, str) or not prefix or "/" in prefix or "\0" in prefix):
            raise GraphValueError(
                "For 'ModelCheckpoint', the argument 'prefix' for checkpoint file name is invalid, it must be string "
                f"and does not contain '/', but got {prefix!r}.",
            )
        if config is not None and not isinstance(config, CheckpointConfig):
            raise GraphTypeError(
                "For 'ModelCheckpoint', the type of argument 'config' should be 'CheckpointConfig', but got "
                f"{type(config)}.",
            )
        self._config = config if config is not None else CheckpointConfig()
        self._directory = directory if callable(directory) else ensure_folder(directory)
        self._prefix = prefix
        if isinstance(prefix, str) and isinstance(self._directory, Path):
            self._prefix = unused_prefix(self._directory, prefix)
        self._saved: list[Saved] = []
        self._first_step = self._last_saved_step = 0
        self._last_time = time.monotonic()
        self._latest: str = ""
        self._context: Any = None
        self._position: Position | None = None
        self._outputs: Any = None
        self._has_graph = False
        self._writes = True  # unless another rank writes into this directory
        self._is_joint = False  # unless all ranks have a callback like this one

    @property
    def latest_ckpt_file_name(self) -> str:
        """The last saved file; empty before the first."""
        return self._latest

    def on_train_begin(self, run_context: RunContext) -> None:
        """Count steps and time from here; raises GraphValueError where two parameters to save have one name."""
        network = self._network(run_context.original_args())
        if isinstance(network, Cell):
            check_distinct(network)
        self._first_step = self._last_saved_step = int(run_context.original_args().cur_step_num)
        self._last_time = time.monotonic()
        self._context, self._position, self._outputs = run_context, None, None

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Remember the outputs: new ones show that a step has run."""
        self._outputs = run_context.original_args().get("net_outputs")

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Save if a save is due."""
        parameters = run_context.original_args()
        self._position, self._outputs = _position(parameters), parameters.get("net_outputs")
        self._save_graph(parameters)
        if self._is_time(parameters.cur_step_num):
            self._save(parameters, self._position)

    def on_train_end(self, run_context: RunContext) -> None:
        """Save the last step, unless it is saved already, and wait for files that are being written."""
        parameters = run_context.original_args()
        if parameters.cur_step_num != self._last_saved_step:
            self._save(parameters, _position(parameters))
        self._clean()

    def __exit__(self, *error: object) -> None:
        """After an exception, save the state after the last completed step, if the config asks for it."""
        if self._context is None or not self._config.exception_save or not error or error[0] is None:
            return
        parameters = self._context.original_args()
        position = self._position_of_state(parameters)
        if position is not None:
            self._save(parameters, position, "_breakpoint")
            self._clean()

    def _position_of_state(self, parameters: InternalCallbackParam) -> Position | None:
        """The last completed step: the one before, or the one with new outputs, or by the count of complete steps."""
        completed = parameters.get("completed_steps")
        if completed is None:
            return _position(parameters) if parameters.get("net_outputs") is not self._outputs else self._position
        step = completed()
        if step == self._first_step or (self._position is not None and step == self._position.step_num):
            return self._position
        return _position({**parameters, "cur_step_num": step})

    def _is_time(self, step: int) -> bool:
        if self._config.save_checkpoint_steps:
            return bool(step >= self._last_saved_step + self._config.save_checkpoint_steps)
        if not self._config.save_checkpoint_seconds:
            return False
        is_time = self._config.save_checkpoint_seconds < time.monotonic() - self._last_time
        return flag_of_first_rank(is_time) if self._is_joint else is_time

    def _save(self, parameters: InternalCallbackParam, position: Position, ending: str = "") -> None:
        config = self._config
        network = self._network(parameters)
        name = self._name(parameters, f"-{position.epoch_num}_{position.step_in_epoch}") + f"{ending}.{config.format}"
        path = self._folder(parameters) / name
        if self._writes or ending:
            self._clean()
            save_checkpoint(
                network, path, integrated_save=config.integrated_save, async_save=config.async_save,
                append_dict=self._appendix(position), crc_check=config.crc_check, format=config.format,
            )  # fmt: skip
            self._saved = [saved for saved in self._saved if saved.path != path] + [Saved(path, time.monotonic())]
        self._last_saved_step, self._last_time, self._latest = position.step_num, time.monotonic(), str(path)
        parameters.last_save_ckpt_step, parameters.latest_ckpt_file = position.step_num, str(path)
        if not config.async_save:
            self._clean()

    def _network(self, parameters: InternalCallbackParam) -> Any:
        """The cell or the entries that are saved."""
        return parameters.train_network if self._config.saved_network is None else self._config.saved_network

    def _appendix(self, position: Position) -> dict[str, Any]:
        config = self._config
        entries = dict(config.append_dict)
        entries.update({name: getattr(position, name) for name in COUNTS if name in entries})
        if config.saved_network is None or RANDOM_STATE in entries:
            entries[RANDOM_STATE] = random_state()
        return entries

    def _clean(self) -> None:
        """Wait for the file that is being written, then remove files beyond the limit."""
        background.settle()
        retained = retained_files(self._saved, self._config)
        for path, _ in self._saved:
            if path not in {file.path for file in retained}:
                remove_file(path)
        self._saved = retained

    def _save_graph(self, parameters: InternalCallbackParam) -> None:
        """Write the IR of the step, once, when it is compiled."""
        text = "" if self._has_graph or not self._writes else graph_text(parameters.train_network)
        if text:
            write_text(self._folder(parameters) / (self._name(parameters, "") + "-graph.meta"), text)
            self._has_graph = True

    def _folder(self, parameters: object) -> Path:
        return self._directory if isinstance(self._directory, Path) else ensure_folder(self._directory(parameters))

    def _name(self, parameters: object, numbers: str) -> str:
        return self._prefix + numbers if isinstance(self._prefix, str) else self._prefix(parameters)


class Position(NamedTuple):
    """The position of a training: the numbers of the epoch and the step, from 1."""

    epoch_num: int
    step_in_epoch: int
    step_num: int


def _position(parameters: Any) -> Position:
    step = int(parameters["cur_step_num"])
    return Position(int(parameters["cur_epoch_num"]), (step - 1) % int(parameters["batch_num"]) + 1, step)


def graph_text(network: object) -> str:
    """The IR of the step that a cell compiled last; empty without one."""
    caches = network.__dict__.get("_compiled", {}).values() if isinstance(network, Cell) else ()
    steps = [c.last[2] for c in caches if isinstance(c, CompileCache) and c.last is not None]
    return dump(steps[-1].graph) if steps else ""
