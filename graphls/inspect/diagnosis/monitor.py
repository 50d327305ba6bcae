"""The loss scale monitor: runs a step and reports each change of the regime of its loss scale in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.inspect.diagnosis.explanation import OverflowExplanation
from graphls.inspect.diagnosis.regimes import RegimeChange, Regimes
from graphls.inspect.diagnosis.report import History, StepReport, is_loss_scale_tuple
from graphls.ir.graph import Graph
from graphls.runtime.states import HasStorage


class CallableStep(Protocol):
    """The interface of a compiled step, whose class belongs to a package above this one."""

    @property
    def graph(self) -> Graph:
        """The graph that runs."""

    @property
    def parameters(self) -> Mapping[str, HasStorage]:
        """The values of its states, by name."""

    @property
    def cells(self) -> Iterable[tuple[object, object]]:
        """The cells that it was compiled from, with their configurations."""

    def explain_overflow(self, *inputs: object) -> OverflowExplanation:
        """Explain what overflows for these inputs."""

    def __call__(self, *inputs: object) -> Any:
        """Run it."""


class LossScaleMonitor:
    """Runs a step and reports in one line when the regime of its loss scale changes.

    `step` is a compiled step that returns (loss, overflow, scale, ...). `monitor(x, y)` runs it and returns its
    outputs, `monitor.step(x, y)` a StepReport. Every `look_every` steps the outcomes of all steps since the last look
    are read, so that the other steps do not wait for the device; a line can be late by that many steps, but names the
    right one. `tell` is called with each RegimeChange; `changes` lists them.

    The regimes:

    - "calibrating", from the start: no `settled_after` steps in a row have run without overflow yet. Reported at the
      first skipped step.
    - "settled": `settled_after` steps in a row without overflow. A single skipped step, as after each rise of a scale
      that is at its limit, changes nothing and reports nothing.
    - "falling": `patience` steps in a row were skipped, or the scale is `patience` powers of two below the one that was
      reported last. While calibrating, which may well take as many steps, only once the scale has come to 1, or has not
      fallen in those steps. The inputs of the last step are explained. It ends as calibrating does, with "settled".
    - "grown": in a settled scale, `settled_after` steps in a row without overflow at a scale four times the one that
      was reported last, or more.

    Raises GraphTypeError for a step that returns something else, GraphValueError for counts below 1.

    Examples:
        >>> import graphls
        >>> from graphls import nn, tensor
        >>> from graphls.diagnosis import LossScaleMonitor
        >>> net = nn.Dense(2, 1, weight_init="zeros", bias_init="zeros")
        >>> loss_cell, sgd = nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.01)
        >>> train = nn.TrainOneStepWithLossScaleCell(loss_cell, sgd, nn.DynamicLossScaleUpdateCell(2.0**8, 2, 1000))
        >>> x, y = tensor([[1.0, 2.0]]), tensor([[1.0]])
        >>> monitor = LossScaleMonitor(graphls.compile(train, x, y), look_every=5, settled_after=5)
        >>> for _ in range(5):
        ...     outputs = monitor(x, y)
        step 5: the scale has settled at 2^8; no step was skipped.
    """

    def __init__(
        self, step: CallableStep, look_every: int = 10, settled_after: int = 20, patience: int = 8,
        tell: Callable[[RegimeChange], object] = print,
    ) -> None:  # fmt: skip
        for name, count in {"look_every": look_every, "settled_after": settled_after, "patience": patience}.items():
            if not isinstance(count, int) or count < 1:
                raise GraphValueError(f"{name!r} is an integer of 1 or more, not {count!r}.")
        types = getattr(step, "output_types", None)
        if types is None or not is_loss_scale_tuple(types):
            raise GraphTypeError(
                "A LossScaleMonitor takes a compiled step that returns (loss, overflow, scale, ...): give it the step "
                "that graphls.compile returns for a TrainOneStepWithLossScaleCell.",
            )
        self.compiled = step
        self.look_every, self.tell = look_every, tell
        self.changes: list[RegimeChange] = []
        self._history = History()
        self._unseen: list[StepReport] = []
        self._regimes = Regimes(scale_before(step), settled_after, patience)
        self._inputs: tuple[object, ...] = ()

    @property
    def regime(self) -> str:
        """The regime at the last look."""
        return self._regimes.regime

    def __call__(self, *inputs: object) -> Any:
        """Run one step and return its outputs, unread."""
        return self.step(*inputs).outputs

    def step(self, *inputs: object) -> StepReport:
        """Run one step and report it, unread; raises as the step does."""
        report = StepReport(self.compiled(*inputs), self._history)
        self._inputs = inputs
        self._unseen.append(report)
        if report.step % self.look_every == 0:
            self.look()
        return report

    def look(self) -> list[RegimeChange]:
        """Read the steps since the last look and report the changes of the regime; returns them."""
        unseen, self._unseen = self._unseen, []
        changes = [self._explained(change) for change in map(self._regimes.after, unseen) if change is not None]
        self.changes += changes
        for change in changes:
            self.tell(change)
        return changes

    def _explained(self, change: RegimeChange) -> RegimeChange:
        if change.regime != "falling":
            return change
        return replace(change, explanation=self.compiled.explain_overflow(*self._inputs))


def scale_before(step: CallableStep) -> float | None:
    """The scale that a step starts with, where it is a state of the step."""
    value = step.graph.outputs[2]
    states = [w.state for w in step.graph.writes if w.value is value] or [value]
    parameter = step.parameters.get(states[0].name) if states[0].is_state else None
    return None if parameter is None else float(parameter.storage.copy().reshape(()))
