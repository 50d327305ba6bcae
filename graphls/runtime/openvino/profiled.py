"""A profiled OpenVINO segment, with operator times attributed to graph nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from graphls.ir.graph import Node, Value
from graphls.ir.plan import Segment
from graphls.runtime.engine import PlanContext
from graphls.runtime.kernels import Kernel, Run
from graphls.runtime.lowering.lowering import Lowered, Lowering
from graphls.runtime.lowering.protos import operators
from graphls.runtime.openvino.part import OpenvinoPart
from graphls.runtime.openvino.runtime import EXACT


class ProfiledOpenvinoPart(OpenvinoPart):
    """A segment that OpenVINO times.

    It gives the mean of each operator over all runs so far, in whole microseconds, so that a run has what its total
    has grown by; and no start, so that operators stand one behind the other in the order of the model.
    """

    settings: Mapping[str, object] = {**EXACT, "PERF_COUNT": True}

    def __init__(self, segment: Segment, context: PlanContext, lowering: type[Lowering] = Lowering) -> None:
        super().__init__(segment, context, lowering)
        self.nodes = attribution(self.model.lowered, self.compiled)
        self.totals: dict[str, int] = {}
        self.runs: list[Run] = []
        self.request: Any = None

    def begin(self, fed: Mapping[Value, Any]) -> partial[object]:
        """Bind what this step is fed and gives."""
        call = super().begin(fed)
        self.request = self.turn()
        return call

    def end(self) -> Mapping[Value, Any]:
        """The results of the step that are in no boundary buffer; the times of its operators are noted."""
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

    An operator has the name of one that was lowered or of what this makes, with more behind it or before it where it
    was changed; or it stands for several, of which the last one counts. What is known by no name belongs to the
    operator that reads it.
    """
    origins = _origins(lowered)
    found: dict[str, Node] = {}
    for operator in reversed(model.get_runtime_model().get_ordered_ops()):
        name = operator.get_friendly_name()
        several = operator.get_rt_info()["originalLayersNames"].astype(str).split(",")
        named = (_named(n, origins) for n in (name, *reversed(several)))
        readers = (target.get_node() for output in operator.outputs() for target in output.get_target_inputs())
        read = (found.get(reader.get_friendly_name()) for reader in readers)
        node = next((n for n in (*named, *read) if n is not None), None)
        if node is not None:
            found[name] = node
    return found


def _origins(lowered: Lowered) -> dict[str, Node]:
    """The nodes by the names of their operators, and of what these give."""
    made = (
        (n, lowered.origins[o.name]) for o in operators(lowered.model.graph.node) if o.name in lowered.origins
        for n in (*o.output, o.name)
    )  # fmt: skip
    return dict(made)


def _named(name: str, origins: Mapping[str, Node]) -> Node | None:
    while name and name not in origins:
        name = name.rpartition("/")[0]
    return origins.get(name)
