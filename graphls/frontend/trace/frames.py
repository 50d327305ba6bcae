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
        """The record of an earlier run at this point; None behind its end."""
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
