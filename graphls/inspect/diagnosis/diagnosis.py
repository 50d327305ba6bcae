"""The diagnosis of one compiled step: what is compiled for it, once, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.frontend.trace.inputs import InputCheck
from graphls.inspect.diagnosis.explain import HIGHEST, explain, largest_fitting
from graphls.inspect.diagnosis.explanation import OverflowExplanation
from graphls.inspect.diagnosis.gradients import GradientRange, GradientRanges, gradient_range
from graphls.inspect.diagnosis.probe import Array, Probe
from graphls.inspect.diagnosis.watched import WatchedStep
from graphls.ir.graph import Graph, Node, Value, definers, walk
from graphls.ir.types import DType
from graphls.passes import Pipeline
from graphls.passes.autodiff.widen import Widen
from graphls.passes.overflow.rescale import Rescale, outer_gradients
from graphls.passes.schedule.host_calls import without_effects
from graphls.passes.simplify.cse import Cse
from graphls.passes.simplify.dce import Dce
from graphls.runtime.step import Step

USUAL_FACTOR = 2.0
"""By how much a scale is lowered after an overflow where the step does not say it."""

SAFETY = 4.0
"""How much smaller the suggested scale is than the largest one that fits."""


def _may_have_changed(cell: object) -> bool:
    """Whether an update cell changed the scale in its last step; true where it does not count them."""
    if not (hasattr(cell, "current_iterator_step") and hasattr(cell, "last_overflow_iterator_step")):
        return True
    return int(cell.last_overflow_iterator_step) == int(cell.current_iterator_step) - 1


class Diagnosis:
    """Answers about a step; what it compiles for them is kept."""

    def __init__(
        self, step: Step, cells: Iterable[tuple[object, object]], traced: Graph, pipeline: Pipeline, inputs: InputCheck,
    ) -> None:  # fmt: skip
        self.step, self.cells, self.inputs = step, cells, inputs
        self.traced, self.pipeline = without_effects(traced), pipeline

    def open_probe(self, graph: Graph) -> Probe:
        """A session of a graph on the inputs and states of the step."""
        return Probe(graph, self.step)

    @cached_property
    def watched(self) -> WatchedStep:
        """The step with a watch on every float value."""
        return WatchedStep(self.traced, self.pipeline, self.open_probe)

    @cached_property
    def backward(self) -> Backward:
        """The gradients of the step, as they are and in float32."""
        return Backward(self.traced, self.pipeline, self.open_probe)

    def explain_overflow(self, inputs: tuple[object, ...]) -> OverflowExplanation:
        """See Compiled.explain_overflow."""
        arrays = self.inputs(inputs)
        return explain(self.watched, arrays, gradients(self.traced), self.lowered_by())

    def lowered_by(self) -> float:
        """By how much the last step may have divided its scale: the `scale_factor` of its update cell.

        1 where the counters of that cell say that the last step did not change the scale.
        """
        for cell, _ in self.cells:
            if hasattr(cell, "get_loss_scale") and hasattr(cell, "scale_factor"):
                return float(cell.scale_factor) if _may_have_changed(cell) else 1.0
        return USUAL_FACTOR

    def gradient_ranges(self, inputs: tuple[object, ...]) -> GradientRanges:
        """See Compiled.gradient_ranges."""
        arrays = self.inputs(inputs)
        ranges = self.backward.ranges(arrays)
        scale = self.watched.scale(self.watched.run(arrays))
        if not self.has_halves():
            return GradientRanges(ranges, scale, None, 1.0)
        largest = self.largest_scale(arrays, scale)
        return GradientRanges(ranges, scale, largest, largest and largest / SAFETY)

    def has_halves(self) -> bool:
        """Whether float16 values are made on the way; bfloat16 has the range of float32."""
        values = (v for node in walk(self.watched.graph) for v in node.outputs)
        return any(v.type.dtype.long_name == "float16" for v in values)

    def largest_scale(self, arrays: Sequence[Array], scale: float | None) -> float | None:
        """The largest power of two with which the step is finite; None where none is, or all are."""
        step = self.watched
        targets = step.checked or step.results
        if scale is None:
            return None
        factor = largest_fitting(lambda factor: step.is_finite(targets, arrays, factor), scale)
        found = None if factor is None else factor * scale
        return None if found == 2.0**HIGHEST else found


def gradients(traced: Graph) -> dict[str, tuple[Value, ...]]:
    """The gradients of every state that the outer `gradient` nodes of a traced graph take, by its name."""
    found: dict[str, tuple[Value, ...]] = {}
    top = set(traced.nodes)
    for node in reversed([n for n in outer_gradients(traced) if n in top]):
        start = 2 * node.attrs["of"]
        for source, gradient in zip(node.inputs[start : start + node.attrs["wrt"]], node.outputs, strict=True):
            if source.is_state:
                found[source.name] = (*found.get(source.name, ()), gradient)
    return found


@dataclass(frozen=True)
class _Part:
    name: str
    dtype: DType


class Backward:
    """The scaled gradients of a step, in two probes: as they are, and with the backward in float32."""

    def __init__(self, traced: Graph, pipeline: Pipeline, open_probe: Callable[[Graph], Probe]) -> None:
        found = gradients(traced)
        if not found:
            message = "This step takes no gradients of parameters, or only inside of branches."
            raise GraphValueError(message)
        wanted = tuple(v for values in found.values() for v in values)
        named = traced.replace(name=f"{traced.name}_gradients", outputs=wanted)
        made = Pipeline((Rescale(), *pipeline.passes)).run(named, keep=False, source="trace").graph
        names = [name for name, values in found.items() for _ in values]
        definer = definers(made.nodes)
        leaves = [(n, leaf) for n, v in zip(names, made.outputs, strict=False) for leaf in parts(v, definer)]
        self.parts = [_Part(name, leaf.type.dtype) for name, leaf in leaves]
        outputs = tuple(leaf for _, leaf in leaves)
        only = made.replace(outputs=outputs, writes=())
        self.narrow = open_probe(Pipeline((Dce(),)).run(only, keep=False).graph)
        self.wide = open_probe(Pipeline((Widen(), Cse(), Dce())).run(only, keep=False).graph)

    @property
    def dtypes(self) -> set[DType]:
        """The dtypes in which gradients are computed."""
        return {part.dtype for part in self.parts}

    def ranges(self, arrays: Sequence[Array]) -> tuple[GradientRange, ...]:
        """The range of every gradient, for these inputs, at the present scale."""
        found = list(zip(self.parts, self.narrow.run(arrays), self.wide.run(arrays), strict=True))
        keys: Iterable[_Part] = dict.fromkeys(self.parts)
        groups: Mapping[_Part, list[tuple[Any, Any]]] = {k: [(n, w) for p, n, w in found if p == k] for k in keys}
        return tuple(gradient_range(k.name, k.dtype, *zip(*pairs, strict=True)) for k, pairs in groups.items())


def parts(value: Value, definer: Mapping[Value, Node]) -> list[Value]:
    """The 16-bit values that a gradient is the sum of behind casts; the gradient itself where there are none."""
    return list(dict.fromkeys(_halves(value, definer))) or [value]


def _halves(value: Value, definer: Mapping[Value, Node]) -> list[Value]:
    node = definer.get(value)
    if value.type.dtype.is_half:
        return [value]
    if node is None or not (node.primitive.is_transparent or node.primitive.name == "add"):
        return []
    if node.inputs[0].type.size != value.type.size:  # a number that is repeated is a part with other elements
        return []
    return [half for v in node.inputs for half in _halves(v, definer)]
