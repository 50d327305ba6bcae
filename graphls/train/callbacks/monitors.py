"""Callbacks that print the loss, the time of steps and epochs, and the progress of training."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Any

from graphls.base.checks import boolean, not_negative_int, positive_int
from graphls.base.errors import GraphValueError
from graphls.base.reporting import load_package
from graphls.distributed.world import world
from graphls.frontend.tensors.tensor import Tensor
from graphls.train.callbacks import callback
from graphls.train.callbacks.callback import Callback, InternalCallbackParam, RunContext
from graphls.train.flow import FlowCounts
from graphls.train.skips import SkippedSteps


class LossMonitor(Callback):
    """Prints the loss every `per_print_times` steps, and after an evaluation in `Model.fit` its metrics.

    0 prints no loss. A step that returns a tuple has its loss first, and its line shows the digits of the loss's
    dtype; that of a step that returns the loss alone shows the mean as a Python float. Of several ranks, each prints
    its own, or with `rank` that one alone. Each step, printed or not, raises GraphValueError where the loss is infinite
    or nan, unless the step was skipped because of an overflow. Raises GraphTypeError and GraphValueError for
    `per_print_times` and a `rank` that are not integers of 0 or more.

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
        """Print, and raise where the loss is not finite."""
        state = run_context.original_args()
        epoch, step = state.get("cur_epoch_num", 1), (state.cur_step_num - 1) % state.batch_num + 1
        loss = callback.loss_of(state.net_outputs)
        if loss is not None and not math.isfinite(loss) and not callback.was_skipped(state.net_outputs):
            raise GraphValueError(
                f"In epoch: {epoch} step: {step}, loss is NAN or INF, training process cannot continue, "
                "terminating training.",
            )
        if self._per_print_times and state.cur_step_num - self._last_print_time >= self._per_print_times:
            self._last_print_time = state.cur_step_num
            self._print(f"epoch: {epoch} step: {step}, loss is {_shown(state.net_outputs, loss)}")

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Print the metrics of an evaluation in this epoch."""
        state = run_context.original_args()
        if state.get("metrics"):
            self._print(f"Eval result: epoch {state.cur_epoch_num}, metrics: {state.metrics}")

    def _print(self, line: str) -> None:
        if self._rank in (None, world().rank):
            print(line, flush=True)


def _shown(outputs: object, loss: float | None) -> Any:
    first = callback.first_output(outputs)
    if isinstance(outputs, (tuple, list)) and isinstance(first, Tensor) and first.size == 1:
        return str(first.asnumpy().reshape(()))
    return first if loss is None else loss


class TimeMonitor(Callback):
    """Prints after each epoch, of training or evaluation, its time and that of a step in milliseconds.

    The number of steps in an epoch is that of the run or, where it is unknown, `data_size`. An evaluation in
    `Model.fit` has a line of its own and is not counted in the time of the epoch. With `data_time`, the line also shows
    the mean time that a step waited for its data. Raises GraphTypeError and GraphValueError for a `data_size` that
    is not a positive integer and a `data_time` that is not a bool.

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
        """Start a clock, while that of training is paused."""
        self._clocks.append(_Clock())

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Count the time since the last step as waiting for data."""
        self._clocks[-1].end_waiting()

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Start waiting for the next data."""
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

    def _line(self, state: InternalCallbackParam, milliseconds: float, waited: float) -> str:
        steps = positive_int("TimeMonitor", "data_size", state.get("batch_num") or self.data_size)
        text = f"{state.get('mode', '').title()} epoch time: {milliseconds:5.3f} ms, "
        text += f"per step time: {milliseconds / steps:5.3f} ms"
        return text + (f", data time: {waited / steps:5.3f} ms" if self.data_time else "")


class _Clock:
    """The time since its start, in seconds, and the part of it spent waiting."""

    def __init__(self) -> None:
        self.start = self.mark = time.perf_counter()
        self.waited = 0.0

    def passed(self) -> float:
        return time.perf_counter() - self.start

    def begin_waiting(self) -> None:
        self.mark = time.perf_counter()

    def end_waiting(self) -> None:
        self.waited += time.perf_counter() - self.mark


REFRESH_SECONDS = 0.1


class Progress(Callback):
    """Shows the progress of training: a bar with the loss on a terminal, and a line after each epoch, which stays.

    Both have the rows per second and what waits for what: the share of the time in which steps waited for data, or
    data, read ahead, for steps, whichever is larger. The line has the loss of the last step, the number of steps
    skipped because of an overflow (not in sink mode, where callbacks see no single step) with, where most were, the
    scale to begin with, and in `Model.fit` the results of an evaluation. The loss is read ten times a second at most,
    and only for a bar. Of several ranks, the first shows it. `file` is where to write, by default the standard output.
    Raises GraphRuntimeError on a terminal where rich is not installed.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import Model, Progress
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1, weight_init="zeros", bias_init="zeros")
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.125)).train(2, rows, callbacks=[Progress()])
        epoch 1/2: 2 steps in ... s (... rows/s, ... wait ...), loss 0.25
        epoch 2/2: 2 steps in ... s (... rows/s, ... wait ...), loss 0.01562
    """

    _reports_overflows = True

    def __init__(self, file: Any = None) -> None:
        self.file = file
        self._bar: _Bar | None = None
        self._last_epoch = 0
        self._begin = self._until = 0.0
        self._flow = FlowCounts()
        self._first_step = 0
        self._outcomes: list[Sequence[Tensor]] = []
        self._scale: float | None = None

    def __enter__(self) -> Progress:
        file = self.file or sys.stdout
        self._bar = _Bar(file) if file.isatty() and world().rank == 0 else None
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def on_train_begin(self, run_context: RunContext) -> None:
        """Forget an earlier run."""
        self._last_epoch, self._scale = 0, None

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Begin a bar."""
        state = run_context.original_args()
        self._last_epoch = self._last_epoch or state.cur_epoch_num - 1 + state.epoch_num
        self._begin = self._until = time.perf_counter()
        self._flow = state.data_flow() if "data_flow" in state else FlowCounts()
        self._first_step = state.cur_step_num
        self._outcomes = []
        if self._bar is not None:
            self._bar.begin(self._title(state), state.cur_step_num % state.batch_num, state.batch_num)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Advance the bar."""
        state = run_context.original_args()
        if not state.dataset_sink_mode and isinstance(state.net_outputs, tuple) and len(state.net_outputs) > 2:
            self._outcomes += [state.net_outputs[1:3]] if callback.is_flag(state.net_outputs[1]) else []
        self._until = time.perf_counter()
        if self._bar is not None and self._bar.is_due():
            loss = callback.loss_of(state.net_outputs)
            shown = ([] if loss is None else [f"loss {loss:.4g}"]) + self._speed(state, True)
            self._bar.show((state.cur_step_num - 1) % state.batch_num + 1, ", ".join(shown))

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Write the line of the epoch."""
        state = run_context.original_args()
        steps, seconds = state.cur_step_num - self._first_step, time.perf_counter() - self._begin
        speed = "".join(f" ({text})" for text in self._speed(state))
        parts = [f"{self._title(state)}: {steps} steps in {seconds:.1f} s{speed}"]
        loss = callback.loss_of(state.net_outputs)
        parts += [] if loss is None else [f"loss {loss:.4g}"]
        parts += self._skipped()
        parts += [f"{name} {_short(value)}" for name, value in (state.get("eval_results") or {}).items()]
        if self._bar is not None:
            self._bar.close()
        if world().rank == 0:
            print(", ".join(parts), file=self.file or sys.stdout, flush=True)

    def _speed(self, state: InternalCallbackParam, is_short: bool = False) -> list[str]:
        """The rows per second and what waits for what, up to the last step of the epoch."""
        if "data_flow" not in state:
            return []
        return [state.data_flow().since(self._flow).text(self._until - self._begin, is_short)]

    def _skipped(self) -> list[str]:
        """The number of skipped steps of the epoch, and the scale to begin with where they are most of it.

        A few at the start of a dynamic scale are its search.
        """
        counts = SkippedSteps(self._scale)
        for flag, scale in self._outcomes:
            counts.after(bool(flag.asnumpy().any()), float(scale.asnumpy().reshape(-1)[-1]))
        parts = [f"{counts.skipped} skipped"] if counts.skipped else []
        self._scale = counts.scale
        return [*parts, advice] if not counts.is_start and (advice := counts.advice()) else parts

    def _title(self, state: InternalCallbackParam) -> str:
        return f"epoch {state.cur_epoch_num}/{self._last_epoch}"


def _short(value: Any) -> str:
    try:
        return f"{float(value):.4g}"
    except (TypeError, ValueError):
        return str(value)


class _Bar:
    """A bar of rich for one epoch at a time."""

    def __init__(self, file: Any) -> None:
        rich = load_package("rich.console", "A bar on a terminal needs rich, which", 'pip install "graphls[train]"')
        self.console = rich.Console(file=file)
        self.progress: Any = None
        self.due = 0.0

    def begin(self, title: str, done: int, steps: int) -> None:
        """Show a bar of `steps` steps."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[shown]}"),
            TimeElapsedColumn(),
        )  # fmt: skip
        self.close()
        self.progress = Progress(*columns, console=self.console, transient=True)
        self.progress.start()
        self.task = self.progress.add_task(title, total=steps, completed=done, shown="")
        self.due = 0.0

    def is_due(self) -> bool:
        """Whether the bar has been as it is for so long that it may change."""
        return time.monotonic() >= self.due

    def show(self, done: int, text: str) -> None:
        """Show the number of completed steps, and a text beside it."""
        self.due = time.monotonic() + REFRESH_SECONDS
        self.progress.update(self.task, completed=done, shown=text)

    def close(self) -> None:
        """Remove the bar."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
