"""Callbacks that schedule or reduce the learning rate during training, and the search for one before it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.checks import between, boolean, fraction, not_negative, not_negative_int, positive, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.files.files import as_path, write_text
from graphls.base.reporting import warn
from graphls.base.text.charts import Line, chart, number
from graphls.base.text.colours import both
from graphls.base.text.html import STYLE, escape
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.train.callbacks import callback
from graphls.train.callbacks.callback import Callback, InternalCallbackParam, RunContext
from graphls.train.callbacks.stopping import Monitored


class LearningRateScheduler(Callback):
    """Sets the learning rate after each step to `learning_rate_function(learning rate, cur_step_num)`.

    It holds from the next step on, which is not compiled again. In sink mode this happens after the steps that run in
    one call. Raises GraphTypeError for anything but a function and, in training, GraphValueError where the learning
    rate is a list, a schedule or one for each group of parameters.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import LearningRateScheduler, Model
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1)
        >>> optimizer = nn.SGD(net.trainable_params(), 0.1)
        >>> halve = LearningRateScheduler(lambda rate, step: rate / 2)
        >>> Model(net, nn.MSELoss(), optimizer).train(1, rows, callbacks=[halve])
        >>> round(float(optimizer.get_lr()), 4)
        0.025
    """

    def __init__(self, learning_rate_function: Callable[[float, int], float]) -> None:
        if not callable(learning_rate_function):
            text = f"The 'learning_rate_function' must be a function, but got {learning_rate_function!r}."
            raise GraphTypeError(text)
        self.learning_rate_function = learning_rate_function

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Compute the rate and set it."""
        state = run_context.original_args()
        parameter = rate_parameter(type(self).__name__, state)
        before = rate_of(parameter)
        after = self.learning_rate_function(before, state.cur_step_num)
        if not math.isclose(before, after, rel_tol=1e-10):
            parameter.set_data(Tensor(after, parameter.dtype))


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by `factor` after `patience` epochs without an improvement of a number.

    `monitor`, `mode` and `min_delta` are as those of EarlyStopping. After a reduction, `cooldown` epochs do not count.
    The rate does not fall below `min_lr`. `verbose` prints each reduction. Raises GraphTypeError and GraphValueError
    for arguments that do not fit and, in training, GraphValueError where the learning rate is a list, a schedule or
    one for each group of parameters.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import Model, ReduceLROnPlateau
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1, weight_init="ones", bias_init="zeros")
        >>> optimizer = nn.SGD(net.trainable_params(), 0.5)
        >>> calm = ReduceLROnPlateau("loss", factor=0.5, patience=1)  # the loss is 0 from the start
        >>> Model(net, nn.MSELoss(), optimizer).train(3, rows, callbacks=[calm])
        >>> float(optimizer.get_lr())
        0.125
    """

    def __init__(
        self, monitor: str = "eval_loss", factor: float = 0.1, patience: int = 10, verbose: bool = False,
        mode: str = "auto", min_delta: float = 1e-4, cooldown: int = 0, min_lr: float = 0,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.monitored = Monitored(name, monitor, mode, min_delta)
        self.factor = fraction(name, "factor", factor)
        self.patience = not_negative_int(name, "patience", patience)
        self.verbose = boolean(name, "verbose", verbose)
        self.cooldown = not_negative_int(name, "cooldown", cooldown)
        self.min_lr = not_negative(name, "min_lr", min_lr)
        self._begin()

    def _begin(self) -> None:
        self.wait = self.cooldown_counter = 0
        self.best = self.monitored.worst

    def on_train_begin(self, run_context: RunContext) -> None:
        """Reset the state of an earlier run."""
        self._begin()

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Compare the number, and reduce the rate if it is due."""
        state = run_context.original_args()
        value = self.monitored.value(state)
        if value is None:
            return
        if self.cooldown_counter:
            self.cooldown_counter -= 1
            self.wait = 0
        if self.monitored.is_better(value, self.best):
            self.best, self.wait = value, 0
        elif not self.cooldown_counter:
            self.wait += 1
            if self.wait >= self.patience:
                self._reduce(state)

    def _reduce(self, state: InternalCallbackParam) -> None:
        parameter = rate_parameter(type(self).__name__, state)
        before = rate_of(parameter)
        if before <= self.min_lr:
            return
        after = max(before * self.factor, self.min_lr)
        parameter.set_data(Tensor(after, parameter.dtype))
        self.cooldown_counter, self.wait = self.cooldown, 0
        if self.verbose:
            text = f"Epoch {state.cur_epoch_num:05d}: ReduceLROnPlateau reducing learning rate to {after}."
            print(text, flush=True)


def rate_parameter(owner: str, state: InternalCallbackParam) -> Parameter:
    """The learning rate of a run's optimizer; raises GraphValueError where it is not one number."""
    rate = callback.learning_rate_of(state)
    if not isinstance(rate, Parameter):
        text = f"{owner} changes one learning rate that is a number, and that of this run is {rate!r}."
        raise GraphValueError(text)
    return rate


def rate_of(parameter: Parameter) -> float:
    """A learning rate as the shortest decimal number of its dtype: 0.1, not 0.10000000149."""
    return float(str(parameter.asnumpy().reshape(())))


RAW, SMOOTH = both("wire"), both("accent")


class LearningRateFinder(Callback):
    """Trains for `steps` steps with rates from `lowest` to `highest`, in geometric steps, and restores all states.

    Every state of the train network, the learning rate too, is restored afterwards. The run is stopped after the last
    step, or where the loss is not finite or `limit` times the least one; it needs as many epochs as that takes.
    `rates` and `losses` are the tried rates and their losses, `smoothed` the losses averaged with a weight of
    `smoothing` on the past, and `suggestion` is the rate at which these fall fastest, None where they never do. A
    notebook shows the finder as a chart, and `write` writes it as a page. From Smith, "Cyclical Learning Rates" (2017).
    Raises GraphTypeError and GraphValueError for arguments that do not fit and, in training, GraphValueError in sink
    mode and where the learning rate is a list, a schedule or one for each group of parameters.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import LearningRateFinder, Model
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(64, 4)).astype(np.float32)
        >>> rows = ds.NumpySlicesDataset((x, x.sum(1, keepdims=True)), ["x", "y"]).batch(8)
        >>> net = nn.Dense(4, 1)
        >>> finder = LearningRateFinder(steps=20, verbose=False)
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(3, rows, callbacks=[finder])
        >>> len(finder.rates) > 10, 1e-7 < finder.suggestion < 1
        (True, True)
    """

    def __init__(
        self, lowest: float = 1e-7, highest: float = 1.0, steps: int = 100, smoothing: float = 0.9, limit: float = 4.0,
        verbose: bool = True,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.lowest, self.highest = positive(name, "lowest", lowest), positive(name, "highest", highest)
        if lowest >= highest:
            raise GraphValueError(f"For {name!r}, 'lowest' must be below 'highest', but they are {lowest}, {highest}.")
        self.steps = positive_int(name, "steps", steps)
        self.smoothing = between(0.0, 0.99)(name, "smoothing", smoothing)
        self.limit = between(1.0)(name, "limit", limit)
        self.verbose = boolean(name, "verbose", verbose)
        self._begin()

    def _begin(self) -> None:
        self.rates: list[float] = []
        self.losses: list[float] = []
        self.smoothed: list[float] = []
        self._tried = 0
        self._mean = 0.0
        self._saved: dict[Any, np.ndarray[Any, Any]] = {}

    def on_train_begin(self, run_context: RunContext) -> None:
        """Save every state, and set the lowest rate."""
        state = run_context.original_args()
        if state.dataset_sink_mode:
            raise GraphValueError("LearningRateFinder changes the rate after each step: give dataset_sink_mode=False.")
        rate = rate_parameter(type(self).__name__, state)
        self._begin()
        self._saved = {p: p.asnumpy() for p in (*state.train_network.get_parameters(), rate)}
        rate.set_data(Tensor(self.lowest, rate.dtype))

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Record the loss, and set the next rate."""
        state = run_context.original_args()
        loss = callback.loss_of(state.net_outputs)
        self._tried += 1
        if loss is not None and not callback.was_skipped(state.net_outputs):
            self._add(self._rate(self._tried - 1), loss)
        if self._tried >= self.steps or self._has_diverged():
            run_context.request_stop()
            return
        rate = rate_parameter(type(self).__name__, state)
        rate.set_data(Tensor(self._rate(self._tried), rate.dtype))

    def _rate(self, step: int) -> float:
        return float(self.lowest * (self.highest / self.lowest) ** (step / max(self.steps - 1, 1)))

    def _add(self, rate: float, loss: float) -> None:
        self.rates.append(rate)
        self.losses.append(loss)
        self._mean = self.smoothing * self._mean + (1 - self.smoothing) * loss
        self.smoothed.append(self._mean / (1 - self.smoothing ** len(self.losses)))

    def _has_diverged(self) -> bool:
        """Returns whether the last loss shows that higher rates are of no use."""
        if not self.losses:
            return False
        last, least = self.smoothed[-1], min(self.smoothed)
        return not math.isfinite(last) or (least > 0 and last > self.limit * least)

    def on_train_end(self, run_context: RunContext) -> None:
        """Print the result."""
        if self._tried < self.steps and not self._has_diverged():
            text = f"LearningRateFinder tried {self._tried} of {self.steps} rates; give the run more epochs."
            warn(text)
        if self.verbose:
            print(self.summary(), flush=True)

    def __exit__(self, *error: object) -> None:
        for parameter, array in self._saved.items():
            parameter.set_data(array)
        self._saved = {}

    @property
    def suggestion(self) -> float | None:
        """The rate at which the smoothed losses fall fastest, over the logarithm of the rate; None if they never do."""
        finite = [(r, loss) for r, loss in zip(self.rates, self.smoothed, strict=True) if math.isfinite(loss)]
        finite = finite[len(finite) // 10 :]  # the first averages are of few losses, and leap
        if len(finite) < 3:
            return None
        rates, losses = np.transpose(finite)
        slopes = np.gradient(losses, np.log(rates))
        steepest = int(np.argmin(slopes))
        return float(rates[steepest]) if slopes[steepest] < 0 else None

    def summary(self) -> str:
        """The result in a sentence."""
        rate = self.suggestion
        if rate is None:
            return f"Of {len(self.rates)} learning rates none lets the loss fall."
        return f"Of {len(self.rates)} learning rates, the loss falls fastest at {rate:.3g}."

    def _repr_html_(self) -> str:
        raw = Line("loss", [*zip(self.rates, self.losses, strict=True)], RAW)
        smooth = Line("smoothed", [*zip(self.rates, self.smoothed, strict=True)], SMOOTH)
        marks = [] if self.suggestion is None else [self.suggestion]
        title, names = "Loss over the learning rate", ("learning rate", "loss")
        drawn = chart(title, [raw, smooth], names=names, marks=marks, has_log_steps=True)
        return f'{STYLE}<figure class="graphls-card">{drawn}<figcaption>{escape(self.summary())}</figcaption></figure>'

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a page with the chart; raises GraphFileError where it cannot be written."""
        head = '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>Learning rates</title>'
        style = "<style>:root{color-scheme:light dark}body{font:14px system-ui,sans-serif;margin:2em}</style></head>"
        rows = "".join(
            f"<tr><td>{rate:.3g}</td><td>{number(loss)}</td></tr>"
            for rate, loss in zip(self.rates, self.losses, strict=True)
        )
        table = f"<details><summary>Numbers</summary><table><tr><th>rate<th>loss</tr>{rows}</table></details>"
        write_text(as_path(path), f"{head}{style}\n<body>\n{self._repr_html_()}\n{table}\n</body>\n</html>\n")
