"""The call stack of a trace: settings during a call, records of cell calls, and logs that later runs replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import CellType
from typing import Any

from graphls.base.errors import TraceError
from graphls.base.location import Location
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.trace.casting import Casting
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import DType


@dataclass(frozen=True)
class Recorded:
    """One recorded action of a construct: a node that it emitted, or a cell call with the states that it wrote."""

    kind: str
    outputs: Any
    writes: tuple[tuple[Parameter, Value], ...] = ()


@dataclass
class Frame:
    """One run of a construct: its log, and the position up to which an earlier log has been replayed."""

    log: list[Recorded] = field(default_factory=list)
    cursor: int = 0
    constants: dict[Any, Value] = field(default_factory=dict)
    sites: list[int] = field(default_factory=list)
    sites_used: int = 0

    def replayed(self, kind: str) -> Recorded | None:
        """The record of an earlier run at this point; None after its end."""
        if self.cursor >= len(self.log):
            return None
        recorded = self.log[self.cursor]
        if recorded.kind != kind:
            raise TraceError(
                f"A construct that branches on a tensor must do the same each time, but did {kind} where it "
                f"did {recorded.kind} before; do not let it depend on what changes between two runs."
            )
        self.cursor += 1
        return recorded

    def record(self, entry: Recorded) -> None:
        """Append a record to the log."""
        self.log.append(entry)
        self.cursor += 1

    def site(self, fresh: Iterator[int]) -> int:
        """The number of a random call site, equal in all runs."""
        if self.sites_used == len(self.sites):
            self.sites.append(next(fresh))
        self.sites_used += 1
        return self.sites[self.sites_used - 1]

    def branch(self) -> Frame:
        """The frame of another run, which replays this log first."""
        return Frame(list(self.log), sites=list(self.sites))


class Fork(BaseException):
    """Raised where a path reaches a condition without a known answer."""

    def __init__(self, condition: Value, loc: Location | None) -> None:
        self.condition, self.loc = condition, loc


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
    stage: int | None = None
    """The pipeline stage of the cell, or of the cells that call it."""
    micro: int | None = None
    """The part of the batch that the network runs on."""
    float_type: DType | None = None
    """The `to_float` of the cell."""
    casting: Casting | None = None
    in_loop: bool = False
    """Whether this is an iteration of a loop, which is traced again where it writes states that are not carried yet."""
    in_branch: bool = False
    """Whether this is a branch of a condition on a tensor."""
    shown: list[Any] = field(default_factory=list)
    """The prints of this branch or loop (`Shown`), which are emitted after it."""
    records: tuple[list[CallRecord], ...] = field(default_factory=lambda: ([],))
    """The calls so far in the graph and in each enclosing region, whose forward a gradient may reuse."""
    decided: Mapping[Value, bool] = field(default_factory=dict)
    """Conditions whose answer is known in this branch."""
    partial: dict[tuple[Value, bool], list[tuple[CellType, Any]]] = field(default_factory=dict)
    """Variables that have a value only where a condition has an answer, with that value."""
