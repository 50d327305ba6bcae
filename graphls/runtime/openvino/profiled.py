"""A profiled OpenVINO segment, with operator times attributed to graph nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from graphls.ir.graph import Node, Value
from graphls.ir.plan import Segment
from graphls.runtime.array_part import Array
from graphls.runtime.engine import PlanContext
from graphls.runtime.kernels import Kernel, Run
from graphls.runtime.lowering.lowering import Lowered, Lowering
from graphls.runtime.lowering.protos import operators
from graphls.runtime.openvino.part import NO_FLAGS, OpenvinoPart
from graphls.runtime.openvino.runtime import EXACT


class ProfiledOpenvinoPart(OpenvinoPart):
    """A segment that OpenVINO times.

    OpenVINO reports the mean time of each operator over all runs so far, in whole microseconds: the time in one run is
    the growth of its total. It reports no start times, so operators follow each other in the order of the model.
    """

    settings: Mapping[str, object] = {**EXACT, "PERF_COUNT": True}

    def __init__(
        self, segment: Segment, context: PlanContext, lowering: type[Lowering] = Lowering,
        flags: Mapping[str, Array] = NO_FLAGS,
    ) -> None:  # fmt: skip
        super().__init__(segment, context, lowering, flags)
        self.nodes = attribution(self.model.lowered, self.compiled)
        self.totals: dict[str, int] = {}
        self.runs: list[Run] = []
        self.request: Any = None

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """Bind the inputs and results of this step."""
        call = super().begin(fed)
        self.request = self.turn()
        return call

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer; records the times of its operators."""
        self.runs.append(Run(0.0, 0.0, tuple(self._kernels(len(self.runs) + 1))))
        return super().end()

    def profile(self) -> list[Run]:
        """The kernels of each run."""
        return self.runs

    def _kernels(self, runs: int) -> Iterator[Kernel]:
        start = 0.0
        for name, operator, mean in self.request.times():
            grown = max(0, runs * mean - self.totals.get(name, 0))
            self.totals[name] = self.totals.get(name, 0) + grown
            yield Kernel(self.nodes.get(name), operator, start, grown / 1e6, grown / 1e6)
            start += grown / 1e6


def attribution(lowered: Lowered, model: Any) -> dict[str, Node]:
    """The node of each operator of a compiled model, by the operator's name.

    An operator has the name of a lowered operator or of its result, with a prefix or suffix where OpenVINO changed it;
    or it stands for several, of which the last one counts. An operator of no known name belongs to the one that reads
    its result.
    """
    origins = _origins(lowered)
    nodes: dict[str, Node] = {}
    for operator in reversed(model.get_runtime_model().get_ordered_ops()):
        name = operator.get_friendly_name()
        several = operator.get_rt_info()["originalLayersNames"].astype(str).split(",")
        named = (_named(n, origins) for n in (name, *reversed(several)))
        readers = (target.get_node() for output in operator.outputs() for target in output.get_target_inputs())
        read = (nodes.get(reader.get_friendly_name()) for reader in readers)
        node = next((n for n in (*named, *read) if n is not None), None)
        if node is not None:
            nodes[name] = node
    return nodes


def _origins(lowered: Lowered) -> dict[str, Node]:
    """The nodes by the names of their operators, and of the results of these."""
    pairs = (
        (n, lowered.origins[o.name]) for o in operators(lowered.model.graph.node) if o.name in lowered.origins
        for n in (*o.output, o.name)
    )  # fmt: skip
    return dict(pairs)


def _named(name: str, origins: Mapping[str, Node]) -> Node | None:
    while name and name not in origins:
        name = name.rpartition("/")[0]
    return origins.get(name)
