"""The interface between a plan and the parts that its engines open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from graphls.base.sharing.arrays import Scratch
from graphls.base.sharing.storage import Version
from graphls.ir.graph import Graph, Value
from graphls.ir.plan import Plan, Segment
from graphls.runtime.devices import Cuda
from graphls.runtime.session import Session
from graphls.runtime.states import HasStorage

if TYPE_CHECKING:
    from graphls.runtime.kernels import FusedKernel, Run

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class PlanContext:
    """The context of a plan that its parts share when they are opened.

    `owner` is the session of the `plan`. `swapped` are the states that have two buffers, with the versions by which
    these change places. `boundary_buffers` are the arrays in which values cross between segments, in the dtypes in
    which they are exchanged; they never move. A value that only parts of one engine exchange may have a `private` form
    instead; `forms` tell of the forms in which states are held, by the name of an engine that has its own, and of what
    else the parts of one engine share. What a part needs for itself in the last call of a step may lie in `scratch`.
    The segments of `pre_flag` run before the host reads the flag, in Python, and may be run once more.
    """

    owner: Session
    plan: Plan
    parameters: Mapping[str, HasStorage]
    device: str | Cuda
    swapped: Mapping[str, Version]
    boundary_buffers: Mapping[Value, Array]
    pre_flag: frozenset[Segment]
    private: dict[Value, Any] = field(default_factory=dict)
    forms: dict[str, Any] = field(default_factory=dict)
    scratch: Scratch = field(default_factory=Scratch)


class Part(Protocol):
    """One segment, opened by its engine. Each step it is begun, run and ended, in this order.

    `seen` is the count of replaced buffers up to which its states are known to be where it has bound them.
    """

    seen: int
    graph: Graph

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """A callable that runs this segment on the step's inputs; values that cross lie in boundary buffers.

        Where the engine does not run Python, that is a callable that is not a function of Python, so that no Ctrl-C can
        land in it.
        """

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer, by the values of the plan."""

    def failed(self, error: Exception) -> Exception:
        """The user's error for an error of the engine; states that may be half written are invalidated."""

    def invalidate(self, reason: str) -> None:
        """Mark the states that this segment wrote in place, since a later one has failed."""


class WrappedPart:
    """A part that delegates to another one; subclasses override how it begins or ends."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.graph = part.graph

    @property
    def seen(self) -> int:
        return self.part.seen

    @seen.setter
    def seen(self, count: int) -> None:
        self.part.seen = count

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        return self.part.begin(fed)

    def end(self) -> Mapping[Value, Any]:
        return self.part.end()

    def failed(self, error: Exception) -> Exception:
        return self.part.failed(error)

    def invalidate(self, reason: str) -> None:
        self.part.invalidate(reason)


@runtime_checkable
class Overlaps(Protocol):
    """A part that can compute beside Python where it is the only one of a plan."""

    def overlap(self) -> bool:
        """Whether each step from now on runs until `wait` returns, since nothing in it is tested."""

    def wait(self) -> None:
        """Wait for the end of the step; raises what has failed there."""


@runtime_checkable
class Fuses(Protocol):
    """A part that knows which of its nodes are computed together."""

    def kernels(self) -> list[FusedKernel]:
        """The kernels of the segment, each with its nodes."""


class ProfiledPart(Part, Protocol):
    """A part that takes the time of each of its nodes."""

    def profile(self) -> list[Run]:
        """The kernels of each run, up to the first that is not known; asked for once, behind the last run.

        Times count from a beginning of its own. The nodes are those of the graph of the segment.
        """


@runtime_checkable
class Profiles(Protocol):
    """An engine that can say how long the nodes of a segment take; of another one a profile has whole segments."""

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """A timed part as `open` gives it, which writes its profile to an empty folder.

        The names in the segment are plain, in letters and digits.
        """

    def title(self, device: str) -> str:
        """The name and the version of the engine, in words."""
