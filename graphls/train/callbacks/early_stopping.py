"""Early stopping, and the monitored quantity that it shares with ReduceLROnPlateau."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphls.base.checks import boolean, not_negative, not_negative_int, number
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import warn
from graphls.train.callbacks.callback import Callback, InternalCallbackParam, RunContext, loss_of
from graphls.train.together import mean_over_ranks

MODES = ("auto", "min", "max")


class Monitored:
    """A number that is to fall or to rise from epoch to epoch.

    `monitor` is "loss", the loss of the epoch's last step, or a name among the results of evaluations in `Model.fit`:
    "eval_loss" or that of a metric. In the mode "auto" it is to rise where "acc" is in its name, else to fall; a
    change counts from `min_delta` on. Raises GraphTypeError and GraphValueError for arguments that do not fit.
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
        """Whether one number is better than another by more than `min_delta`."""
        return value - self.min_delta > than if self.rises else value + self.min_delta < than

    def value(self, told: InternalCallbackParam) -> float | None:
        """The number of the epoch that has ended, its mean over all ranks; None, and a warning, where there is none.

        None without a warning after an epoch that no evaluation followed.
        """
        return mean_over_ranks(self._own_value(told))

    def _own_value(self, told: InternalCallbackParam) -> float | None:
        results = told.get("eval_results") or {}
        if self.monitor == "loss":
            return loss_of(told.get("net_outputs"))
        if self.monitor in results:
            return float(results[self.monitor])
        if results or told.get("eval_network") is None:
            known = ", ".join(map(repr, ["loss", *results]))
            warn(f"For {self.owner!r}, there is no {self.monitor!r} to monitor; those known are {known}.")
        return None


class EarlyStopping(Callback):
    """Stops training after `patience` epochs in which a number got no better.

    `monitor` is "loss", or in `Model.fit` "eval_loss" or the name of a metric; `mode` says whether it is to fall
    ("min"), to rise ("max") or what its name says ("auto": "acc" rises). A change below `min_delta` is none. With
    `baseline`, an epoch only counts as better if it is better than that, too. With `restore_best_weights`, every
    state of the train network gets the value that it had after the best epoch, where training is stopped. `verbose`
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
        self,
        monitor: str = "eval_loss",
        min_delta: float = 0,
        patience: int = 0,
        verbose: bool = False,
        mode: str = "auto",
        baseline: float | None = None,
        restore_best_weights: bool = False,
    ) -> None:
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
        """Compare, and stop where it is time."""
        told = run_context.original_args()
        value = self.monitored.value(told)
        if value is None:
            return
        self.wait += 1
        if self.monitored.is_better(value, self.best):
            self._keep(value, told)
        if self.wait >= self.patience and self.wait:
            self.stopped_epoch = told.cur_epoch_num
            run_context.request_stop()
            self._restore()

    def _keep(self, value: float, told: InternalCallbackParam) -> None:
        self.best, self.best_epoch = value, told.cur_epoch_num
        if self.restore_best_weights:
            self.best_weights = {p: p.asnumpy() for p in told.train_network.get_parameters()}
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
        """Print where it was stopped."""
        if self.stopped_epoch and self.verbose:
            print(f"Epoch {self.stopped_epoch:05d}: early stopping", flush=True)
