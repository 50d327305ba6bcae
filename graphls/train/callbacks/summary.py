"""Summaries of a training run in event files of TensorBoard.

The files are written at once and not by a thread, so that a full disk raises an error rather than hang.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from itertools import accumulate, count, repeat
from operator import mul
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np

from graphls.base.checks import boolean, positive_int
from graphls.base.errors import GraphFileError, GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.files.files import as_path
from graphls.base.refusals import refusal
from graphls.base.reporting import load_package
from graphls.train.callbacks.callback import Callback, RunContext, scalars_of

KINDS = ("scalar", "histogram", "image")
CHANNELS = (1, 3, 4)
_numbers = count()


class EventFile:
    """A new event file in a directory, which is created if it is missing.

    Raises GraphRuntimeError where tensorboardX is not installed, GraphTypeError for anything but a path, and
    GraphFileError, here and later, where it cannot be written.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._package = _package()
        self.directory = as_path(directory)
        self.path = str(self.directory)
        self._writer: Any = self._closing_on_error(self._open)

    def _open(self) -> Any:
        self.directory.mkdir(parents=True, exist_ok=True)
        # The name has the second and the host only; two files of one second would be one.
        suffix = f".{os.getpid()}.{next(_numbers)}"
        return self._package.event_file_writer.EventsWriter(os.path.join(self.path, "events"), suffix)

    def write(self, kind: str, name: str, value: np.ndarray[Any, Any], step: int) -> None:
        """Write a value from `checked_value`; raises GraphRuntimeError where the file is closed."""
        if self._writer is None:
            raise GraphRuntimeError(f"The summary record of {self.path} is closed; open another.")
        event = self._package.proto.event_pb2.Event(wall_time=time.time(), step=step)
        event.summary.CopyFrom(self._summary(kind, name, value))
        self._closing_on_error(self._writer.write_event, event)

    def _summary(self, kind: str, name: str, value: np.ndarray[Any, Any]) -> Any:
        make = self._package.summary
        if kind == "scalar":
            return make.scalar(name, float(value))
        if kind == "histogram":
            return make.histogram(name, value.reshape(-1), bins=_bounds())
        pixels = value if value.dtype == np.uint8 else np.clip(np.nan_to_num(value), 0, 1)
        return make.image(name, pixels, dataformats="NCHW")

    def flush(self) -> None:
        """Flush written events to the disk."""
        if self._writer is not None:
            self._closing_on_error(self._writer.flush)

    def close(self) -> None:
        """Flush and close the file; it may be closed any number of times."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._closing_on_error(writer.close)

    def _closing_on_error(self, action: Callable[..., object], *arguments: object) -> Any:
        try:
            return action(*arguments)
        except (OSError, ValueError) as error:
            self._writer = None  # events after half an event could not be read
            reason = getattr(error, "strerror", None) or error
            text = f"The event file in {self.path} cannot be written: {reason}."
            raise GraphFileError(text) from None


def checked_value(kind: object, name: object, value: object) -> np.ndarray[Any, Any]:
    """The value as an array of numbers that its kind can show; raises GraphTypeError or GraphValueError otherwise."""
    if kind not in KINDS:
        known = ", ".join(map(repr, KINDS))
        raise GraphValueError(f"The plugin of a summary is one of {known}, not {kind!r}.")
    if not isinstance(name, str) or not name:
        raise GraphTypeError(f"The name of a summary is a string that is not empty, not {name!r}.")
    array = _numbers_of(value)
    if array is None:
        raise GraphTypeError(f"The {kind} {name!r} consists of numbers, not of {type(value).__name__}.")
    fault = _fault(kind, array.shape, array.size)
    if fault:
        raise GraphValueError(f"The {kind} {name!r} {fault}, not the shape {array.shape}.")
    return array.reshape(()) if kind == "scalar" else array


def checked_step(step: object) -> int:
    """A step as an integer of the file; raises GraphTypeError or GraphValueError otherwise."""
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)):
        raise GraphTypeError(f"The step of a summary is an integer, not {step!r}.")
    if not 0 <= step < 2**63:
        raise GraphValueError(f"The step of a summary is from 0 to 2^63 - 1, not {step}.")
    return int(step)


def _numbers_of(value: object) -> np.ndarray[Any, Any] | None:
    """The numbers in float64, or bytes of images as they are; None for anything else."""
    try:
        array = np.asarray(value)
        return array if array.dtype == np.uint8 else array.astype(np.float64, casting="same_kind")
    except (TypeError, ValueError):
        return None


def _fault(kind: str, shape: tuple[int, ...], size: int) -> str:
    """The message for a shape that does not fit; empty for one that does."""
    if kind != "image":
        fits = size == 1 if kind == "scalar" else size > 0
        return "" if fits else f"has {'one element' if kind == 'scalar' else 'one element or more'}"
    fits = len(shape) == 4 and shape[1] in CHANNELS and size > 0
    return "" if fits else "has the axes (N, C, H, W), with 1, 3 or 4 channels"


def _bounds() -> list[float]:
    """Bounds of the bars of a histogram: zero, and from 1e-12 to 1e20 each 10 % above the last, of both signs."""
    positive = list(accumulate(repeat(1.1, 773), mul, initial=1e-12))
    return [*(-bound for bound in reversed(positive)), 0.0, *positive]


def _package() -> Any:
    for module in ("", ".event_file_writer", ".proto.event_pb2", ".summary"):
        load_package(f"tensorboardX{module}", "Event files need tensorboardX, which", 'pip install "graphls[train]"')
    return sys.modules["tensorboardX"]


COLLECTED = ("collect_metric", "histogram_regular")
NOT_COLLECTED = (
    "collect_dataset_graph", "collect_eval_lineage", "collect_graph", "collect_input_data", "collect_landscape",
    "collect_train_lineage",
)  # fmt: skip


class SummaryRecord:
    """An event file in `log_dir`: add values, then write them as those of a step.

    A context manager that closes the file. Raises GraphRuntimeError where tensorboardX is not installed, and
    GraphFileError, here and later, where the file cannot be written.

    Examples:
        >>> from graphls import tensor
        >>> from graphls.train import SummaryRecord
        >>> with SummaryRecord("summary") as record:
        ...     record.add_value("scalar", "loss", tensor(0.5))
        ...     record.record(1)
    """

    open_ones: ClassVar[WeakSet[SummaryRecord]] = WeakSet()

    def __init__(self, log_dir: str | os.PathLike[str]) -> None:
        self._file = EventFile(log_dir)
        self.log_dir = self._file.path
        self._waiting: list[tuple[str, str, Any]] = []
        self._noted: dict[tuple[str, str], Any] = {}
        self.open_ones.add(self)

    def __enter__(self) -> SummaryRecord:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def add_value(self, plugin: str, name: str, value: object) -> None:
        """Add a value to the next `record`: a "scalar", a "histogram" of all elements, or an "image" (NCHW).

        A scalar has one element; images are bytes (uint8), or numbers from 0 to 1. Raises GraphValueError for another
        plugin and for shapes that do not fit, GraphTypeError for anything but a name and for values that are not
        numbers.
        """
        self._waiting.append((plugin, name, checked_value(plugin, name, value)))

    def note(self, plugin: str, name: str, value: object) -> None:
        """Add a value of a summary operator to the next `record`, replacing an earlier one."""
        self._noted[plugin, name] = value

    def record(self, step: int) -> None:
        """Write the added values as those of a step; raises GraphTypeError or GraphValueError for an invalid step."""
        number = checked_step(step)
        waiting, self._waiting = [*self._waiting, *((*key, value) for key, value in self._noted.items())], []
        self._noted.clear()
        for plugin, name, value in waiting:
            self._file.write(plugin, name, value, number)

    def flush(self) -> None:
        """Flush recorded values to the file."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close the file."""
        self.open_ones.discard(self)
        self._file.close()


class SummaryCollector(Callback):
    """Writes losses, learning rates and histograms of parameters to an event file in `summary_dir`.

    Every `collect_freq` steps, and at the first: the scalars "loss", "learning_rate" (where it is one number) and
    "loss_scale" (of a step with loss scaling); every `collect_tensor_freq` steps, by default ten times as many, a
    histogram of each parameter whose name matches `histogram_regular`; after an evaluation in `Model.fit`, a scalar of
    each result. In sink mode, values are written after the steps that run in one call.

    `collect_specified_data` is a dict: `collect_metric` (True) writes scalars, `histogram_regular` (None: none) is a
    regular expression for names. With `keep_default_action` false, only specified data is written. MindSpore's other
    keys (graphs, lineage, input data, landscape) may be false; there is no such data here. `num_process`,
    `custom_lineage_data`, `max_file_size` and `export_options` change nothing. Raises GraphTypeError and
    GraphValueError for arguments that do not fit, GraphRuntimeError where tensorboardX is not installed.

    Examples:
        >>> import os
        >>> import numpy as np
        >>> from graphls import dataset as ds
        >>> from graphls import nn
        >>> from graphls.train import Model, SummaryCollector
        >>> rows = ds.NumpySlicesDataset((np.ones((4, 1), np.float32),) * 2, ["x", "y"]).batch(2)
        >>> net = nn.Dense(1, 1)
        >>> collector = SummaryCollector("summary", collect_freq=1)
        >>> Model(net, nn.MSELoss(), nn.SGD(net.trainable_params(), 0.1)).train(1, rows, callbacks=[collector])
        >>> len(os.listdir("summary"))
        1
    """

    def __init__(
        self, summary_dir: str | os.PathLike[str], collect_freq: int = 10, num_process: int = 32,
        collect_specified_data: dict[str, object] | None = None, keep_default_action: bool = True,
        custom_lineage_data: dict[str, object] | None = None, collect_tensor_freq: int | None = None,
        max_file_size: int | None = None, export_options: dict[str, object] | None = None,
    ) -> None:  # fmt: skip
        name = type(self).__name__
        self.summary_dir = summary_dir
        self.collect_freq = positive_int(name, "collect_freq", collect_freq)
        self.collect_tensor_freq = 10 * self.collect_freq
        if collect_tensor_freq is not None:
            self.collect_tensor_freq = positive_int(name, "collect_tensor_freq", collect_tensor_freq)
        specified = _checked_data(collect_specified_data or {})
        is_default = boolean(name, "keep_default_action", keep_default_action)
        self.collect_metric = boolean(name, "collect_metric", specified.get("collect_metric", is_default))
        self.histogram_regular = _pattern(specified.get("histogram_regular"))
        self._record: SummaryRecord | None = None
        self._last = self._last_tensors = 0

    def __enter__(self) -> SummaryCollector:
        self._record = SummaryRecord(self.summary_dir)
        return self

    def __exit__(self, *error: object) -> None:
        if self._record is not None:
            self._record.close()
            self._record = None

    def on_train_begin(self, run_context: RunContext) -> None:
        """Count from here."""
        step = run_context.original_args().cur_step_num
        self._last, self._last_tensors = step + 1 - self.collect_freq, step + 1 - self.collect_tensor_freq

    def on_train_step_end(self, run_context: RunContext) -> None:
        """Write the values that are due."""
        state = run_context.original_args()
        step = state.cur_step_num
        if self.collect_metric and step - self._last >= self.collect_freq:
            self._last = step
            self._write("scalar", step, scalars_of(state))
        if self.histogram_regular and step - self._last_tensors >= self.collect_tensor_freq:
            self._last_tensors = step
            parameters = (
                p for p in state.train_network.trainable_params() if re.search(self.histogram_regular, p.name)
            )
            self._write("histogram", step, {p.name: p.asnumpy() for p in parameters})

    def on_train_epoch_end(self, run_context: RunContext) -> None:
        """Write the results of an evaluation in this epoch."""
        state = run_context.original_args()
        results = {name: np.asarray(value) for name, value in (state.get("eval_results") or {}).items()}
        if self.collect_metric:
            self._write("scalar", state.cur_step_num, {name: v for name, v in results.items() if v.size == 1})

    def _write(self, plugin: str, step: int, values: Mapping[str, object]) -> None:
        if self._record is None:
            text = "SummaryCollector writes between its __enter__ and __exit__; give it to a Model as a callback."
            raise GraphRuntimeError(text)
        for name, value in values.items():
            self._record.add_value(plugin, name, value)
        self._record.record(step)


def _checked_data(specified: object) -> dict[str, Any]:
    if not isinstance(specified, dict):
        raise GraphTypeError(f"The 'collect_specified_data' is a dict, not {specified!r}.")
    for name, value in specified.items():
        if name not in (*COLLECTED, *NOT_COLLECTED):
            known = ", ".join(map(repr, COLLECTED))
            text = f"SummaryCollector collects {known}, and no {name!r}."
            raise GraphValueError(text)
        if name in NOT_COLLECTED and value:
            raise GraphValueError(refusal("summaries", repr(name)))
    return specified


def _pattern(text: object) -> str | None:
    """A regular expression, or None; raises GraphTypeError or GraphValueError for anything else."""
    if text is not None and not isinstance(text, str):
        raise GraphTypeError(f"The 'histogram_regular' is a regular expression, not {text!r}.")
    try:
        re.compile(text or "")
    except re.error as error:
        message = f"The 'histogram_regular' {text!r} is not a regular expression: {error}."
        raise GraphValueError(message) from None
    return text
