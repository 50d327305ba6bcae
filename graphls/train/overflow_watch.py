"""Ending a run in which nothing but overflows happens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from graphls.base.errors import GraphRuntimeError
from graphls.frontend.tensors.tensor import Tensor
from graphls.nn.amp.managers import MOST_OVERFLOWS


class OverflowWatch:
    """Raises GraphRuntimeError at the 1001st step in a row that was skipped because of an overflow.

    Flags are kept unread until as many have come as can make it that far, so that no step waits to be looked at.
    """

    def __init__(self) -> None:
        self.flags: deque[Tensor] = deque()
        self.count = 0

    def after_steps(self, overflow: Tensor, explain: Callable[[], object]) -> None:
        """Take note of the flag of a step, or the flags of several; `explain()` says what overflows."""
        self.flags.append(overflow)
        self.count += overflow.size
        if self.count > MOST_OVERFLOWS:
            self._look()
        if self.count > MOST_OVERFLOWS:
            raise GraphRuntimeError(
                f"Dynamic loss scale Continuous overflow {self.count} times, has exceeded maximum threshold. "
                f"{explain()}",
            )

    def _look(self) -> None:
        """Keep the flags since the last step that was not skipped."""
        kept: deque[Tensor] = deque()
        self.count = 0
        while self.flags:
            flags = self.flags.pop().asnumpy().reshape(-1)
            skipped = len(flags) if flags.all() else int(np.argmin(flags[::-1]))
            if skipped:
                kept.appendleft(Tensor(flags[len(flags) - skipped :]))
            self.count += skipped
            if skipped < len(flags):
                break
        self.flags = kept
