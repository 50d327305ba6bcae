"""Printing how long epochs and steps take."""

from __future__ import annotations

import time

from graphls.base.checks import boolean, positive_int
from graphls.train.callbacks.callback import Callback, InternalCallbackParam, RunContext


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
