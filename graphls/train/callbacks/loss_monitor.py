"""Printing the loss, and stopping where it is no number any more."""

from __future__ import annotations

import math
from typing import Any

from graphls.base.checks import not_negative_int
from graphls.base.errors import GraphValueError
from graphls.distributed.world import world
from graphls.frontend.tensors.tensor import Tensor
from graphls.train.callbacks.callback import Callback, RunContext
from graphls.train.callbacks.outputs import first_output, loss_of, was_skipped


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
