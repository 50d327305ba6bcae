"""Times of nodes, summed by primitive, by cell and by phase."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from operator import attrgetter

from graphls.inspect.cell_tree import CellEntry, CellTree, cell_names
from graphls.inspect.summary.plan import SegmentRow
from graphls.ir.graph import PHASES, Node
from graphls.runtime.kernels import Run, SegmentRun


@dataclass(frozen=True)
class Cost:
    """The cost of some nodes: kernels and seconds per step, and the share of the time of the step."""

    kernels: float
    seconds: float
    share: float


@dataclass(frozen=True)
class PrimitiveTime(Cost):
    """All nodes of one primitive.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> x = np.ones((8, 8), np.float32)
        >>> profile = graphls.compile(lambda x: x @ x, x).profile(x, steps=2)
        >>> (matmul,) = profile.by_primitive
        >>> matmul.primitive, matmul.nodes
        ('matmul', 1)
    """

    primitive: str
    nodes: int


@dataclass(frozen=True)
class PhaseTime(Cost):
    """All nodes of one phase.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> x = np.ones((8, 8), np.float32)
        >>> profile = graphls.compile(lambda x: x @ x, x).profile(x, steps=2)
        >>> [each.phase for each in profile.by_phase]
        ['forward', 'backward', 'check', 'update']
    """

    phase: str


@dataclass(frozen=True)
class NodeTime(Cost):
    """One node, without those in its regions.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> x = np.ones((8, 8), np.float32)
        >>> profile = graphls.compile(lambda x: x @ x, x).profile(x, steps=2)
        >>> (each,) = profile.by_node
        >>> each.node.primitive.name, each.seconds > 0
        ('matmul', True)
    """

    node: Node


@dataclass(frozen=True)
class CollectiveTime(NodeTime):
    """A collective: its bytes, and the seconds for which the step waits for it, per step.

    For the rest of its seconds it runs beside other segments.
    """

    bytes: int
    waited: float


@dataclass(frozen=True)
class CellTime(Cost):
    """A cell and those inside it: its name, its depth in the tree, and its seconds by phase.

    The first one stands for the step; its name is empty.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> x = np.ones((8, 8), np.float32)
        >>> profile = graphls.compile(nn.SequentialCell(nn.Dense(8, 8)), x).profile(x, steps=2)
        >>> [(each.name, each.depth) for each in profile.by_cell]
        [('', 0), ('0', 1)]
    """

    name: str
    depth: int
    phases: Mapping[str, float]


@dataclass(frozen=True)
class SegmentTime(Cost):
    """One segment of the plan: its row of the plan, and the number of steps in which it ran.

    Its seconds are those from its call to its end, of which its nodes take `in_nodes`. For `hidden` of them other
    segments ran as well.
    """

    segment: SegmentRow
    in_nodes: float
    ran: int
    hidden: float = 0.0


@dataclass
class _CellSums:
    kernels: float = 0.0
    phases: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


@dataclass(frozen=True)
class Costs:
    """Kernels and seconds per step of each node, and the seconds of a step, which all shares refer to."""

    kernels: Mapping[Node, float]
    seconds: Mapping[Node, float]
    step_seconds: float

    def of(self, nodes: Iterable[Node]) -> tuple[float, float, float]:
        """The fields of a Cost."""
        nodes = list(nodes)
        seconds = sum(self.seconds[node] for node in nodes)
        return sum(self.kernels[node] for node in nodes), seconds, self.share(seconds)

    def share(self, seconds: float) -> float:
        """The share of the time of a step."""
        return seconds / self.step_seconds if self.step_seconds else 0.0

    def by_primitive(self) -> tuple[PrimitiveTime, ...]:
        """The primitives, the longest first."""
        groups: dict[str, list[Node]] = {}
        for node in self.seconds:
            groups.setdefault(node.primitive.name, []).append(node)
        rows = (PrimitiveTime(*self.of(nodes), name, len(nodes)) for name, nodes in groups.items())
        return tuple(sorted(rows, key=lambda row: (-row.seconds, row.primitive)))

    def by_phase(self) -> tuple[PhaseTime, ...]:
        """Forward, backward, check and update."""
        return tuple(PhaseTime(*self.of(n for n in self.seconds if n.phase == phase), phase) for phase in PHASES)

    def by_node(self) -> tuple[NodeTime, ...]:
        """The nodes, the longest first."""
        rows = [NodeTime(*self.of([node]), node) for node in self.seconds]
        return tuple(sorted(rows, key=lambda row: -row.seconds))

    def by_collective(self, segments: Mapping[Node, SegmentTime]) -> tuple[CollectiveTime, ...]:
        """The collectives, in program order; each waits for its part of the visible time of its segment."""
        rows = []
        for node in (node for node in self.seconds if node.primitive.is_collective):
            cost, row = self.of([node]), segments.get(node)
            visible = 1.0 - row.hidden / row.seconds if row and row.seconds else 1.0
            rows.append(CollectiveTime(*cost, node, sum(v.type.nbytes for v in node.inputs), cost[1] * visible))
        return tuple(rows)

    def by_cell(self) -> tuple[CellTime, ...]:
        """The tree of cells, each before those inside it, in the order in which the graph comes to them."""
        tree = CellTree(_CellSums())
        for node, seconds in self.seconds.items():
            for path in accumulate(cell_names(node.scope), "{}.{}".format):
                tree.rows.setdefault(path, _CellSums())
            for sums in tree.around(node.scope):
                sums.kernels += self.kernels[node]
                sums.phases[node.phase] += seconds
        return tuple(self._cell(entry) for entry in tree.walk())

    def _cell(self, entry: CellEntry[_CellSums]) -> CellTime:
        kernels, phases = entry.row.kernels, dict(entry.row.phases)
        seconds = sum(phases.values())
        return CellTime(kernels, seconds, self.share(seconds), entry.name, entry.depth, phases)


def by_segment(rows: Sequence[SegmentRow], runs: Sequence[Run], step_seconds: float) -> tuple[SegmentTime, ...]:
    """The segments of a plan of several, in their order."""
    calls: defaultdict[int, list[SegmentRun]] = defaultdict(list)
    kernels: defaultdict[int, list[float]] = defaultdict(list)
    for run in runs:
        for called in run.segments:
            calls[called.number].append(called)
        for kernel in run.kernels:
            kernels[kernel.segment].append(kernel.own_seconds)
    return tuple(_segment(row, calls[row.number], kernels[row.number], len(runs), step_seconds) for row in rows)


def _segment(
    row: SegmentRow, calls: list[SegmentRun], own: list[float], steps: int, step_seconds: float
) -> SegmentTime:
    seconds, hidden = (sum(map(attrgetter(name), calls)) / steps for name in ("seconds", "hidden"))
    share = seconds / step_seconds if step_seconds else 0.0
    return SegmentTime(len(own) / steps, seconds, share, row, sum(own) / steps, len(calls), hidden)
