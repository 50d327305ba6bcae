"""The loops over epochs and steps, and the hooks on their way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.nn.amp.managers import LossScaleManager
from graphls.train.callbacks.callback import CallbackManager, InternalCallbackParam, RunContext
from graphls.train.feeding import NO_DATA, Feed, Row, tensors_of
from graphls.train.runner import TrainRunner


class Training:
    """One run of `Model.train`: epochs of steps, with the hooks around each.

    `told` is what callbacks are told, `manager` a loss-scale manager to be told of each step, and `after_epoch` what is
    done before the hooks of an epoch's end.
    """

    def __init__(
        self,
        runner: TrainRunner,
        callbacks: CallbackManager,
        told: InternalCallbackParam,
        manager: LossScaleManager | None,
        after_epoch: Callable[[Training], None],
    ) -> None:
        self.runner = runner
        self.callbacks = callbacks
        self.told = told
        self.context = RunContext(told)
        self.manager = manager
        self.after_epoch = after_epoch

    def run(self, epochs: range, feed: Feed, sink_size: int) -> None:
        """All epochs, step by step where `sink_size` is 0, else all steps of one (-1) or so many in one go."""
        self._count_completed()
        self.callbacks.on_train_begin(self.context)
        rows = feed.endless() if sink_size > 0 else None
        for epoch in epochs:
            self.told.update(cur_epoch_num=epoch + 1, eval_results={}, metrics={})
            self.callbacks.on_train_epoch_begin(self.context)
            if sink_size:
                self._sink(feed.epoch() if rows is None else islice(rows, self._rest()))
            else:
                self._step_by_step(feed)
            self.after_epoch(self)
            self.callbacks.on_train_epoch_end(self.context)
            if self.context.get_stop_requested():
                break
        self.callbacks.on_train_end(self.context)

    def _count_completed(self) -> None:
        """Tell callbacks how many steps are complete, which `cur_step_num` does not say while one runs."""
        before, completed = self.told.cur_step_num - self.runner.completed(), self.runner.completed
        self.told.completed_steps = lambda: before + completed()

    def _step_by_step(self, feed: Feed) -> None:
        told, callbacks, context = self.told, self.callbacks, self.context
        row = None
        for row in feed.epoch():
            told.cur_step_num += 1
            told.train_dataset_element = tensors_of(row)
            callbacks.on_train_step_begin(context)
            told.net_outputs = self.runner.run(row)
            if self.manager is not None and self.runner.has_updated():
                self.manager.update_loss_scale(bool(np.all(told.net_outputs[1].asnumpy())))
            callbacks.on_train_step_end(context)
            if context.get_stop_requested():
                break
        if row is None:
            raise GraphValueError(NO_DATA)

    def _sink(self, rows: Iterator[Row]) -> None:
        """All rows between the hooks of one step, in as few calls of the runtime as there can be."""
        told = self.told
        told.train_dataset_element = ()
        self.callbacks.on_train_step_begin(self.context)
        before = told.cur_step_num
        for count, told.net_outputs in self.runner.run_through(rows, self._rest()):
            told.cur_step_num += count
        if told.cur_step_num == before:
            raise GraphValueError(NO_DATA)
        self.callbacks.on_train_step_end(self.context)

    def _rest(self) -> int:
        """How many steps the epoch that is running still has."""
        return int(self.told.batch_num - self.told.cur_step_num % self.told.batch_num)
