"""What a plan and the parts that its engines open know of each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from graphls.backends.devices import Cuda
from graphls.backends.session import Session
from graphls.backends.states import HasStorage
from graphls.ir.graph import Graph, Value

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Bench:
    """What the parts of a plan work on.

    `owner` is the session of the plan, whose clock swaps states that have two buffers, `swapped`. `slots` are the
    arrays in which values cross between segments, in the dtypes in which they are exchanged; they never move.
    """

    owner: Session
    parameters: Mapping[str, HasStorage]
    device: str | Cuda
    swapped: frozenset[str]
    slots: Mapping[Value, Array]


class Part(Protocol):
    """One segment, opened by its engine. Each step it is begun, run and ended, in this order.

    `seen` is the count of replaced buffers up to which its states are known to be where it has bound them.
    """

    seen: int
    graph: Graph

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """What runs this segment on values that the step was fed, those that cross lie in their slots.

        Where the engine does not run Python, that is a callable that is no function of Python, so that no Ctrl-C can
        land in it.
        """

    def end(self) -> Mapping[Value, Any]:
        """What the step that was run gives and is in no slot, by the values of the plan."""

    def failed(self, error: Exception) -> Exception:
        """What a user is told of an error of the engine; states that may be half written are marked."""

    def spoil(self, reason: str) -> None:
        """Mark the states that this segment wrote in place, since a later one has failed."""
