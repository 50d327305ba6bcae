"""A profiled segment of oneDNN: the time of each call, attributed to the node that it is for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import Any

from graphls.ir.plan import Segment
from graphls.runtime.engine import PlanContext
from graphls.runtime.kernels import Kernel, Run
from graphls.runtime.onednn.part import SUCCESS, OnednnPart
from graphls.runtime.onednn.program.calls import AnyCall, Call


class ProfiledOnednnPart(OnednnPart):
    """A segment whose calls are timed one by one, reorders among them, in Python."""

    def __init__(self, segment: Segment, context: PlanContext) -> None:
        super().__init__(segment, context)
        self.runs: list[Run] = []
        self.begun = perf_counter()

    def _compile(self) -> None:
        super()._compile()
        self.operators = [_operator(call) for call in self.program.calls]

    def profile(self) -> list[Run]:
        """The kernels of each run."""
        return self.runs

    def _running(self, calls: Iterator[partial[Any]]) -> partial[Any]:
        return partial(self._timed, calls)

    def _timed(self, calls: Iterator[partial[Any]]) -> None:
        kernels: list[Kernel] = []
        first = start = perf_counter() - self.begun
        for call, operator, run in zip(self.program.calls, self.operators, calls, strict=True):
            SUCCESS[run()]
            end = perf_counter() - self.begun
            node = call.node and self.rewritten.origin(call.node)
            kernels.append(Kernel(node, operator, start, end - start, end - start))
            start = end
        self.runs.append(Run(first, start - first, tuple(kernels)))


def _operator(call: AnyCall) -> str:
    """What runs, with the kernel that oneDNN has chosen."""
    return f"{call.kind}, {call.primitive.implementation}" if isinstance(call, Call) else f"{call.kind}, NumPy"
