"""Calls that run one behind the other, such as those of all iterations of a loop, as one call of a program."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from graphls.ir.graph import Node
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.calls import AnyCall


class Loop:
    """Calls, one behind the other, among which no others run; a program binds each of them."""

    kind = "loop"
    is_early = False

    def __init__(self, calls: Sequence[AnyCall], node: Node | None) -> None:
        self.calls, self.node = calls, node
        self.runs_python = any(call.runs_python for call in calls)
        written = dict.fromkeys(buffer.memory for call in calls for buffer in call.writes)
        read = dict.fromkeys(buffer.memory for call in calls for buffer in call.reads)
        self.writes: Sequence[Buffer] = [*written]
        self.reads: Sequence[Buffer] = [buffer for buffer in read if buffer not in written]

    def bound(self, binding: Any) -> partial[Any]:
        """Not bound itself."""
        raise AssertionError("A program binds the calls of a loop.")
