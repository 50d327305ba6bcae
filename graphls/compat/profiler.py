"""`mindspore.profiler`: what the steps that a script has compiled take, measured when it asks for the analysis."""

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
    """How much MindSpore measures on its accelerators; here always everything."""

    LevelNone = "LevelNone"
    Level0 = "Level0"
    Level1 = "Level1"
    Level2 = "Level2"


class ProfilerActivity(Enum):
    """What MindSpore measures; here the device that steps run on."""

    CPU = "CPU"
    NPU = "NPU"
    GPU = "GPU"


class ProfilerAction(Enum):
    """What MindSpore's profiler does in a step of a schedule."""

    NONE = 0
    WARM_UP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


AicoreMetrics = Enum(
    "AicoreMetrics",
    "AiCoreNone ArithmeticUtilization Memory MemoryL0 MemoryUB PipeUtilization ResourceConflictRatio L2Cache",
)


class Profiler:
    """Writes where the time of every compiled step goes to `output_path`, one file for each, when it is analysed.

    `analyse` (and the end of a `with`) measures steps again, on zeros and on a copy of their state, as `step.profile`
    does, but for those with a loop that inputs end; nothing is recorded while the script runs, and nothing changes.
    Options of MindSpore change nothing. No method raises: what cannot be measured or written is a warning.
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
        """Begin to count the time."""
        self._began = time.perf_counter()

    def stop(self) -> None:
        """End to count the time, which `seconds` then has."""
        if self._began is not None:
            self.seconds += time.perf_counter() - self._began
            self._began = None

    def step(self) -> None:
        """Nothing: a step needs no mark."""

    def analyse(self, *args: object, **options: object) -> None:
        """Measure every step that is compiled, and write what it takes."""
        self.stop()
        for number, step in enumerate(_compiled_steps()):
            try:
                text = _measured(step)
                folder = Path(self.output_path)
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"step_{number}.txt").write_text(text, encoding="utf-8")
            except (GraphlsError, OSError, ValueError) as error:
                warn(f"A step could not be profiled: {error}")

    def op_analyse(self, *args: object, **options: object) -> str:
        """The profiles as text."""
        return "\n\n".join(map(_measured, _compiled_steps()))

    def add_metadata(self, key: str, value: str) -> None:
        """Nothing: there is no file for it."""

    def add_metadata_json(self, key: str, value: str) -> None:
        """Nothing: there is no file for it."""


profile = Profiler


def analyse(profiler_path: str, *args: object, **options: object) -> None:
    """Nothing: profiles are texts when they are written."""


def schedule(
    *, wait: int = 0, active: int = 1, warmup: int = 0, repeat: int = 0, skip_first: int = 0
) -> Callable[[int], ProfilerAction]:
    """Which steps MindSpore records."""

    def action(step: int) -> ProfilerAction:
        length, position = wait + warmup + active, step - skip_first
        if position < 0 or (repeat and position >= repeat * length) or position % length < wait:
            return ProfilerAction.NONE
        if position % length < wait + warmup:
            return ProfilerAction.WARM_UP
        return ProfilerAction.RECORD if position % length < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(*args: object, **options: object) -> Callable[..., None]:
    """A function that does nothing: profiles are texts."""
    return lambda *given: None


class DynamicProfilerMonitor(Callback):
    """A callback that does nothing: MindSpore's turns its profiler on where a file says so."""

    def __init__(self, cfg_path: str | None = None, output_path: str = "dyn_profile_data", **options: object) -> None:
        self.cfg_path, self.output_path = cfg_path, output_path

    def step(self) -> None:
        """Nothing."""


class EnvProfiler:
    """What the environment variable MS_PROFILER_OPTIONS starts: nothing."""

    def analyse(self) -> None:
        """Nothing."""


class _ExperimentalConfig:
    """Settings of MindSpore's profiler, kept as they are given."""

    def __init__(self, **options: object) -> None:
        self.__dict__.update(options)


class mstx:
    """Marks on a time line of MindSpore's tools; here they are nothing."""

    @staticmethod
    def mark(message: str, *args: object) -> None:
        """Nothing."""

    @staticmethod
    def range_start(message: str, *args: object) -> int:
        """Nothing; gives 0."""
        return 0

    @staticmethod
    def range_end(range_id: int, *args: object) -> None:
        """Nothing."""

    @staticmethod
    @contextmanager
    def range(message: str, *args: object) -> Any:
        """Nothing around a block."""
        yield


def _compiled_steps() -> list[Compiled]:
    return [found for found in gc.get_objects() if isinstance(found, Compiled)]


def _measured(step: Compiled) -> str:
    """What a step takes, on zeros; raises GraphRuntimeError for one with a loop, which may have no end on zeros."""
    if any(node.primitive.name == "while_loop" for node in walk(step.graph)):
        raise GraphRuntimeError("It has a loop that inputs end; call `step.profile` with inputs that do.")
    inputs = [np.zeros(value.type.shape, value.type.dtype.numpy) for value in step.graph.inputs]
    return f"{step!r}{os.linesep}{measure(step._step, inputs, 5)}"
