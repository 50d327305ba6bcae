"""`mindspore.profiler`: profiles of all compiled steps of a script, measured when it calls `analyse`."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from graphls.base.errors import GraphlsError, GraphRuntimeError
from graphls.base.reporting import warn
from graphls.frontend.tensors.tensor import TensorLike
from graphls.inspect.profile.measure import measure
from graphls.ir.graph import walk
from graphls.step.step import Compiled
from graphls.train.callbacks.callback import Callback


class ProfilerLevel(Enum):
    """The level of detail of MindSpore's profiles; here it is always the highest."""

    LevelNone = "LevelNone"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class ProfilerActivity(Enum):
    """The devices that MindSpore profiles; here it is the device of the steps."""

    CPU = "CPU"
    NPU = "NPU"
    GPU = "GPU"


class ProfilerAction(Enum):
    """The action of MindSpore's profiler in a step of a schedule."""

    NONE = 0
    WARM_UP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


AicoreMetrics = Enum(
    "AicoreMetrics",
    "AiCoreNone ArithmeticUtilization Memory MemoryL0 MemoryUB PipeUtilization ResourceConflictRatio L2Cache",
)


class Profiler:
    """Writes a profile of every compiled step, one file each, to `output_path` when `analyse` is called.

    `analyse` (and the end of a `with`) measures the steps again, on zeros and on a copy of their states, as
    `step.profile` does, except those with a loop whose end depends on inputs; nothing is recorded while the script
    runs. Options of MindSpore have no effect. No method raises: a failure to measure or write is a warning.
    """

    def __init__(self, output_path: str = "./data", start_profile: bool = True, **options: object) -> None:
        self.output_path = output_path
        self.options = options
        self.seconds = 0.0
        self._began: float | None = time.perf_counter() if start_profile else None

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, *error: TensorLike) -> None:
        self.stop()
        self.analyse()

    def start(self) -> None:
        """Start the timer."""
        self._began = time.perf_counter()

    def stop(self) -> None:
        """Stop the timer and add its time to `seconds`."""
        if self._began is not None:
            self.seconds += time.perf_counter() - self._began
            self._began = None

    def step(self) -> None:
        """Does nothing: steps need no marks."""

    def analyse(self, *args: object, **options: object) -> None:
        """Measure every compiled step, and write its profile."""
        self.stop()
        for number, step in enumerate(_compiled_steps()):
            try:
                text = _profile_text(step)
                folder = Path(self.output_path)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"step_{number}.txt").write_text(text, encoding="utf-8")
            except (GraphlsError, OSError, ValueError) as error:
                warn(f"A step could not be profiled: {error}")

    def op_analyse(self, *args: object, **options: object) -> str:
        """The profiles as text."""
        return "\n\n".join(map(_profile_text, _compiled_steps()))

    def add_metadata(self, key: str, value: str) -> None:
        """Does nothing: there is no file for metadata."""

    def add_metadata_json(self, key: str, value: str) -> None:
        """Does nothing: there is no file for metadata."""


profile = Profiler


def analyse(profiler_path: str, *args: object, **options: object) -> None:
    """Does nothing: profiles are written as text."""


def schedule(
    *, wait: int = 0, active: int = 1, warmup: int = 0, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """The function from the number of a step to the action of MindSpore's profiler."""

    def action(step: int) -> ProfilerAction:
        length, position = wait + warmup + active, step - skip_first
        if position < 0 or (repeat and position >= repeat * length) or position % length < wait:
            return ProfilerAction.NONE
        if position % length < wait + warmup:
            return ProfilerAction.WARM_UP
        return ProfilerAction.RECORD if position % length < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(*args: object, **options: object) -> Callable[..., None]:
    """A function that does nothing: profiles are written as text."""
    return lambda *arguments: None


class DynamicProfilerMonitor(Callback):
    """A callback that does nothing; MindSpore's starts its profiler by a configuration file."""

    def __init__(self, cfg_path: str | None = None, output_path: str = "dyn_profile_data", **options: object) -> None:
        self.cfg_path, self.output_path = cfg_path, output_path

    def step(self) -> None:
        """Does nothing."""


class EnvProfiler:
    """The profiler of the environment variable MS_PROFILER_OPTIONS, which does nothing."""

    def analyse(self) -> None:
        """Does nothing."""


class _ExperimentalConfig:
    """Settings of MindSpore's profiler as attributes."""

    def __init__(self, **options: object) -> None:
        self.__dict__.update(options)


class mstx:
    """Marks on a timeline of MindSpore's tools, which have no effect."""

    @staticmethod
    def mark(message: str, *args: object) -> None:
        """Does nothing."""

    @staticmethod
    def range_start(message: str, *args: object) -> int:
        """Does nothing; returns 0."""
        return 0

    @staticmethod
    def range_end(range_id: int, *args: object) -> None:
        """Does nothing."""

    @staticmethod
    @contextmanager
    def range(message: str, *args: object) -> Any:
        """A context without effect."""
        yield


def _compiled_steps() -> list[Compiled]:
    return [item for item in gc.get_objects() if isinstance(item, Compiled)]


def _profile_text(step: Compiled) -> str:
    """The profile of a step on zeros; raises GraphRuntimeError for a loop, which may not end on zeros."""
    if any(node.primitive.name == "while_loop" for node in walk(step.graph)):
        raise GraphRuntimeError("It has a loop whose end depends on inputs; call `step.profile` with inputs.")
    inputs = [np.zeros(value.type.shape, value.type.dtype.numpy) for value in step.graph.inputs]
    return f"{step!r}{os.linesep}{measure(step._step, inputs, 5)}"
