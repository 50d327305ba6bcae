"""Showing how far training is."""

from __future__ import annotations

import sys
import time
from typing import Any

from graphls.base.reporting import load_package
from graphls.distributed.world import world
from graphls.frontend.tensors.tensor import Tensor
from graphls.train.callbacks.callback import Callback, InternalCallbackParam, RunContext, is_flag, loss_of

REFRESH_SECONDS = 0.1


class Progress(Callback):
    """Shows how far training is: a bar with the loss on a terminal, and a line after each epoch, which stays.

    The line tells the loss of the last step, how many steps were skipped because of an overflow (not in sink mode,
    where callbacks see no single step), and in `Model.fit` what an evaluation gave. The loss is read ten times a second
    at most, and only for a bar. Of several ranks, the first shows it. `file` is where to write, by default the standard
    output. Raises GraphRuntimeError on a terminal where rich is not installed.

    Examples:
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import Model, Progress
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1, weight_init="zeros", bias_init="zeros")
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.125)).train(2, rows, callbacks=[Progress()])
        epoch 1/2: 2 steps in ... s, loss 0.25
        epoch 2/2: 2 steps in ... s, loss 0.01562
    """

    def __init__(self, file: Any = None) -> None:
        self.file = file
        self._bar: _Bar | None = None
        self._last_epoch = 0
        self._begin = 0.0
        self._first_step = 0
        self._flags: list[Tensor] = []

    def __enter__(self) -> Progress:
        file = self.file or sys.stdout
        self._bar = _Bar(file) if file.isatty() and world().rank == 0 else None
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def on_train_begin(self, run_context: RunContext) -> None:
        """Forget an earlier run."""
        self._last_epoch = 0

    def on_train_epoch_begin(self, run_context: RunContext) -> None:
        """Begin a bar."""
        told = run_context.original_args()
        self._last_epoch = self._last_epoch or told.cur_epoch_num - 1 + told.epoch_num
        self._begin = time.perf_counter()
        self._first_step = told.cur_step_num
        self._flags = []
        if self._bar is not None:
            self._bar.begin(self._title(told), told.cur_step_num % told.batch_num, told.batch_num)

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Advance the bar."""
        told = run_context.original_args()
        if not told.dataset_sink_mode and isinstance(told.net_outputs, tuple) and len(told.net_outputs) > 2:
            self._flags += [flag for flag in told.net_outputs[1:2] if is_flag(flag)]
        if self._bar is not None:
            self._bar.advance((told.cur_step_num - 1) % told.batch_num + 1, told.net_outputs)

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Write the line of the epoch."""
        told = run_context.original_args()
        steps, seconds = told.cur_step_num - self._first_step, time.perf_counter() - self._begin
        parts = [f"{self._title(told)}: {steps} steps in {seconds:.1f} s"]
        loss = loss_of(told.net_outputs)
        parts += [] if loss is None else [f"loss {loss:.4g}"]
        skipped = sum(bool(flag.asnumpy().any()) for flag in self._flags)
        parts += [f"{skipped} skipped"] if skipped else []
        parts += [f"{name} {_short(value)}" for name, value in (told.get("eval_results") or {}).items()]
        if self._bar is not None:
            self._bar.close()
        if world().rank == 0:
            print(", ".join(parts), file=self.file or sys.stdout, flush=True)

    def _title(self, told: InternalCallbackParam) -> str:
        return f"epoch {told.cur_epoch_num}/{self._last_epoch}"


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
        """Show a bar of so many steps."""
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"),
            TimeElapsedColumn(),
        )  # fmt: skip
        self.close()
        self.progress = Progress(*columns, console=self.console, transient=True)
        self.progress.start()
        self.task = self.progress.add_task(title, total=steps, completed=done, loss="")
        self.due = 0.0

    def advance(self, done: int, outputs: object) -> None:
        """Show that so many steps are done, unless that was shown just now."""
        now = time.monotonic()
        if now >= self.due:
            self.due = now + REFRESH_SECONDS
            loss = loss_of(outputs)
            shown = "" if loss is None else f"loss {loss:.4g}"
            self.progress.update(self.task, completed=done, loss=shown)

    def close(self) -> None:
        """Remove the bar."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None
