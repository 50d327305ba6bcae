"""The call stack of a trace: the settings in force during a call, and the record of a cell call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CellType
from typing import Any

from graphls.base.location import Location
from graphls.frontend.trace.casting import Casting
from graphls.frontend.trace.frames import Frame
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import DType


@dataclass
class CallRecord:
    """The inputs and results of a cell call, so that a gradient can reuse its forward.

    `start` and `end` are the counts of writes before and after it.
    """

    cell: Any
    inputs: tuple[Any, ...]
    outputs: Any
    start: int
    end: int


@dataclass(frozen=True)
class CellCall:
    """A call of a cell: its path of names, its class, and the values that it returned."""

    path: str
    kind: str
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Call:
    """The running call, and the settings for all nodes emitted until it ends.

    A tracer has a stack of these. The call of a cell, a phase of a step, a run of a construct and a region each push
    one, which differs from the one below in the settings that they change.
    """

    builder: Builder
    """Takes the nodes of the graph, or of the region that is being traced."""
    frame: Frame = field(default_factory=Frame)
    """The record of the run of a construct so far."""
    cell: Any = None
    scope: str = ""
    phase: str = "forward"
    loc: Location | None = None
    """The line for new nodes where it is not the running one, as for models of other frameworks."""
    float_type: DType | None = None
    """The `to_float` of the cell."""
    casting: Casting | None = None
    in_loop: bool = False
    """Whether this is an iteration of a loop, which is traced again where it writes states that are not carried yet."""
    in_branch: bool = False
    """Whether this is a branch of a condition on a tensor."""
    shown: list[Any] = field(default_factory=list)
    """The prints of this branch or loop (`Shown`), which are emitted behind it."""
    records: tuple[list[CallRecord], ...] = field(default_factory=lambda: ([],))
    """The calls so far in the graph and in each enclosing region, whose forward a gradient may reuse."""
    decided: Mapping[Value, bool] = field(default_factory=dict)
    """Conditions whose answer is known in this branch."""
    partial: dict[tuple[Value, bool], list[tuple[CellType, Any]]] = field(default_factory=dict)
    """Variables that have a value only where a condition has an answer, with that value."""
