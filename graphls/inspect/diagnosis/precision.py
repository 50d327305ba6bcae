"""Measures the tensors that a step rounds to low dtypes, by probes that are compiled once."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.base.text.plain import shown
from graphls.inspect.diagnosis.alternatives import alternatives
from graphls.inspect.diagnosis.measuring import Run, figures_of
from graphls.inspect.diagnosis.precision_explanation import PrecisionExplanation
from graphls.inspect.diagnosis.rounded import Figures, RoundedTensor
from graphls.inspect.diagnosis.roundings import Rounding, roundings, weights
from graphls.inspect.diagnosis.watched import Array, Probe, parts
from graphls.ir.graph import Graph, Value
from graphls.ir.text import reference
from graphls.ir.types import Type
from graphls.passes import Pipeline
from graphls.passes.overflow.watch import giving, trips_of
from graphls.passes.precision.low_precision import LowPrecision
from graphls.passes.precision.recipes import PRODUCTS
from graphls.passes.simplify.dce import Dce
from graphls.runtime.states import HasStorage

SCALE, HISTORY = "scale", "amax_history"
"""The ends of the names of the two states of delayed scaling."""


class LowTensors:
    """The tensors that a graph rounds, measured on the states of its step.

    `low` is the pass that gave the graph its recipes; with it, other recipes are tried on tensors that lose much.
    """

    def __init__(
        self, graph: Graph, open_probe: Callable[[Graph], Probe], low: LowPrecision | None = None
    ) -> None:  # fmt: skip
        self.low = low
        everything = roundings(graph)
        if not everything:
            raise GraphValueError(
                "This step rounds no tensor to a low dtype: give its network a recipe, such as "
                "amp.auto_mixed_precision(net, amp.CurrentScaling()), and compile the step again.",
            )
        self.roundings = [rounding for rounding in everything if rounding.is_measured]
        self.keys = _keys(graph, self.roundings)
        self.numbers = _numbered(self.keys)
        self.missed = [_place(r, "in a loop whose length is not there before") for r in everything if not r.is_measured]
        bare = graph.replace(name=f"{graph.name}_precision", outputs=(), writes=())
        self.trips = trips_of(graph)
        self.probes = []
        for start, stop in parts([self._type(r.maker.inputs[0]) for r in self.roundings], times=4):
            some = self.roundings[start:stop]
            values = list(dict.fromkeys(v for rounding in some for v in rounding.values))
            if values:
                graph = Pipeline((Dce(),)).run(giving(bare, values), keep=False).graph
                self.probes.append((some, values, open_probe(graph)))

    def _type(self, value: Value) -> Type:
        """The type of a value with an axis for each loop around it."""
        return value.type.with_shape((*self.trips.get(value, ()), *value.type.shape))

    def explain(self, arrays: Sequence[Array], parameters: Mapping[str, HasStorage]) -> PrecisionExplanation:
        """The figures of every tensor that the step rounds on these inputs, the worst first."""
        tensors: dict[object, RoundedTensor] = {}
        missed = Counter(self.missed)
        for some, values, probe in self.probes:
            results = dict(zip(values, probe.run(arrays), strict=True))
            for rounding in some:
                runs = list(self._runs(rounding, results))
                missed.update([] if runs else [_place(rounding, "in a branch that did not run")])
                if runs:
                    self._add(tensors, rounding, runs, parameters)
        ordered = sorted(tensors.values(), key=lambda tensor: -tensor.shortfall)
        return PrecisionExplanation(tuple(ordered), tuple(missed.items()))

    def _add(
        self, tensors: dict[object, RoundedTensor], rounding: Rounding,
        runs: Iterable[tuple[tuple[int, ...], Run]], parameters: Mapping[str, HasStorage],
    ) -> None:  # fmt: skip
        """Add the figures of the worst run, unless the tensor is there with worse ones."""
        key, (number, count) = self.keys[rounding], self.numbers[rounding]
        before = tensors.get(key)
        by_run = ((iteration, run, figures_of(rounding, run)) for iteration, run in runs)
        iteration, run, figures = max(by_run, key=lambda each: each[2].shortfall)
        products = {*rounding.products, *(before.products if before is not None else ())}
        if before is None or figures.shortfall > before.shortfall:
            history = _history(rounding, parameters)
            tried = alternatives(rounding, run, figures, self.low, history) if figures.is_poor else ()
            more = {"history": history, "iteration": iteration, "alternatives": tried}
            before = _tensor(rounding, figures, run=number, runs=count, **more)
        tensors[key] = replace(before, products=tuple(product for product in PRODUCTS if product in products))

    def _runs(self, rounding: Rounding, results: Mapping[Value, Array]) -> Iterator[tuple[tuple[int, ...], Run]]:
        """The values of a rounding for each iteration of the loops around it in which it ran."""
        lengths = [length for length in rounding.trips if length is not None]
        for iteration in np.ndindex(*lengths):
            run = {v: results[v][iteration[: len(self.trips.get(v, ()))]] for v in rounding.values}
            if all(bool(run[flag].reshape(())) is answer for flag, answer in rounding.guards):
                yield iteration, run


def _place(rounding: Rounding, why: str) -> str:
    """Where a tensor is that is not measured, and why it is not."""
    return f"{shown(rounding.maker.scope) or 'the step'}{_line(rounding)}, {why}"


def _line(rounding: Rounding) -> str:
    return f" ({shown(str(rounding.maker.loc))})" if rounding.maker.loc is not None else ""


def _keys(graph: Graph, some: Sequence[Rounding]) -> dict[Rounding, object]:
    """What roundings of one tensor have in common: those of parts of a batch, and those of a second gathering.

    Only a tensor whose weight is clear has several.
    """
    names = weights(graph, some)
    return {
        each: (names[each], each.maker.scope, each.role, str(each.maker.loc), each.maker.output.type, each.block)
        if each in names
        else each
        for each in some
    }


def _numbered(keys: Mapping[Rounding, object]) -> dict[Rounding, tuple[int, int]]:
    """The number of each rounding among those of its tensor for the same product, and how many there are."""
    groups: dict[object, list[Rounding]] = {}
    for rounding, key in keys.items():
        groups.setdefault(key, []).append(rounding)
    numbers = {}
    for group in groups.values():
        often = Counter(product for rounding in group for product in rounding.products or ("",))
        seen = Counter[str]()
        for rounding in group:
            products = rounding.products or ("",)
            seen.update(products)
            numbers[rounding] = max(seen[product] for product in products), max(often.values())
    return numbers


def _tensor(rounding: Rounding, figures: Figures, **more: Any) -> RoundedTensor:
    maker, value, loc = rounding.maker, rounding.maker.inputs[0], rounding.maker.loc
    file, line = (loc.file, loc.line) if loc is not None else ("", 0)
    return RoundedTensor(
        name=reference(value), type=value.type, role=rounding.role, products=rounding.products, phase=maker.phase,
        cell=maker.scope, file=file, line=line, block=rounding.block,
        code=linecache.getline(loc.code, line).strip() if loc is not None else "", **vars(figures), **more,
    )  # fmt: skip


def _history(rounding: Rounding, parameters: Mapping[str, HasStorage]) -> tuple[float, ...] | None:
    """The maxima of earlier steps that the scale comes from, which are the state beside it."""
    if rounding.state is None or not rounding.state.name.endswith(SCALE):
        return None
    beside = parameters.get(rounding.state.name.removesuffix(SCALE) + HISTORY)
    return () if beside is None else tuple(map(float, np.asarray(beside.storage.copy()).reshape(-1)))
