"""Finds the value of a watched step that overflowed first."""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from graphls.inspect.diagnosis.bounds import bounded
from graphls.inspect.diagnosis.explanation import NonFinite, Operand, OverflowExplanation, Source
from graphls.inspect.diagnosis.watched import Array, Ranges, WatchedStep, sources
from graphls.ir.graph import Node, Value, uses
from graphls.ir.reachability import reached
from graphls.ir.text import reference


def explain(
    step: WatchedStep, arrays: Sequence[Array], parameters: Iterable[str], lowered_by: float
) -> OverflowExplanation:
    """The explanation of a run on these inputs.

    `parameters` are the names of the states that take gradients. If the check sees nothing at the present scale, the
    scale before it was lowered, `lowered_by` times as large, is tried as well.
    """
    names = frozenset(parameters)
    ranges = step.run(arrays)
    scale, faults = step.scale(ranges), Faults(step, ranges)
    if not faults.is_seen and step.checked and step.scale_is_state and lowered_by != 1.0:
        before = Faults(step, step.run(arrays, lowered_by))
        if before.is_seen:
            return _explained(step, arrays, before, names, scale, lowered_by)
    if faults.symptoms:
        return _explained(step, arrays, faults, names, scale, 1.0)
    unseen = faults.unseen
    return OverflowExplanation(
        overflowed=False,
        skipped=False,
        sources=faults.non_finite_sources(names),
        scale=scale,
        present_scale=scale,
        unseen=None if unseen is None else _non_finite(step.definer[unseen], unseen, ranges),
    )


def _explained(
    step: WatchedStep, arrays: Sequence[Array], faults: Faults, parameters: frozenset[str], scale: float | None,
    factor: float,
) -> OverflowExplanation:  # fmt: skip
    run = None if scale is None else scale * factor
    explanation = OverflowExplanation(
        overflowed=True,
        skipped=faults.is_seen,
        sources=faults.non_finite_sources(parameters),
        scale=run,
        present_scale=scale,
        all_values=len(faults.computed),
        all_elements=sum(r.type.size for r in faults.computed.values()),
    )
    if faults.first is None:
        return explanation
    affected = [faults.bad[v] for v in faults.affected(faults.first)]
    depends = faults.first in step.scaled
    return replace(
        explanation,
        first=_non_finite(step.definer[faults.first], faults.first, faults.ranges),
        depends_on_scale=depends,
        fitting_factor=_fitting(step, arrays, faults.targets, run, factor) if depends else None,
        values=len(affected),
        elements=sum(r.not_finite for r in affected),
        others=sum(v is not faults.first for v in faults.origins),
    )


def _fitting(
    step: WatchedStep, arrays: Sequence[Array], targets: Iterable[Value], scale: float | None, factor: float
) -> float | None:
    """The largest factor of the scale of the run with which the targets are finite."""
    known = 1.0 if scale is None else scale
    if not (math.isfinite(known) and known > 0):
        return None
    highest = math.ceil(math.log2(known))
    return largest_fitting(lambda tried: step.is_finite(targets, arrays, factor * tried), known, highest)


class Faults:
    """The values of one run of a watched step that are not finite.

    `targets` are the checked values or, where all of those are finite, the results of the step, and `symptoms` the
    targets that are not finite. `causes` are the values from which a chain of values that are not finite leads to a
    symptom: an infinity that goes no further, such as that of a mask, is none. `first` is the first cause that a node
    computes, and `origins` are the causes that are computed from finite values only.
    """

    def __init__(self, step: WatchedStep, ranges: Ranges) -> None:
        self.step, self.ranges = step, ranges
        self.bad = {v: r for v, r in ranges.items() if r.not_finite}
        self.computed = {v: r for v, r in ranges.items() if v in step.definer and r.was_made}
        self.is_seen = not self.bad.keys().isdisjoint(step.checked)
        self.targets = step.checked if self.is_seen else step.results
        self.symptoms = [v for v in self.targets if v in self.bad]
        self.causes = set(reached(self.symptoms, self.causes_of))
        ordered = [v for node in step.nodes for v in node.outputs if v in self.causes]
        self.first = ordered[0] if ordered else None
        self.origins = [v for v in ordered if not self.causes_of(v)]

    @property
    def unseen(self) -> Value | None:
        """The first value that is not finite though its operands are; constants, such as masks, are intended so.

        A value whose infinities end at once in a minimum or a maximum is intended, too, as those of which scales are.
        """
        values = [v for n in self.step.nodes if n.primitive.name != "constant" for v in n.outputs if v in self.bad]
        leaving = (*self.step.graph.outputs, *(write.value for write in self.step.graph.writes))
        ended = bounded(self.step.nodes, leaving, lambda v: v not in self.bad) if values else set()
        return next((v for v in values if v not in ended and not self.causes_of(v)), None)

    def causes_of(self, value: Value) -> list[Value]:
        """The operands of a value that are not finite."""
        node = self.step.definer.get(value)
        if node is None:
            return []
        if node.primitive.is_branch:
            at = node.outputs.index(value)
            operands: Iterable[Value] = (region.outputs[at] for region in node.regions)
        else:
            operands = uses(node)
        return [v for v in operands if v in self.bad]

    def affected(self, first: Value) -> list[Value]:
        """The values that are not finite because of `first`, itself included."""
        values = {first}
        for node in self.step.nodes:
            if not values.isdisjoint(sources(node)):
                values.update(v for v in node.outputs if v in self.bad)
        return list(values)

    def non_finite_sources(self, parameters: frozenset[str]) -> tuple[Source, ...]:
        """The inputs and states that are not finite, causes of symptoms first."""
        graph = self.step.graph
        rows = []
        for value in (v for v in (*graph.inputs, *graph.states) if v in self.bad):
            kind = "input" if not value.is_state else "parameter" if value.name in parameters else "state"
            rows.append(Source(kind, value.name, self.bad[value], value in self.causes))
        return tuple(sorted(rows, key=lambda source: not source.reaches))


def _non_finite(node: Node, value: Value, ranges: Ranges) -> NonFinite:
    file, line = (node.loc.file, node.loc.line) if node.loc is not None else ("", 0)
    return NonFinite(
        name=reference(value),
        type=str(value.type),
        range=ranges[value],
        primitive=node.primitive.name,
        phase=node.phase,
        cell=node.scope,
        file=file,
        line=line,
        code=linecache.getline(node.loc.code, line).strip() if node.loc is not None else "",
        operands=tuple(Operand(reference(v), str(v.type), ranges.get(v)) for v in node.inputs),
    )


LOWEST, HIGHEST = -60, 120
"""The exponents of the scales that are tried."""


def largest_fitting(fits: Callable[[float], bool], scale: float, highest: int | None = None) -> float | None:
    """The largest factor of `scale` that makes it a power of two, at most 2^highest, with which it fits.

    Every power of two below one that fits is taken to fit. None where 2^LOWEST does not fit, or the scale is no
    positive number.
    """
    if not (math.isfinite(scale) and scale > 0):
        return None
    low, high = LOWEST, HIGHEST if highest is None else highest
    if not fits(2.0**low / scale):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(2.0**middle / scale) else (low, middle - 1)
    return 2.0**low / scale
