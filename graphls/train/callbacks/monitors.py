"""Callbacks that print the loss and the time of steps and epochs."""

from __future__ import annotations

import math
import time
from typing import Any

from graphls.base.checks import boolean, not_negative_int, positive_int
from graphls.base.errors import GraphValueError
from graphls.distributed.world import world
from graphls.frontend.tensors.tensor import Tensor
from graphls.train.callbacks.callback import (
    Callback,
    InternalCallbackParam,
    RunContext,
    first_output,
    loss_of,
    was_skipped,
)


class LossMonitor(Callback):
    """Prints the loss every `per_print_times` steps, and after an evaluation in `Model.fit` its metrics.

    0 prints no loss. A step that returns a tuple has its loss first, and its line shows the digits of the loss's
    dtype; that of a step that returns the loss alone shows the mean as a Python float. Of several ranks, each prints
    its own, or with `rank` that one alone. Each step, printed or not, raises GraphValueError where the loss is infinite
    or nan, unless the step was skipped because of an overflow. Raises GraphTypeError and GraphValueError for
    `per_print_times` and a `rank` that are no integers of 0 or more.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import LossMonitor, Model
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1, weight_init="zeros", bias_init="zeros")
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.125)).train(1, rows, callbacks=[LossMonitor()])
        epoch: 1 step: 1, loss is 1.0
        epoch: 1 step: 2, loss is 0.25
    """

    def __init__(self, per_print_times: int = 1, rank: int | None = None) -> None:
        self._per_print_times = not_negative_int("LossMonitor", "per_print_times", per_print_times)
        self._rank = None if rank is None else not_negative_int("LossMonitor", "rank", rank)
        self._last_print_time = 0

    def on_train_begin(self, run_context: RunContext) -> None:
        """Count from the step that training begins with."""
        self._last_print_time = run_context.original_args().get("cur_step_num", 0)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Print, and raise where the loss is no number."""
        told = run_context.original_args()
        epoch, step = told.get("cur_epoch_num", 1), (told.cur_step_num - 1) % told.batch_num + 1
        loss = loss_of(told.net_outputs)
        if loss is not None and not math.isfinite(loss) and not was_skipped(told.net_outputs):
            raise GraphValueError(
                f"In epoch: {epoch} step: {step}, loss is NAN or INF, training process cannot continue, "
                "terminating training.",
            )
        if self._per_print_times and told.cur_step_num - self._last_print_time >= self._per_print_times:
            self._last_print_time = told.cur_step_num
            self._print(f"epoch: {epoch} step: {step}, loss is {_shown(told.net_outputs, loss)}")

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Print the metrics of an evaluation in this epoch."""
        told = run_context.original_args()
        if told.get("metrics"):
            self._print(f"Eval result: epoch {told.cur_epoch_num}, metrics: {told.metrics}")

    def _print(self, line: str) -> None:
        if self._rank in (None, world().rank):
            print(line, flush=True)


def _shown(outputs: object, loss: float | None) -> Any:
    first = first_output(outputs)
    if isinstance(outputs, (tuple, list)) and isinstance(first, Tensor) and first.size == 1:
        return str(first.asnumpy().reshape(()))
    return first if loss is None else loss


class TimeMonitor(Callback):
    """Prints after each epoch, of training or evaluation, its time and that of a step in milliseconds.

    The steps of an epoch are those that were run or, where the run does not say, `data_size`. An evaluation in
    `Model.fit` has a line of its own and is no part of the time of the epoch. With `data_time`, the line also tells
    the mean time that a step waited for its data. Raises GraphTypeError and GraphValueError for a `data_size` that
    is no positive integer and a `data_time` that is no bool.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import Model, TimeMonitor
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1)
        >>> model = Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1))
        >>> model.train(1, rows, callbacks=[TimeMonitor()])
        Train epoch time: ... ms, per step time: ... ms
    """

    def __init__(self, data_size: int | None = None, data_time: bool = False) -> None:
        self.data_size = None if data_size is None else positive_int("TimeMonitor", "data_size", data_size)
        self.data_time = boolean("TimeMonitor", "data_time", data_time)
        self._clocks: list[_Clock] = []

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Start the clock."""
        self._clocks = [_Clock()]

    def on_eval_epoch_begin(self, run_context: RunContext) -> None:
        """Start a clock, while that of training stands still."""
        self._clocks.append(_Clock())

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Count what has passed since the last step as waiting for data."""
        self._clocks[-1].end_waiting()

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Begin to wait for the next data."""
        self._clocks[-1].begin_waiting()

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Print the times."""
        clock = self._clocks.pop()
        passed = clock.passed()
        for outer in self._clocks:
            outer.start += passed
        print(self._line(run_context.original_args(), passed * 1000, clock.waited * 1000), flush=True)

    on_eval_step_begin = on_train_step_begin
    on_eval_step_end = on_train_step_end
    on_eval_epoch_end = on_train_epoch_end

    def _line(self, told: InternalCallbackParam, milliseconds: float, waited: float) -> str:
        steps = positive_int("TimeMonitor", "data_size", told.get("batch_num") or self.data_size)
        text = f"{told.get('mode', '').title()} epoch time: {milliseconds:5.3f} ms, "
        text += f"per step time: {milliseconds / steps:5.3f} ms"
        return text + (f", data time: {waited / steps:5.3f} ms" if self.data_time else "")


class _Clock:
    """The time since its start, in seconds, and how much of it went by with waiting."""

    def __init__(self) -> None:
        self.start = self.mark = time.perf_counter()
        self.waited = 0.0

    def passed(self) -> float:
        return time.perf_counter() - self.start

    def begin_waiting(self) -> None:
        self.mark = time.perf_counter()

    def end_waiting(self) -> None:
        self.waited += time.perf_counter() - self.mark
