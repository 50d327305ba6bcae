"""Event files of TensorBoard, written at once and not by a thread, so that a full disk is an error and no hang."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from itertools import accumulate, count, repeat
from operator import mul
from typing import Any

import numpy as np

from graphls.base.errors import GraphFileError, GraphRuntimeError, GraphTypeError, GraphValueError
from graphls.base.files.files import as_path
from graphls.base.reporting import load_package

KINDS = ("scalar", "histogram", "image")
CHANNELS = (1, 3, 4)
_numbers = count()


class EventFile:
    """A new event file in a directory, which is made where it is missing.

    Raises GraphRuntimeError where tensorboardX is not installed, GraphTypeError for what is no path, and
    GraphFileError, here and later, for what cannot be written.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self._package = _package()
        self.directory = as_path(directory)
        self.path = str(self.directory)
        self._writer: Any = self._tried(self._open)

    def _open(self) -> Any:
        self.directory.mkdir(parents=True, exist_ok=True)
        # The name has the second and the host only; two files of one second would be one.
        suffix = f".{os.getpid()}.{next(_numbers)}"
        return self._package.event_file_writer.EventsWriter(os.path.join(self.path, "events"), suffix)

    def write(self, kind: str, name: str, value: np.ndarray[Any, Any], step: int) -> None:
        """Write a value that `checked_value` gave; raises GraphRuntimeError where the file is closed."""
        if self._writer is None:
            raise GraphRuntimeError(f"The summary record of {self.path} is closed; open another.")
        event = self._package.proto.event_pb2.Event(wall_time=time.time(), step=step)
        event.summary.CopyFrom(self._summary(kind, name, value))
        self._tried(self._writer.write_event, event)

    def _summary(self, kind: str, name: str, value: np.ndarray[Any, Any]) -> Any:
        make = self._package.summary
        if kind == "scalar":
            return make.scalar(name, float(value))
        if kind == "histogram":
            return make.histogram(name, value.reshape(-1), bins=_bounds())
        pixels = value if value.dtype == np.uint8 else np.clip(np.nan_to_num(value), 0, 1)
        return make.image(name, pixels, dataformats="NCHW")

    def flush(self) -> None:
        """Bring to the disk what has been written."""
        if self._writer is not None:
            self._tried(self._writer.flush)

    def close(self) -> None:
        """Bring everything to the disk and close the file; it may be closed any number of times."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._tried(writer.close)

    def _tried(self, action: Callable[..., object], *arguments: object) -> Any:
        try:
            return action(*arguments)
        except (OSError, ValueError) as error:
            self._writer = None  # what comes behind half an event could not be read
            reason = getattr(error, "strerror", None) or error
            text = f"The event file in {self.path} cannot be written: {reason}."
            raise GraphFileError(text) from None


def checked_value(kind: object, name: object, value: object) -> np.ndarray[Any, Any]:
    """The value as an array of numbers that its kind can show; raises GraphTypeError or GraphValueError otherwise."""
    if kind not in KINDS:
        known = ", ".join(map(repr, KINDS))
        raise GraphValueError(f"The plugin of a summary is one of {known}, not {kind!r}.")
    if not isinstance(name, str) or not name:
        raise GraphTypeError(f"The name of a summary is a text that is not empty, not {name!r}.")
    array = _numbers_of(value)
    if array is None:
        raise GraphTypeError(f"The {kind} {name!r} is made of numbers, not of {type(value).__name__}.")
    fault = _fault(kind, array.shape, array.size)
    if fault:
        raise GraphValueError(f"The {kind} {name!r} {fault}, not the shape {array.shape}.")
    return array.reshape(()) if kind == "scalar" else array


def checked_step(step: object) -> int:
    """A step as the file holds it; raises GraphTypeError or GraphValueError otherwise."""
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
    """What is wrong with a shape."""
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
