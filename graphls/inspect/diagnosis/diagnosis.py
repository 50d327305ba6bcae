"""The diagnosis of a compiled step: overflow explanations and gradient ranges, by variants that are compiled once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from graphls.base.errors import GraphValueError
from graphls.base.sharing.storage import array_in
from graphls.frontend.trace.inputs import InputCheck
from graphls.inspect.diagnosis.explain import HIGHEST, explain, largest_fitting
from graphls.inspect.diagnosis.explanation import OverflowExplanation
from graphls.inspect.diagnosis.gradients import GradientRange, GradientRanges, gradient_range
from graphls.inspect.diagnosis.precision import LowTensors
from graphls.inspect.diagnosis.precision_explanation import PrecisionExplanation
from graphls.inspect.diagnosis.recipe_search import RecipeSearch, search_recipe
from graphls.inspect.diagnosis.watched import Array, Probe, WatchedStep
from graphls.ir.graph import Graph, Node, Value, definers, walk
from graphls.ir.types import DType
from graphls.passes import Pipeline
from graphls.passes.autodiff.widen import Widen
from graphls.passes.overflow.rescale import Rescale, outer_gradients
from graphls.passes.precision.low_precision import LowPrecision
from graphls.passes.precision.recipes import Recipe
from graphls.passes.schedule.host_calls import without_effects
from graphls.passes.simplify.cse import Cse
from graphls.passes.simplify.dce import Dce
from graphls.runtime.step import Step

USUAL_FACTOR = 2.0
"""The factor by which a scale is lowered after an overflow, assumed where no cell of the step has one."""

SAFETY = 4.0
"""The ratio of the largest scale that fits to the suggested one."""


def _may_have_changed(cell: object) -> bool:
    """Whether an update cell may have changed the scale in its last step; true where it does not count steps."""
    if not (hasattr(cell, "current_iterator_step") and hasattr(cell, "last_overflow_iterator_step")):
        return True
    return int(cell.last_overflow_iterator_step) == int(cell.current_iterator_step) - 1


class Diagnosis:
    """Diagnoses of a step, by variants of it that are compiled at the first use."""

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

    @cached_property
    def low_tensors(self) -> LowTensors:
        """The tensors that the step rounds to low dtypes."""
        low = next((each for each in self.pipeline.passes if isinstance(each, LowPrecision)), None)
        return LowTensors(self.step.session_graph, self.open_probe, low)

    def explain_precision(self, inputs: tuple[object, ...]) -> PrecisionExplanation:
        """See Compiled.explain_precision."""
        return self.low_tensors.explain(self.inputs(inputs), self.step.parameters)

    def search_recipe(
        self, batches: Sequence[tuple[object, ...]], recipes: Sequence[Recipe], budget: float, noise: float | None
    ) -> RecipeSearch:
        """See Compiled.search_recipe."""
        if any(each.name == LowPrecision.name for each in self.pipeline.passes):
            text = "This step rounds tensors by a recipe already; end it by amp.auto_mixed_precision(net, None)"
            raise GraphValueError(f"{text}, compile the step again and search in that.")
        arrays = [[array_in(array) for array in self.inputs(batch)] for batch in batches]
        own = tuple(value for values in gradients(self.traced).values() for value in values)
        return search_recipe(self.step, self.traced, self.pipeline, own, arrays, recipes, budget, noise)

    def explain_overflow(self, inputs: tuple[object, ...]) -> OverflowExplanation:
        """See Compiled.explain_overflow."""
        arrays = self.inputs(inputs)
        return explain(self.watched, arrays, gradients(self.traced), self.lowered_by())

    def lowered_by(self) -> float:
        """The factor by which the last step may have divided its scale: the `scale_factor` of its update cell.

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
        """Whether the step computes float16 values; bfloat16 has the range of float32."""
        values = (v for node in walk(self.watched.graph) for v in node.outputs)
        return any(v.type.dtype.long_name == "float16" for v in values)

    def largest_scale(self, arrays: Sequence[Array], scale: float | None) -> float | None:
        """The largest power of two with which the step is finite; None where none is, or all are."""
        step = self.watched
        targets = step.checked or step.results
        if scale is None:
            return None
        factor = largest_fitting(lambda factor: step.is_finite(targets, arrays, factor), scale)
        largest = None if factor is None else factor * scale
        return None if largest == 2.0**HIGHEST else largest


def gradients(traced: Graph) -> dict[str, tuple[Value, ...]]:
    """The gradients of every state that the outer `gradient` nodes of a traced graph take, by its name."""
    by_state: dict[str, tuple[Value, ...]] = {}
    top = set(traced.nodes)
    for node in reversed([n for n in outer_gradients(traced) if n in top]):
        start = 2 * node.attrs["of"]
        for source, gradient in zip(node.inputs[start : start + node.attrs["wrt"]], node.outputs, strict=True):
            if source.is_state:
                by_state[source.name] = (*by_state.get(source.name, ()), gradient)
    return by_state


@dataclass(frozen=True)
class _Part:
    name: str
    dtype: DType


class Backward:
    """The scaled gradients of a step, in two probes: as they are, and with the backward in float32."""

    def __init__(self, traced: Graph, pipeline: Pipeline, open_probe: Callable[[Graph], Probe]) -> None:
        by_state = gradients(traced)
        if not by_state:
            message = "This step takes no gradients of parameters, or only inside of branches."
            raise GraphValueError(message)
        targets = tuple(v for values in by_state.values() for v in values)
        named = traced.replace(name=f"{traced.name}_gradients", outputs=targets)
        graph = Pipeline((Rescale(), *pipeline.passes)).run(named, keep=False, source="trace").graph
        names = [name for name, values in by_state.items() for _ in values]
        definer = definers(graph.nodes)
        leaves = [(n, leaf) for n, v in zip(names, graph.outputs, strict=False) for leaf in parts(v, definer)]
        self.parts = [_Part(name, leaf.type.dtype) for name, leaf in leaves]
        outputs = tuple(leaf for _, leaf in leaves)
        only = graph.replace(outputs=outputs, writes=())
        self.narrow = open_probe(Pipeline((Dce(),)).run(only, keep=False).graph)
        self.wide = open_probe(Pipeline((Widen(), Cse(), Dce())).run(only, keep=False).graph)

    @property
    def dtypes(self) -> set[DType]:
        """The dtypes in which gradients are computed."""
        return {part.dtype for part in self.parts}

    def ranges(self, arrays: Sequence[Array]) -> tuple[GradientRange, ...]:
        """The range of every gradient, for these inputs, at the present scale."""
        triples = list(zip(self.parts, self.narrow.run(arrays), self.wide.run(arrays), strict=True))
        keys: Iterable[_Part] = dict.fromkeys(self.parts)
        groups: Mapping[_Part, list[tuple[Any, Any]]] = {k: [(n, w) for p, n, w in triples if p == k] for k in keys}
        return tuple(gradient_range(k.name, k.dtype, *zip(*pairs, strict=True)) for k, pairs in groups.items())


def parts(value: Value, definer: Mapping[Value, Node]) -> list[Value]:
    """The 16-bit values whose sum, behind casts, is a gradient; the gradient itself where there are none."""
    return list(dict.fromkeys(_halves(value, definer))) or [value]


def _halves(value: Value, definer: Mapping[Value, Node]) -> list[Value]:
    node = definer.get(value)
    if value.type.dtype.is_half:
        return [value]
    if node is None or not (node.primitive.is_transparent or node.primitive.name == "add"):
        return []
    if node.inputs[0].type.size != value.type.size:  # a broadcast number has other elements
        return []
    return [half for v in node.inputs for half in _halves(v, definer)]
