"""RunReport, which writes a run as a page: losses, rates, loss scales, gradient norms, times and memory."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from graphls.base.checks import not_negative, not_negative_int, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.files.files import as_path, write_text
from graphls.base.reporting import checked, warn
from graphls.frontend.tensors.parameter import Parameter
from graphls.train.callbacks import callback
from graphls.train.callbacks.callback import Callback, InternalCallbackParam, RunContext
from graphls.train.explanations import Schedule
from graphls.train.flow import FlowCounts
from graphls.train.run_page import RunPage, RunRecord, load_record

PAGE, DATA = "index.html", "run.json"
WORST = 8
"""The tensors in low dtypes that are recorded each time, the worst ones."""

MOST_WAITING = 64
"""Steps whose results stay unread, so that no step waits for a read."""


class Displayable(Protocol):
    """An object that notebooks show as HTML, such as `step.gradient_ranges(...)` and `step.profile(...)`."""

    def _repr_html_(self) -> str: ...


class TensorsExplanation(Displayable, Protocol):
    """The tensors that `step.explain_precision` explains, the worst first."""

    def __getitem__(self, index: slice, /) -> Any: ...


class RunReport(Callback):
    """Writes a run to `directory` while it runs: `index.html`, which opens in any browser, and its numbers, `run.json`.

    The page shows the loss, evaluations, the learning rate, the loss scale as stairs with the skipped steps, the norm
    of the gradients (of a step that returns it, such as MFTrainOneStepCell with clipping), the rows per second, the
    time of each step, of its waiting for data and of data's waiting for it, and the memory of the process. It needs no
    network, and reloads itself while the run continues. Where a recipe rounds tensors to 8 bits or 4, every
    `precision_every`-th step is explained as by `step.explain_precision`, and the page shows the last explanation and
    the ratio of signal to noise of the worst tensors over the run; 0 leaves that out. Ranks that train together do so
    together, also those without a report, each with its own rows. `compare` are directories of other reports, drawn
    dashed. The results of every `every`-th step are read; the page is written every `refresh` seconds at most, and at
    the end of each epoch. Where a run resumes from a checkpoint, the earlier numbers are retained. In a loop of your
    own, call `add` after each step and `close` at the end. A notebook shows the report as its charts.

    Raises GraphTypeError and GraphValueError for arguments that do not fit, and GraphFileError where a report to
    compare with cannot be read, here, or the page cannot be written, later.

    Examples:
        >>> import os
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import Model, RunReport
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1)
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(1, rows, callbacks=[RunReport("run")])
        >>> sorted(os.listdir("run"))
        ['index.html', 'run.json']
    """

    _reports_overflows = True

    def __init__(
        self, directory: str | os.PathLike[str], *,
        compare: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (), every: int = 1, refresh: float = 5.0,
        precision_every: int = 100, title: str | None = None,
    ) -> None:  # fmt: skip
        self.directory = as_path(directory)
        self.every = positive_int("RunReport", "every", every)
        self.refresh = not_negative("RunReport", "refresh", refresh)
        self.precision_every = not_negative_int("RunReport", "precision_every", precision_every)
        self._schedule, self._precision_title = Schedule(self.precision_every), ""
        if title is not None and not isinstance(title, str):
            raise GraphTypeError(f"For 'RunReport', the 'title' must be a string, but got {title!r}.")
        self.record = RunRecord()
        others = _load_records([compare] if isinstance(compare, (str, os.PathLike)) else compare)
        self.page = RunPage(title or self.directory.name or "run", self.record, others)
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self._written = self._mark = time.perf_counter()
        self._flow = self._begun = FlowCounts()
        self._is_over = False

    def add(self, *, step: int | None = None, **values: object) -> None:
        """Record a step of a loop of your own: `loss`, and any other columns.

        These are `loss`, `learning_rate`, `scale`, `overflow`, `gradient_norm`, `rows_per_second` and, in seconds,
        `waiting`, `step_time` and `data_waiting`: tensors or numbers of one element. `step` counts from 1, unless
        given. Without `step_time`, it is the time since the last call. Raises GraphTypeError for another name.
        """
        number = self._last() + 1 if step is None else positive_int("RunReport", "step", step)
        for name in values.keys() - self.record.columns.keys():
            raise GraphTypeError(f"RunReport takes down {', '.join(self.record.columns)}, not {name!r}.")
        now = time.perf_counter()
        self._take(number, {"step_time": now - self._mark, **values})
        self._mark = now

    def evaluated(self, results: Mapping[str, object]) -> None:
        """Record the results of an evaluation after the last step."""
        for name, value in results.items():
            number = _number(value)
            if number is not None:
                self.record.evaluations.setdefault(str(name), []).append((self._last(), number))

    def explained(self, explanation: TensorsExplanation, step: int | None = None) -> None:
        """Record what `step.explain_precision` returns: the worst tensors, and the explanation as the last one."""
        number = self._last() if step is None else positive_int("RunReport", "step", step)
        for tensor in explanation[:WORST]:
            ratio = min(tensor.sqnr, tensor.element_sqnr)
            name = f"{tensor.role} of {tensor.cell or tensor.name}"
            points = self.record.precision.setdefault(name, [])
            if math.isfinite(ratio) and (not points or points[-1][0] < number):
                points.append((number, ratio))
        self.page.sections.pop(self._precision_title, None)
        self._precision_title = f"Precision at step {number}"
        self.show(self._precision_title, explanation)

    def show(self, title: str, *contents: Displayable | str) -> None:
        """Add objects that notebooks show, or pictures as SVG text, to the page under a headline.

        Such as `report.show("Time", profile.plot(), profile)` and `report.show("Gradients", step.gradient_ranges(x))`.
        """
        for content in contents:
            if not isinstance(content, str) and not hasattr(content, "_repr_html_"):
                raise GraphTypeError(f"RunReport shows what notebooks show as HTML, not {type(content).__name__}.")
        self.page.sections[title] = "\n".join(c if isinstance(c, str) else c._repr_html_() for c in contents)

    def write(self) -> Path:
        """Write the page and the numbers now, each completely or not at all, and return the path of the page."""
        self._read()
        page = self.directory / PAGE
        checked(self.record.save, self.directory / DATA)
        checked(write_text, page, self.page.html(self._is_over))
        self._written = time.perf_counter()
        return page

    def close(self) -> Path:
        """Write the page of a run that is over, and return its path."""
        self._is_over = True
        return self.write()

    def __repr__(self) -> str:
        return f"RunReport({str(self.directory)!r})"

    def _repr_html_(self) -> str:
        self._read()
        return self.page.card(self._is_over)

    def on_train_begin(self, run_context: RunContext) -> None:
        """Continue the report of the run that this one resumes, or begin one."""
        state = run_context.original_args()
        self._is_over, self._mark, self._flow = False, time.perf_counter(), _flow(state)
        done = int(state.get("cur_step_num", 0))
        if done and not self.record.last_step:
            self._continue()
        self.record.forget_after(done)

    def on_train_step_begin(self, run_context: RunContext) -> None:
        """Record the begin of the step."""
        self._mark, self._begun = time.perf_counter(), _flow(run_context.original_args())

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Record the step."""
        state, now = run_context.original_args(), time.perf_counter()
        flow = _flow(state)
        if state.cur_step_num % self.every == 0:
            inside = flow.since(self._begun).waited  # of dataset_sink_mode, which takes rows between the hooks
            speed = _speed(flow.since(self._flow), now - self._mark - inside)
            self._take(state.cur_step_num, {**_results(state.net_outputs), **_rate(state), **speed})
        self._explain(state)
        self._mark, self._flow = time.perf_counter(), flow

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Record the results of an evaluation, and write the page."""
        self.evaluated(run_context.original_args().get("eval_results") or {})
        self.write()
        self._mark, self._flow = time.perf_counter(), _flow(run_context.original_args())

    def on_train_end(self, run_context: RunContext) -> None:
        """Write the page of the complete run."""
        self.close()

    def _explain(self, state: InternalCallbackParam) -> None:
        """Explain the precision of the last step where it is time for it; ranks do so together, behind their hooks."""
        step = state.cur_step_num
        if self._schedule.is_joint or not self._schedule.is_due(step):
            return
        explanation = state.explain_precision() if "explain_precision" in state else None
        if explanation is not None:
            self.explained(explanation, step)

    def _continue(self) -> None:
        path = self.directory / DATA
        if os.path.exists(path):
            try:
                self.record = self.page.record = load_record(path)
            except GraphValueError as error:
                warn(f"The report starts over: {error.message}")

    def _last(self) -> int:
        return self._waiting[-1][0] if self._waiting else self.record.last_step

    def _take(self, step: int, values: dict[str, Any]) -> None:
        self._waiting.append((step, {**values, "memory": _memory()}))
        if len(self._waiting) >= MOST_WAITING:
            self._read()
        if time.perf_counter() - self._written > self.refresh:
            self.write()

    def _read(self) -> None:
        waiting, self._waiting = self._waiting, []
        for step, values in waiting:
            self.record.add(step, {name: _number(value) for name, value in values.items()})


def _load_records(directories: Sequence[str | os.PathLike[str]]) -> dict[str, RunRecord]:
    return {str(path): load_record(as_path(path) / DATA) for path in directories}


def _results(outputs: object) -> dict[str, Any]:
    """The numbers in a step's outputs, by column: (loss, overflow, scale, learning rate, norm ...)."""
    numbers = {"loss": callback.first_output(outputs)}
    if isinstance(outputs, tuple) and len(outputs) >= 3 and callback.is_flag(outputs[1]):
        numbers |= dict(zip(("overflow", "scale", "learning_rate", "gradient_norm"), outputs[1:], strict=False))
    return numbers


def _rate(state: InternalCallbackParam) -> dict[str, Any]:
    """The learning rate of the optimizer if it is one number, read at once since the next step may change it."""
    rate = callback.learning_rate_of(state)
    return {"learning_rate": float(rate.asnumpy())} if isinstance(rate, Parameter) and rate.shape == () else {}


def _flow(state: InternalCallbackParam) -> FlowCounts:
    """What data have flowed into steps up to now."""
    counts: FlowCounts = state.data_flow() if "data_flow" in state else FlowCounts()
    return counts


def _speed(flow: FlowCounts, step_time: float) -> dict[str, Any]:
    """The rows per second of a step, its time, and that of waiting: its own for data, and that of data for it."""
    rate = flow.rows / max(flow.waited + step_time, 1e-9)
    return {"rows_per_second": rate, "waiting": flow.waited, "step_time": step_time, "data_waiting": flow.idle}


def _number(value: object) -> float | None:
    """The mean of a tensor or number; None for anything else."""
    try:
        array = np.asarray(value, np.float64) if value is not None else np.empty(0)
    except (TypeError, ValueError):
        return None
    return float(array.mean()) if array.size else None


def _memory() -> int | None:
    """The bytes of memory of the process, None where the system does not report them."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
