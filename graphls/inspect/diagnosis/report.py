"""The report of one training step, which waits for the device only when it is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, TypeGuard

from graphls.base.errors import GraphTypeError
from graphls.base.text.html import Page
from graphls.inspect.diagnosis.ranges import power
from graphls.ir.types import bool_


class History:
    """Counts steps, and those since the last overflow; reports that are not read yet wait in order."""

    def __init__(self) -> None:
        self.waiting: deque[StepReport] = deque()
        self.steps = 0
        self.since_overflow = 0

    def add(self, report: StepReport) -> int:
        """Add the report of the next step; returns its number, from 1 on."""
        self.steps += 1
        self.waiting.append(report)
        return self.steps

    def read(self, until: int) -> None:
        """Read the outcomes of all steps up to this number that are not read yet; waits for the device."""
        while self.waiting and self.waiting[0].step <= until:
            report = self.waiting.popleft()
            self.since_overflow = 0 if report.skipped else self.since_overflow + 1
            report._since = self.since_overflow


class StepReport:
    """The outcome of one step: creating a report does not wait for the device, reading `loss` and the like does.

    `outputs` is the result of the step: a tuple whose first three are the loss, whether the step was skipped, and the
    loss scale after it. Raises GraphTypeError for anything else.

    Examples:
        >>> import graphls
        >>> from graphls import nn, tensor
        >>> from graphls.diagnosis import StepReport
        >>> net = nn.Dense(2, 1, weight_init="zeros", bias_init="zeros")
        >>> loss_cell, sgd = nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.1)
        >>> train = nn.TrainOneStepWithLossScaleCell(loss_cell, sgd, nn.FixedLossScaleUpdateCell(64.0))
        >>> x, y = tensor([[1.0, 2.0]]), tensor([[1.0]])
        >>> report = StepReport(graphls.compile(train, x, y)(x, y))
        >>> float(report.loss), report.skipped, report.scale
        (1.0, False, 64.0)
    """

    def __init__(self, outputs: object, history: History | None = None) -> None:
        if not is_loss_scale_tuple(outputs):
            raise GraphTypeError(
                "A StepReport takes the result of a step with loss scaling, a tuple: the loss, a bool for the overflow "
                "and the scale, then anything.",
            )
        self.outputs = outputs
        self._history = history or History()
        self._since: int | None = None
        self.step = self._history.add(self)

    @property
    def loss(self) -> Any:
        """The loss as a Python number, or as an array where it has more than one element."""
        tensor = self.outputs[0]
        return tensor.item() if tensor.size == 1 else tensor.asnumpy()

    @property
    def skipped(self) -> bool:
        """Whether the step overflowed and was skipped."""
        return bool(self.outputs[1].item())

    @property
    def scale(self) -> float:
        """The loss scale after the step."""
        return float(self.outputs[2].item())

    @property
    def steps_since_overflow(self) -> int:
        """The number of steps in a row, up to this one, that were not skipped, as its monitor counts them."""
        if self._since is None:
            self._history.read(self.step)
        assert self._since is not None
        return self._since

    def __str__(self) -> str:
        outcome = "skipped" if self.skipped else f"{self.steps_since_overflow} without overflow"
        return f"step {self.step}: loss {_short(self.loss)}, scale {power(self.scale)}, {outcome}"

    def _repr_html_(self) -> str:
        outcome = "skipped, because it overflowed" if self.skipped else "done"
        page = Page("Step report", f"step {self.step}: {outcome}")
        since = str(self.steps_since_overflow)
        page.facts((("loss", _short(self.loss)), ("scale", power(self.scale)), ("steps since overflow", since)))
        return page.text()


def _short(loss: object) -> str:
    """A loss with six digits."""
    return f"{loss:.6g}" if isinstance(loss, float) else str(loss)


def is_loss_scale_tuple(outputs: object) -> TypeGuard[Sequence[Any]]:
    """Whether outputs start with a loss, a bool of one element and a number of one element, of tensors or types."""
    if not isinstance(outputs, (tuple, list)) or len(outputs) < 3:
        return False
    leading = outputs[:3]
    if not all(hasattr(item, "dtype") and hasattr(item, "size") for item in leading):
        return False
    loss, overflow, scale = leading
    is_number = scale.dtype.is_float or scale.dtype.kind == "int"
    return loss.dtype.is_float and overflow.dtype is bool_ and overflow.size == 1 and is_number and scale.size == 1
