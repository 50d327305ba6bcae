"""Records of construct runs, which later runs replay up to a new branch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graphls.base.errors import TraceError
from graphls.base.location import Location
from graphls.frontend.tensors.parameter import Parameter
from graphls.ir.graph import Value


@dataclass(frozen=True)
class Recorded:
    """One thing that a construct did: a node it made, or a cell it called and the states that this wrote."""

    kind: str
    outputs: Any
    writes: tuple[tuple[Parameter, Value], ...] = ()


@dataclass
class Frame:
    """One run of a construct: what it has done so far, and how much of that is being repeated."""

    log: list[Recorded] = field(default_factory=list)
    cursor: int = 0
    constants: dict[Any, Value] = field(default_factory=dict)
    sites: list[int] = field(default_factory=list)
    sites_used: int = 0

    def replayed(self, kind: str) -> Recorded | None:
        """The record at this point of an earlier run; None where this run goes on alone."""
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
        """Remember what was done."""
        self.log.append(entry)
        self.cursor += 1

    def site(self, fresh: Iterator[int]) -> int:
        """The number of a random call site, the same in every run."""
        if self.sites_used == len(self.sites):
            self.sites.append(next(fresh))
        self.sites_used += 1
        return self.sites[self.sites_used - 1]

    def branch(self) -> Frame:
        """The frame of a run that repeats everything so far and then goes on alone."""
        return Frame(list(self.log), sites=list(self.sites))


class Fork(BaseException):
    """A path has come to a condition that it has no answer for."""

    def __init__(self, condition: Value, loc: Location | None) -> None:
        self.condition, self.loc = condition, loc
