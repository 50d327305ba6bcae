"""Changing the learning rate while training goes on."""

from __future__ import annotations

import math
from collections.abc import Callable

from graphls.base.checks import boolean, fraction, not_negative, not_negative_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.train.callbacks.callback import Callback, InternalCallbackParam, RunContext, learning_rate_of
from graphls.train.callbacks.early_stopping import Monitored


class LearningRateScheduler(Callback):
    """Sets the learning rate after each step to `learning_rate_function(learning rate, cur_step_num)`.

    It holds from the next step on, which is not compiled again. In sink mode this happens after the steps that run in
    one go. Raises GraphTypeError for what cannot be called and, in training, GraphValueError where the learning rate is
    a list, a schedule or one for each group of parameters.

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
        """Ask for the rate and set it."""
        told = run_context.original_args()
        parameter = rate_parameter(type(self).__name__, told)
        before = rate_of(parameter)
        after = self.learning_rate_function(before, told.cur_step_num)
        if not math.isclose(before, after, rel_tol=1e-10):
            parameter.set_data(Tensor(after, parameter.dtype))


class ReduceLROnPlateau(Callback):
    """Multiplies the learning rate by `factor` after `patience` epochs in which a number got no better.

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
        self,
        monitor: str = "eval_loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: bool = False,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
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
        """Forget an earlier run."""
        self._begin()

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Compare, and reduce where it is time."""
        told = run_context.original_args()
        value = self.monitored.value(told)
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
                self._reduce(told)

    def _reduce(self, told: InternalCallbackParam) -> None:
        parameter = rate_parameter(type(self).__name__, told)
        before = rate_of(parameter)
        if before <= self.min_lr:
            return
        after = max(before * self.factor, self.min_lr)
        parameter.set_data(Tensor(after, parameter.dtype))
        self.cooldown_counter, self.wait = self.cooldown, 0
        if self.verbose:
            text = f"Epoch {told.cur_epoch_num:05d}: ReduceLROnPlateau reducing learning rate to {after}."
            print(text, flush=True)


def rate_parameter(owner: str, told: InternalCallbackParam) -> Parameter:
    """The learning rate of the optimizer of a run; raises GraphValueError where it is not one number."""
    rate = learning_rate_of(told)
    if not isinstance(rate, Parameter):
        text = f"{owner} changes one learning rate that is a number, and that of this run is {rate!r}."
        raise GraphValueError(text)
    return rate


def rate_of(parameter: Parameter) -> float:
    """A learning rate as the shortest decimal number that its dtype takes for it: 0.1, not 0.10000000149."""
    return float(str(parameter.asnumpy().reshape(())))
