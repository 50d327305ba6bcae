"""The loops over epochs and steps, with their hooks, and the runner that executes the steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, islice
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from graphls.base.errors import GraphlsError, GraphRuntimeError, GraphValueError
from graphls.base.reporting import warn
from graphls.base.sharing.locks import COMPILING
from graphls.base.sharing.storage import Version
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Tensor
from graphls.nn.amp.managers import MOST_OVERFLOWS, LossScaleManager
from graphls.nn.cell import Cell
from graphls.nn.optimizers.base import Optimizer
from graphls.nn.train_step import TrainOneStepWithLossScaleCell
from graphls.nn.train_step_updates import AccumulatedGradients
from graphls.step.calling.cache import CompileCache, cache_of
from graphls.step.repeated import RepeatedStep, host_random_nodes
from graphls.step.step import Compiled
from graphls.train.callbacks.callback import CallbackManager, InternalCallbackParam, RunContext, is_flag
from graphls.train.feeding import NO_DATA, Feed, Row, tensors_of


class OverflowWatch:
    """Raises GraphRuntimeError at the 1001st step in a row that was skipped because of an overflow.

    Flags are kept unread until as many have come as can make it that far, so that no step waits to be looked at.
    """

    def __init__(self) -> None:
        self.flags: deque[Tensor] = deque()
        self.count = 0

    def after_steps(self, overflow: Tensor, explain: Callable[[], object]) -> None:
        """Take note of the flag of a step, or the flags of several; `explain()` says what overflows."""
        self.flags.append(overflow)
        self.count += overflow.size
        if self.count > MOST_OVERFLOWS:
            self._look()
        if self.count > MOST_OVERFLOWS:
            raise GraphRuntimeError(
                f"Dynamic loss scale Continuous overflow {self.count} times, has exceeded maximum threshold. "
                f"{explain()}",
            )

    def _look(self) -> None:
        """Keep the flags since the last step that was not skipped."""
        kept: deque[Tensor] = deque()
        self.count = 0
        while self.flags:
            flags = self.flags.pop().asnumpy().reshape(-1)
            skipped = len(flags) if flags.all() else int(np.argmin(flags[::-1]))
            if skipped:
                kept.appendleft(Tensor(flags[len(flags) - skipped :]))
            self.count += skipped
            if skipped < len(flags):
                break
        self.flags = kept


MOST_STEPS = 256
MOST_BYTES = 2**26
MOST_LENGTHS = 4


class ModeSwitch:
    """Keeps a network in training or in evaluation.

    It is switched as a whole where it or, inside of it, `backbone` is in the other mode; cells deeper inside that a
    user has frozen stay so.
    """

    def __init__(self, network: Cell, training: bool, backbone: Cell) -> None:
        self.network = network
        self.training = training
        self.watched = [cell for _, cell in network.cells_and_names() if cell is network or cell is backbone]

    def set(self) -> None:
        """Switch the network, unless it is as it should be."""
        if any(cell.training is not self.training for cell in self.watched):
            self.network.set_train(self.training)

    def find(self, cache: CompileCache, inputs: Sequence[object]) -> Compiled:
        """The step in a cache for some inputs and this mode; no other thread switches the network meanwhile."""
        with COMPILING.lock:
            self.set()
            return cache.find(*inputs)


class TrainRunner:
    """The compiled steps of a train network.

    A step is compiled once for each signature of a row, and once more for each number of steps that run in one call, of
    which there are at most four.
    """

    def __init__(self, network: Cell, backbone: Cell, engine: str | None = None) -> None:
        self.network = network
        self.mode = ModeSwitch(network, True, backbone)
        self.cache = cache_of(network, engine)
        self.repeated: WeakKeyDictionary[Compiled, dict[int, RepeatedStep | None]] = WeakKeyDictionary()
        optimizer = getattr(network, "optimizer", None)
        self.optimizer = optimizer if isinstance(optimizer, Optimizer) else None
        self.skips = isinstance(network, TrainOneStepWithLossScaleCell)
        self.watch = OverflowWatch()
        self._progress = 0, Version(), 0, 1

    def __getstate__(self) -> dict[str, Any]:
        """What a copy takes over: everything but steps and how far they are."""
        return {**self.__dict__, "repeated": None, "_progress": None}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        self.repeated, self._progress = WeakKeyDictionary(), (0, Version(), 0, 1)

    def completed(self) -> int:
        """How many steps are complete, also where a Ctrl-C has come between a step and whoever counts."""
        before, version, start, count = self._progress
        return before + (version.ticks - start) * count

    def _follow(self, version: Version, count: int) -> None:
        """Count by the version of the session that runs next, a call of which is so many steps."""
        self._progress = self.completed(), version, version.ticks, count

    def find(self, row: Row) -> Compiled:
        """The step for a row, compiled where there is none yet."""
        return self.mode.find(self.cache, row)

    def has_updated(self) -> bool:
        """Whether the last step was one that updates, and not one that accumulates gradients for a later one."""
        accumulation = getattr(self.network, "accumulation", None)
        return not isinstance(accumulation, AccumulatedGradients) or not int(accumulation.accumulation_step.asnumpy())

    def run(self, row: Row) -> Any:
        """One step; what it returns is not read."""
        step = self.find(row)
        if self.optimizer is not None:
            self.optimizer.warn_after_schedule()
        self._follow(step.version, 1)
        outputs = step(*row)
        self._watch(row, outputs)
        return outputs

    def run_through(self, rows: Iterator[Row], total: int) -> Iterator[tuple[int, Any]]:
        """A step for each row, many in one call: for each call the number of its steps and what the last one returned.

        `total` is the expected number of rows, which says how to divide them.
        """
        first = next(rows, None)
        if first is None:
            return
        rows = chain([first], rows)
        count = steps_in_a_call(self.find(first), total)
        while chunk := list(islice(rows, count)):
            for _, group in groupby(chunk, _signature):
                alike = list(group)
                yield len(alike), self._run_alike(alike)

    def _run_alike(self, rows: Sequence[Row]) -> Any:
        many = self._repeated(self.find(rows[0]), len(rows))
        if many is None:
            return [self.run(row) for row in rows][-1]
        if self.optimizer is not None:
            for _ in rows:
                self.optimizer.warn_after_schedule()
        self._follow(many.version, many.count)
        outputs = many(*(np.stack(column) for column in zip(*rows, strict=True)))
        self._watch(rows[-1], outputs)
        return map_leaves(lambda leaf: leaf[-1] if isinstance(leaf, Tensor) else leaf, outputs)

    def _repeated(self, step: Compiled, count: int) -> RepeatedStep | None:
        """So many of a step as one; None for one by one, which a warning explains where they cannot run in one call."""
        lengths = self.repeated.setdefault(step, {})
        if count not in lengths and count > 1 and len(lengths) < MOST_LENGTHS:
            try:
                lengths[count] = step.repeated(count)
            except GraphlsError as error:
                warn(f"The steps of dataset_sink_mode run one by one. {error}")
                lengths[count] = None
        return lengths.get(count)

    def _watch(self, row: Row, outputs: object) -> None:
        if self.skips and isinstance(outputs, tuple) and len(outputs) > 1 and is_flag(outputs[1]):
            self.watch.after_steps(outputs[1], lambda: self.find(row).explain_overflow(*row).summary)


def steps_in_a_call(step: Compiled, total: int) -> int:
    """How many of `total` steps run in one call: at most 256, with 64 MiB of inputs, random arrays and outputs."""
    values = (*step.graph.inputs, *step.graph.outputs, *(node.output for node in host_random_nodes(step.graph)))
    size = sum(value.type.nbytes for value in values)
    most = max(1, min(MOST_STEPS, MOST_BYTES // max(size, 1)))
    return -(-total // -(-total // most))


def _signature(row: Row) -> Any:
    return [(array.dtype, array.shape) for array in row]


@dataclass(eq=False, repr=False)
class Training:
    """One run of `Model.train`: epochs of steps, with the hooks around each.

    `told` is what callbacks are told, `manager` a loss-scale manager to be told of each step, and `after_epoch` what is
    done before the hooks of an epoch's end.
    """

    runner: TrainRunner
    callbacks: CallbackManager
    told: InternalCallbackParam
    manager: LossScaleManager | None
    after_epoch: Callable[[Training], None]

    def __post_init__(self) -> None:
        self.context = RunContext(self.told)

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
