"""The engine "auto": the fastest engine for a step, measured once for a step on a machine, and remembered.

A choice depends on the graph, the versions of the engines and the machine. It is written to the folder of the compile
cache, or that of the user where none is set, so that a step has the same engine, and gives the same bits, in every run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from math import inf

from graphls.base.errors import GraphlsError, GraphValueError
from graphls.base.reporting import warn, was_interrupted
from graphls.base.text.plain import short
from graphls.distributed.world import world
from graphls.ir.engines import candidates, find_engine
from graphls.ir.flops import flops
from graphls.ir.graph import Graph, walk
from graphls.ir.plan import DEFAULT, plan_of
from graphls.runtime.cache import Cache, current, default_folder, key_of
from graphls.runtime.engine_trial import seconds_of_step
from graphls.runtime.session import Inputs
from graphls.runtime.states import HasStorage
from graphls.runtime.target import ExecutionTarget
from graphls.runtime.threads import thread_limit

EQUAL = 1.05
"""Times up to this ratio count as equal; then the engine that is registered first is chosen."""

FEWEST_FLOPS = 1_000_000
"""Floating point operations of a step below which a trial would take longer than the fastest engine would save."""

ENDING = ".engine"
LIMIT = 64 * 2**20
"""Bytes that the choices in a folder take at most: those of 8,000 steps."""

_PART = "choice"
_unwritten: dict[str, Choice] = {}
"""Choices of this process that could not be written, by their keys."""


@dataclass(frozen=True)
class Choice:
    """The engine that "auto" has chosen for the step `step`, with the reason, as a sentence when printed.

    `seconds` are the measured times of a step by engine, None for one that failed, on the day `date`. Where there was
    no trial they are empty, and `reason` says why.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> step = graphls.compile(nn.Dense(3, 4), np.ones((2, 3), np.float32), engine="auto")
        >>> step.engine_choice.engine
        'onnxruntime'
        >>> print(step.engine_choice)
        Engine: onnxruntime, without a trial, as the step is small (56 FLOPs).
    """

    engine: str
    step: str = ""
    seconds: Mapping[str, float | None] = field(default_factory=dict)
    date: str = ""
    reason: str = ""

    def __str__(self) -> str:
        return f"Engine: {self.engine}, {self.explanation}."

    @property
    def explanation(self) -> str:
        """The reason for the engine in words."""
        own = self.seconds.get(self.engine)
        if own is None:
            return self.reason
        others = {name: seconds for name, seconds in self.seconds.items() if name != self.engine}
        compared = ", ".join(f"{name} {'failed' if s is None else _milliseconds(s)}" for name, s in others.items())
        is_equal = any(s is not None and s < own for s in others.values())
        preference = "; times within 5 % count as equal" if is_equal else ""
        return f"{_milliseconds(own)} a step ({compared}; measured on {self.date}{preference})"

    def for_further_inputs(self) -> Choice:
        """The same engine, for a step of the same cell on inputs of other types."""
        return Choice(self.engine, self.step, reason="as for the first inputs of this cell or function")


def choose_engine(
    target: ExecutionTarget, graph: Graph, parameters: Mapping[str, HasStorage], read_inputs: Callable[[], Inputs]
) -> Choice:
    """The choice for a graph: the one that was made before, or that of a trial on copies of the states.

    Where a trial is not possible or not worthwhile it is "onnxruntime".
    """
    if target.backend == "numpy":
        return Choice("numpy", graph.name, reason="as the backend is the reference interpreter")
    versions = candidates()
    if reason := _obstacle(target, graph, versions):
        return _untried(graph, reason)
    key = key_of(graph, 0, engines=versions, cores=_cores())
    if key is None:
        return _untried(graph, "as the step has primitives of your own")
    remembered = _read(key) or _unwritten.get(key)
    if remembered is not None and _is_available(remembered.engine):
        return remembered
    choice = _measured(target, graph, parameters, read_inputs, versions)
    return _remember(key, choice) if choice.seconds else choice


def _untried(graph: Graph, reason: str) -> Choice:
    return Choice(DEFAULT, graph.name, reason=f"without a trial, {reason}")


def _obstacle(target: ExecutionTarget, graph: Graph, versions: Mapping[str, str]) -> str:
    """The reason for which there is no trial; "" where there may be one."""
    if target.device != "cpu":
        return "as the device is not the CPU"
    if world().size > 1:
        return "as all ranks have to take the same engine"
    if any(node.primitive.calls_python for node in walk(graph)):
        return "as the step calls Python, which a trial must not"
    count = sum(map(flops, graph.nodes))
    if count < FEWEST_FLOPS:
        return f"as the step is small ({short(count)} FLOPs)"
    return "as no other engine is installed" if set(versions) <= {DEFAULT} else ""


def _measured(
    target: ExecutionTarget, graph: Graph, parameters: Mapping[str, HasStorage], read_inputs: Callable[[], Inputs],
    versions: Mapping[str, str],
) -> Choice:  # fmt: skip
    """The choice by a trial of the engines that run a part of the step; without times where none ran it."""
    trials = dict(_partitions(target, graph, versions))
    if set(trials) <= {DEFAULT}:
        return _untried(graph, "as no other engine runs a part of the step")
    try:
        inputs = read_inputs()
    except GraphlsError:
        return _untried(graph, "as the step cannot run on the inputs that it is compiled for")
    seconds: dict[str, float | None] = {}
    for name, trial in trials.items():
        seconds[name] = _seconds(*trial, parameters, inputs, _least(seconds))
    least = _least(seconds)
    if least == inf:
        return Choice(DEFAULT, graph.name, reason="as no engine could run the step in a trial")
    engine = next(name for name, s in seconds.items() if s is not None and s <= EQUAL * least)
    return Choice(engine, graph.name, seconds, date.today().isoformat())


def _least(seconds: Mapping[str, float | None]) -> float:
    """The seconds of the fastest engine; infinity where none has run the step."""
    return min((s for s in seconds.values() if s is not None), default=inf)


def _partitions(
    target: ExecutionTarget, graph: Graph, versions: Mapping[str, str]
) -> Iterator[tuple[str, tuple[ExecutionTarget, Graph]]]:
    """The engines that run a part of a graph, each with its target and the partition for it."""
    for name in filter(_is_available, versions):
        own = replace(target, engine=name)
        partitioned = own.partitioned(graph)
        if any(segment.engine == name for segment in plan_of(partitioned).segments):
            yield name, (own, partitioned)


def _is_available(name: str) -> bool:
    try:
        find_engine(name).check("cpu")
    except GraphlsError:
        return False
    return True


def _seconds(
    target: ExecutionTarget, graph: Graph, parameters: Mapping[str, HasStorage], inputs: Inputs, best: float
) -> float | None:
    """The seconds of a step on an engine; None, after a warning with the reason, where that fails."""
    try:
        return seconds_of_step(target, graph, parameters, inputs, best)
    except Exception as error:  # of any engine
        if was_interrupted(error):
            raise KeyboardInterrupt from None
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        warn(f"The engine {target.engine!r} could not run the step in its trial: {reason}")
        return None


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def _cores() -> tuple[object, ...]:
    """The cores and threads that this process computes on."""
    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return os.cpu_count(), len(allowed), os.environ.get("OMP_NUM_THREADS"), thread_limit()


def choices() -> Cache | None:
    """The folder of choices: that of compiled steps, or by default that of the user; None for a user without one."""
    cache = current()
    try:
        folder = cache.folder if cache else default_folder()
    except GraphValueError:
        return None
    return Cache(folder, LIMIT, ENDING, "The choice of an engine")


def remembered_choices() -> list[Choice]:
    """All choices in the folder."""
    cache = choices()
    return [choice for key in (cache.keys() if cache else ()) if (choice := _read(key))]


def _read(key: str) -> Choice | None:
    """The choice of a key in the folder; None where there is no complete one."""
    cache = choices()
    parts = cache.load(key) if cache else None
    try:
        return None if parts is None else Choice(**json.loads(bytes(parts[_PART])))
    except (ValueError, TypeError, KeyError):
        return None


def _remember(key: str, choice: Choice) -> Choice:
    """Write a choice, unless another process has written one meanwhile, which is returned then."""
    if (earlier := _read(key)) is not None:
        return earlier
    if (cache := choices()) is not None:
        cache.keep(key, {_PART: json.dumps(asdict(choice)).encode()})
    if _read(key) is None:
        _unwritten[key] = choice
    return choice
