"""The loops over epochs and steps, with their hooks, and the runner that executes the steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
from graphls.ir.graph import walk
from graphls.nn.cell import Cell
from graphls.nn.loss_scale import MOST_OVERFLOWS, LossScaleManager
from graphls.nn.optimizers.base import Optimizer
from graphls.nn.train_step import TrainOneStepWithLossScaleCell
from graphls.nn.train_step_updates import AccumulatedGradients
from graphls.runtime.context.device_layout import DeviceLayout
from graphls.step.calling.cache import CompileCache, cache_of
from graphls.step.repeated import RepeatedStep, host_random_nodes
from graphls.step.step import Compiled
from graphls.train.callbacks.callback import CallbackManager, InternalCallbackParam, RunContext, is_flag
from graphls.train.explanations import JointExplanations
from graphls.train.feeding import NO_DATA, Feed, tensors_of
from graphls.train.flow import Row
from graphls.train.skips import SkippedSteps


class OverflowWatch:
    """Raises GraphRuntimeError at the 1001st step in a row that was skipped because of an overflow.

    Flags stay unread until there are enough for that, so that no step waits for its flag to be read.
    """

    def __init__(self) -> None:
        self.flags: deque[Tensor] = deque()
        self.count = 0

    def after_steps(self, overflow: Tensor, explain: Callable[[], object]) -> None:
        """Record the flag of a step, or the flags of several; `explain()` names what overflows."""
        self.flags.append(overflow)
        self.count += overflow.size
        if self.count > MOST_OVERFLOWS:
            self._count_trailing()
        if self.count > MOST_OVERFLOWS:
            raise GraphRuntimeError(
                f"Dynamic loss scale Continuous overflow {self.count} times, has exceeded maximum threshold. "
                f"{explain()}",
            )

    def _count_trailing(self) -> None:
        """Retain and count the flags since the last step that was not skipped."""
        retained: deque[Tensor] = deque()
        self.count = 0
        while self.flags:
            flags = self.flags.pop().asnumpy().reshape(-1)
            skipped = len(flags) if flags.all() else int(np.argmin(flags[::-1]))
            if skipped:
                retained.appendleft(Tensor(flags[len(flags) - skipped :]))
            self.count += skipped
            if skipped < len(flags):
                break
        self.flags = retained


MOST_STEPS = 256
MOST_BYTES = 2**26
MOST_LENGTHS = 4


class Outcomes:
    """Whether the steps of a run were skipped, with the scale after each, read late so that no step waits for it."""

    def __init__(self, scale: float) -> None:
        self.counts = SkippedSteps(scale)
        self.unread: list[tuple[Tensor, Tensor]] = []

    @classmethod
    def of(cls, network: Cell) -> Outcomes | None:
        """Those of a network from its present scale on; None for one without loss scaling."""
        if not isinstance(network, TrainOneStepWithLossScaleCell):
            return None
        return cls(float(network.scale_sense.asnumpy().reshape(())))

    def add(self, overflow: Tensor, scale: Tensor) -> None:
        """Record the outcome of a step, or of several."""
        self.unread.append((overflow, scale))
        if len(self.unread) > MOST_OVERFLOWS:
            self.read()

    def read(self) -> SkippedSteps:
        """The counts of all steps so far."""
        unread, self.unread = self.unread, []
        for flags, scales in unread:
            count = flags.size
            after = np.broadcast_to(scales.asnumpy().reshape(-1), count)
            for flag, scale in zip(flags.asnumpy().reshape(-1), after, strict=True):
                self.counts.after(bool(flag), float(scale))
        return self.counts

    def warn_of_most(self, setting: str) -> None:
        """Warn where most steps were skipped, with the scale to begin with."""
        counts = self.read()
        if advice := counts.advice(setting):
            warn(f"{counts.skipped} of {counts.steps} steps overflowed and were skipped; {advice}.")


class ModeSwitch:
    """Keeps a network in training or in evaluation mode.

    All of it is switched where the network or its `backbone` is in the other mode; otherwise inner cells that a user
    has frozen stay so.
    """

    def __init__(self, network: Cell, training: bool, backbone: Cell) -> None:
        self.network = network
        self.training = training
        self.watched = [cell for _, cell in network.cells_and_names() if cell is network or cell is backbone]

    def set(self) -> None:
        """Switch the network, unless it is in the mode already."""
        if any(cell.training is not self.training for cell in self.watched):
            self.network.set_train(self.training)

    def find(self, cache: CompileCache, inputs: Sequence[object]) -> Compiled:
        """The step in a cache for some inputs and this mode; no other thread switches the network meanwhile."""
        with COMPILING.lock:
            self.set()
            return cache.find(*inputs)


class TrainRunner:
    """The compiled steps of a train network.

    A step is compiled once for each signature of a row, and once more for each number of steps that run in one call, at
    most four numbers.
    """

    def __init__(
        self, network: Cell, backbone: Cell, engine: str | None = None, layout: DeviceLayout | None = None
    ) -> None:
        self.network = network
        self.mode = ModeSwitch(network, True, backbone)
        self.cache = cache_of(network, engine, layout)
        self.repeated: WeakKeyDictionary[Compiled, dict[int, RepeatedStep | None]] = WeakKeyDictionary()
        optimizer = getattr(network, "optimizer", None)
        self.optimizer = optimizer if isinstance(optimizer, Optimizer) else None
        self.skips = isinstance(network, TrainOneStepWithLossScaleCell)
        self.watch = OverflowWatch()
        self.outcomes: Outcomes | None = None
        self._progress = 0, Version(), 0, 1
        self._last: Row | None = None

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy: everything but compiled steps and their progress."""
        return {**self.__dict__, "repeated": None, "_progress": None, "_last": None}

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state)
        self.repeated, self._progress = WeakKeyDictionary(), (0, Version(), 0, 1)

    def completed(self) -> int:
        """The number of complete steps, correct also after a Ctrl-C between a step and its counter."""
        before, version, start, count = self._progress
        return before + (version.ticks - start) * count

    def _follow(self, version: Version, count: int) -> None:
        """Count by the version of the session that runs next, each call of which has `count` steps."""
        self._progress = self.completed(), version, version.ticks, count

    def find(self, row: Row) -> Compiled:
        """The step for a row, compiled on first use."""
        return self.mode.find(self.cache, row)

    def has_updated(self) -> bool:
        """Returns whether the last step updated parameters, rather than accumulate gradients."""
        accumulation = getattr(self.network, "accumulation", None)
        return not isinstance(accumulation, AccumulatedGradients) or not int(accumulation.accumulation_step.asnumpy())

    def explain_precision(self, with_others: bool = False) -> Any:
        """What the last step lost in low dtypes, on the states after it.

        None where it rounds no tensor to one, and where it takes other ranks, unless these explain it `with_others`.
        """
        row = self._last
        step = None if row is None else self.find(row)
        if row is None or step is None or not step.rounds_tensors:
            return None
        takes_others = any(node.primitive.is_collective for node in walk(step.graph))
        return None if takes_others and not with_others else step.explain_precision(*row)

    def run(self, row: Row) -> Any:
        """Run one step; the outputs are not read."""
        step, self._last = self.find(row), row
        if self.optimizer is not None:
            self.optimizer.warn_after_schedule()
        self._follow(step.version, 1)
        outputs = step(*row)
        self._watch(row, outputs)
        return outputs

    def run_through(self, rows: Iterator[Row], total: int) -> Iterator[tuple[int, Any]]:
        """Run a step for each row, many in one call; yields the number of steps and the last outputs of each call.

        `total` is the expected number of rows, by which they are divided into calls.
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
        many, self._last = self._repeated(self.find(rows[0]), len(rows)), rows[-1]
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
        """`count` repetitions of a step as one; None, with a warning, where they cannot run in one call."""
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
            if self.outcomes is not None and len(outputs) > 2 and isinstance(outputs[2], Tensor):
                self.outcomes.add(outputs[1], outputs[2])


def steps_in_a_call(step: Compiled, total: int) -> int:
    """The number of `total` steps to run in one call: at most 256, with 64 MiB of inputs, random arrays and outputs."""
    values = (*step.graph.inputs, *step.graph.outputs, *(node.output for node in host_random_nodes(step.graph)))
    size = sum(value.type.nbytes for value in values)
    most = max(1, min(MOST_STEPS, MOST_BYTES // max(size, 1)))
    return -(-total // -(-total // most))


def _signature(row: Row) -> Any:
    return [(array.dtype, array.shape) for array in row]


@dataclass(eq=False, repr=False)
class Training:
    """One run of `Model.train`: epochs of steps, with the hooks around each.

    `state` is the state that callbacks see, `manager` a loss-scale manager that is updated after each step, and
    `after_epoch` is called before the hooks of an epoch's end. `explanations` are those of all ranks.
    """

    runner: TrainRunner
    callbacks: CallbackManager
    state: InternalCallbackParam
    manager: LossScaleManager | None
    after_epoch: Callable[[Training], None]
    explanations: JointExplanations = field(default_factory=JointExplanations)

    def __post_init__(self) -> None:
        self.context = RunContext(self.state)

    def run(self, epochs: range, feed: Feed, sink_size: int) -> None:
        """Run all epochs, step by step where `sink_size` is 0, else an epoch (-1) or `sink_size` steps in one call."""
        self._count_completed()
        self.state.data_flow, self.state.explain_precision = feed.flow.counts, self.runner.explain_precision
        outcomes = self.runner.outcomes = Outcomes.of(self.runner.network)
        self.callbacks.on_train_begin(self.context)
        rows = feed.endless() if sink_size > 0 else None
        for epoch in epochs:
            self.state.update(cur_epoch_num=epoch + 1, eval_results={}, metrics={})
            self.callbacks.on_train_epoch_begin(self.context)
            if sink_size:
                self._sink(feed.epoch() if rows is None else islice(rows, self._remaining_steps()))
            else:
                self._step_by_step(feed)
            self.after_epoch(self)
            self.callbacks.on_train_epoch_end(self.context)
            if self.context.get_stop_requested():
                break
        self.callbacks.on_train_end(self.context)
        self.runner.outcomes = None
        if outcomes is not None and not self.callbacks.report_overflows:
            outcomes.warn_of_most("init_loss_scale" if self.manager is not None else "loss_scale_value")

    def _count_completed(self) -> None:
        """Provide the number of complete steps in the state, where `cur_step_num` counts the running one."""
        before, completed = self.state.cur_step_num - self.runner.completed(), self.runner.completed
        self.state.completed_steps = lambda: before + completed()

    def _step_by_step(self, feed: Feed) -> None:
        state, callbacks, context = self.state, self.callbacks, self.context
        row = None
        for row in feed.epoch():
            state.cur_step_num += 1
            state.train_dataset_element = tensors_of(row)
            callbacks.on_train_step_begin(context)
            state.net_outputs = self.runner.run(row)
            if self.manager is not None and self.runner.has_updated():
                self.manager.update_loss_scale(bool(np.all(state.net_outputs[1].asnumpy())))
            self._end_step()
            if context.get_stop_requested():
                break
        if row is None:
            raise GraphValueError(NO_DATA)

    def _sink(self, rows: Iterator[Row]) -> None:
        """Run all rows between the hooks of one step, in as few calls of the runtime as possible."""
        state = self.state
        state.train_dataset_element = ()
        self.callbacks.on_train_step_begin(self.context)
        before = state.cur_step_num
        for count, state.net_outputs in self.runner.run_through(rows, self._remaining_steps()):
            state.cur_step_num += count
        if state.cur_step_num == before:
            raise GraphValueError(NO_DATA)
        self._end_step()

    def _end_step(self) -> None:
        self.callbacks.on_train_step_end(self.context)
        explain = partial(self.runner.explain_precision, with_others=True)
        self.explanations.after_step(self.state.cur_step_num, explain)

    def _remaining_steps(self) -> int:
        """The number of steps that remain in the running epoch."""
        return int(self.state.batch_num - self.state.cur_step_num % self.state.batch_num)
