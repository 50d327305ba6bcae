"""Callbacks that stop training: early stopping by a monitored quantity, and requests to exit."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.checks import boolean, not_negative, not_negative_int, number
from graphls.base.errors import GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.files.files import parse_json, read_bytes
from graphls.base.reporting import warn
from graphls.frontend.tensors.random import random_state
from graphls.train.callbacks.callback import Callback, InternalCallbackParam, RunContext, loss_of
from graphls.train.ranks import mean_over_ranks
from graphls.train.serialization import save_checkpoint

MODES = ("auto", "min", "max")


class Monitored:
    """A number that should fall or rise from epoch to epoch.

    `monitor` is "loss", the loss of the epoch's last step, or a name among the results of evaluations in `Model.fit`:
    "eval_loss" or that of a metric. In the mode "auto" it should rise if "acc" is in its name, else fall; a change
    counts from `min_delta` on. Raises GraphTypeError and GraphValueError for arguments that do not fit.
    """

    def __init__(self, owner: str, monitor: str, mode: str, min_delta: float) -> None:
        if not isinstance(monitor, str):
            text = f"For {owner!r}, the 'monitor' must be a string, but got {monitor!r}."
            raise GraphTypeError(text)
        if not isinstance(mode, str):
            text = f"The type of 'mode' should be 'str', but got type {type(mode).__name__!r}."
            raise GraphTypeError(text)
        if mode not in MODES:
            known = ", ".join(map(repr, MODES))
            text = f"For {owner!r}, the 'mode' must be one of {known}, but got {mode!r}."
            raise GraphValueError(text)
        self.owner = owner
        self.monitor = monitor
        self.min_delta = not_negative(owner, "min_delta", min_delta)
        self.rises = mode == "max" or (mode == "auto" and "acc" in monitor)
        self.worst = -math.inf if self.rises else math.inf

    def is_better(self, value: float, than: float) -> bool:
        """Returns whether one number is better than another by more than `min_delta`."""
        return value - self.min_delta > than if self.rises else value + self.min_delta < than

    def value(self, state: InternalCallbackParam) -> float | None:
        """The number of the epoch that has ended, its mean over all ranks; None, with a warning, where it is missing.

        None without a warning after an epoch that no evaluation followed.
        """
        return mean_over_ranks(self._own_value(state))

    def _own_value(self, state: InternalCallbackParam) -> float | None:
        results = state.get("eval_results") or {}
        if self.monitor == "loss":
            return loss_of(state.get("net_outputs"))
        if self.monitor in results:
            return float(results[self.monitor])
        if results or state.get("eval_network") is None:
            known = ", ".join(map(repr, ["loss", *results]))
            warn(f"For {self.owner!r}, there is no {self.monitor!r} to monitor; those known are {known}.")
        return None


class EarlyStopping(Callback):
    """Stops training after `patience` epochs without an improvement of a number.

    `monitor` is "loss", or in `Model.fit` "eval_loss" or the name of a metric; `mode` is "min" for a number that should
    fall, "max" for one that should rise, or "auto", by its name ("acc" rises). A change below `min_delta` does not
    count. With `baseline`, an epoch only counts as better if it is better than that, too. With `restore_best_weights`,
    every state of the train network is restored to its value after the best epoch, if training is stopped. `verbose`
    prints both. Epochs that no evaluation followed do not count. Raises GraphTypeError and GraphValueError for
    arguments that do not fit.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import EarlyStopping, History, Model
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1, weight_init="ones", bias_init="zeros")
        >>> history = History()
        >>> stop = EarlyStopping("loss", patience=2, mode="min")  # the loss is 0 from the start
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(9, rows, callbacks=[stop, history])
        >>> history.epoch["epoch"]
        [1, 2, 3]
    """

    def __init__(
        self, monitor: str = "eval_loss", min_delta: float = 0, patience: int = 0, verbose: bool = False,
        mode: str = "auto", baseline: float | None = None, restore_best_weights: bool = False,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.monitored = Monitored(name, monitor, mode, min_delta)
        self.patience = not_negative_int(name, "patience", patience)
        self.verbose = boolean(name, "verbose", verbose)
        self.baseline = None if baseline is None else number(name, "baseline", baseline)
        self.restore_best_weights = boolean(name, "restore_best_weights", restore_best_weights)
        self._begin()

    def _begin(self) -> None:
        self.wait = self.best_epoch = self.stopped_epoch = 0
        self.best = self.monitored.worst
        self.best_weights: dict[Any, np.ndarray[Any, Any]] = {}

    def on_train_begin(self, run_context: RunContext) -> None:
        """Forget an earlier run."""
        self._begin()

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Compare the number, and stop if it is due."""
        state = run_context.original_args()
        value = self.monitored.value(state)
        if value is None:
            return
        self.wait += 1
        if self.monitored.is_better(value, self.best):
            self._keep(value, state)
        if self.wait >= self.patience and self.wait:
            self.stopped_epoch = state.cur_epoch_num
            run_context.request_stop()
            self._restore()

    def _keep(self, value: float, state: InternalCallbackParam) -> None:
        self.best, self.best_epoch = value, state.cur_epoch_num
        if self.restore_best_weights:
            self.best_weights = {p: p.asnumpy() for p in state.train_network.get_parameters()}
        if self.baseline is None or self.monitored.is_better(value, self.baseline):
            self.wait = 0

    def _restore(self) -> None:
        if not self.best_weights:
            return
        if self.verbose:
            print(f"Restoring model weights from the end of the best epoch: {self.best_epoch}.", flush=True)
        for parameter, array in self.best_weights.items():
            parameter.set_data(array)

    def on_train_end(self, run_context: RunContext) -> None:
        """Print the epoch at which training was stopped."""
        if self.stopped_epoch and self.verbose:
            print(f"Epoch {self.stopped_epoch:05d}: early stopping", flush=True)


class OnRequestExit(Callback):
    """Stops training after the step in which the process received a signal, and saves a checkpoint.

    `sig` is SIGTERM or SIGINT. A `config_file`, JSON, with {"GracefulExit": 1} is a request, too; it is read after each
    step. With `save_ckpt`, every state of the train network is saved as `<file_name>_train.ckpt` in
    `directory`, with the numbers of epoch and step and the random state, from which training can resume exactly; in
    evaluation, those of the evaluation network as `<file_name>_eval.ckpt`. `save_mindir` writes no file, as there is
    no MindIR here; `graphls.train.export` writes ONNX. The previous handler of the signal is restored at the end of the
    run. Raises GraphTypeError and GraphValueError for arguments that do not fit, GraphRuntimeError where the run is not
    in the main thread, the only one that receives signals.

    Examples:
        >>> from graphls.train import OnRequestExit
        >>> callback = OnRequestExit(save_mindir=False, file_name="digits", directory="checkpoints")
    """

    def __init__(
        self, save_ckpt: bool = True, save_mindir: bool = True, file_name: str = "Net",
        directory: str | os.PathLike[str] = "./", config_file: str | os.PathLike[str] | None = None,
        sig: Any = signal.SIGTERM,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.save_ckpt = boolean(name, "save_ckpt", save_ckpt)
        self.save_mindir = boolean(name, "save_mindir", save_mindir)
        if not isinstance(file_name, str) or not file_name:
            raise GraphTypeError(f"The 'file_name' of {name} is a string, not {file_name!r}.")
        if sig not in (signal.SIGTERM, signal.SIGINT):
            raise GraphValueError(f"The 'sig' of {name} is SIGTERM or SIGINT, not {sig!r}.")
        self.file_name = file_name
        self.directory = Path(directory)
        self.config_file = None if config_file is None else Path(config_file)
        self.sig = sig
        self.is_requested = False
        self._before: Any = None

    def __enter__(self) -> OnRequestExit:
        if threading.current_thread() is not threading.main_thread():
            text = "Only the main thread gets signals, so OnRequestExit works only there."
            raise GraphRuntimeError(text)
        self.is_requested = False
        self._before = signal.signal(self.sig, self._request)
        return self

    def __exit__(self, *error: object) -> None:
        signal.signal(self.sig, self._before)

    def _request(self, number: int, frame: object) -> None:
        self.is_requested = True

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Stop after a request."""
        if self.is_requested or self._is_configured():
            self.is_requested = True
            run_context.request_stop()

    def on_train_end(self, run_context: RunContext) -> None:
        """Save the train network after a request."""
        state = run_context.original_args()
        if self.is_requested and self.save_ckpt:
            steps = {"epoch_num": state.cur_epoch_num, "step_num": state.cur_step_num}
            self._save(state.train_network, "train", {**steps, "random_state": random_state()})

    def on_eval_end(self, run_context: RunContext) -> None:
        """Save the evaluation network after a request."""
        if self.is_requested and self.save_ckpt and run_context.original_args().get("train_network") is None:
            self._save(run_context.original_args().eval_network, "eval", {})

    on_eval_step_end = on_train_step_end

    def _save(self, network: object, mode: str, entries: Mapping[str, object]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        save_checkpoint(network, str(self.directory / f"{self.file_name}_{mode}.ckpt"), append_dict=entries)

    def _is_configured(self) -> bool:
        """Returns whether the file requests the end; one that is being written, and so is not JSON yet, does not."""
        if self.config_file is None:
            return False
        try:
            content = parse_json(read_bytes(self.config_file))
        except (OSError, ValueError):
            return False
        return isinstance(content, dict) and content.get("GracefulExit") == 1
