"""What `step.profile` answers, as an object, as text, as HTML and as a trace."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from math import fsum
from pathlib import Path

from graphls.backends.kernels import Kernel, Run
from graphls.ir.graph import Graph, Node, walk
from graphls.profile.memory import Held, Memory
from graphls.profile.report import headline, tables
from graphls.profile.shares import CellTime, Costs, NodeTime, PhaseTime, PrimitiveTime
from graphls.text.html import Page


@dataclass(frozen=True, repr=False)
class Profile:
    """The time of the nodes of a step, and its memory.

    Times are in seconds, means over the steps that were recorded. `step_seconds` is the time of a step from the call to
    its outputs, under the profiler, and `unprofiled_seconds` without it. `backend` says what ran, `requested` how many
    steps were asked for, `skipped` how many of those recorded overflowed. `runs` has the kernels of each, and
    `memory` says what is held when, in bytes.
    """

    graph: Graph
    backend: str
    step_seconds: float
    unprofiled_seconds: float
    requested: int
    skipped: int
    runs: tuple[Run, ...]
    memory: Memory

    @property
    def steps(self) -> int:
        """How many steps were recorded: fewer than requested where the profile of ONNX Runtime was full."""
        return len(self.runs)

    @cached_property
    def node_seconds(self) -> dict[Node, float]:
        """The time of each node per step, of those in regions too; a node with regions has its own, without theirs."""
        times: dict[Node, list[float]] = {node: [] for node in walk(self.graph)}
        for kernel in self._kernels():
            if kernel.node is not None:
                times[kernel.node].append(kernel.own_seconds)
        return {node: fsum(seconds) / self.steps for node, seconds in times.items()}

    @property
    def other_seconds(self) -> float:
        """What of a step is in no node: the call, binding of inputs and outputs, and the profiler itself."""
        return self.step_seconds - fsum(self.node_seconds.values())

    @property
    def peak(self) -> int:
        """The largest memory of a step in bytes, states included."""
        return self.memory.peak

    @property
    def live(self) -> tuple[Held, ...]:
        """The values that are alive where memory is largest, the largest first."""
        return self.memory.live

    @property
    def by_primitive(self) -> tuple[PrimitiveTime, ...]:
        """The time of each primitive, the longest first."""
        return self._costs.by_primitive()

    @property
    def by_cell(self) -> tuple[CellTime, ...]:
        """The time of each cell with those inside it: the tree of cells, from the whole step down."""
        return self._costs.by_cell()

    @property
    def by_phase(self) -> tuple[PhaseTime, ...]:
        """The time of forward, backward, check and update."""
        return self._costs.by_phase()

    @property
    def by_node(self) -> tuple[NodeTime, ...]:
        """The time of each node, the longest first."""
        return self._costs.by_node()

    def save_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the steps as a file of Chrome's trace format, which chrome://tracing and Perfetto open.

        It has tracks for steps, phases, cells and kernels, and as many whole steps as have 100,000 kernels, one at
        least. Raises GraphFileError where the file cannot be written.
        """
        from graphls.files.files import write_parts
        from graphls.profile.trace import trace_parts

        write_parts(Path(path), trace_parts(self.graph.name, self.runs))

    @cached_property
    def _costs(self) -> Costs:
        calls = Counter(kernel.node for kernel in self._kernels())
        kernels = {node: calls[node] / self.steps for node in self.node_seconds}
        return Costs(kernels, self.node_seconds, self.step_seconds)

    def _kernels(self) -> list[Kernel]:
        return [kernel for run in self.runs for kernel in run.kernels]

    def __str__(self) -> str:
        return "\n\n".join([headline(self), *("\n".join(table.lines()) for table in tables(self))])

    def __repr__(self) -> str:
        return f"<Profile of @{self.graph.name}: {1000 * self.step_seconds:.3f} ms per step>"

    def _repr_html_(self) -> str:
        page = Page("Profile", headline(self))
        for table in tables(self):
            table.add_to(page)
        return page.text()
