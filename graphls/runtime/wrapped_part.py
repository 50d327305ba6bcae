"""A part that delegates to another part."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from graphls.ir.graph import Value
from graphls.runtime.engine import Part


class WrappedPart:
    """A part that does what another one does; what is around it overrides how it begins or ends."""

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
