"""Measures the tensors that a step rounds to low dtypes, by probes that are compiled once."""

from __future__ import annotations

import linecache
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.base.text.plain import shown
from graphls.inspect.diagnosis.precision_explanation import PrecisionExplanation
from graphls.inspect.diagnosis.rounded import Figures, RoundedTensor
from graphls.inspect.diagnosis.roundings import Rounding, roundings
from graphls.inspect.diagnosis.watched import Array, Probe, parts
from graphls.ir.graph import Graph, Value
from graphls.ir.text import reference
from graphls.ir.types import Type
from graphls.passes import Pipeline
from graphls.passes.overflow.watch import giving, trips_of
from graphls.passes.simplify.dce import Dce
from graphls.runtime.states import HasStorage

Run = Mapping[Value, Array]
"""The values of one run of a rounding."""

SCALE, HISTORY = "scale", "amax_history"
"""The ends of the names of the two states of delayed scaling."""


class LowTensors:
    """The tensors that a graph rounds, measured on the states of its step."""

    def __init__(self, graph: Graph, open_probe: Callable[[Graph], Probe]) -> None:
        everything = roundings(graph)
        if not everything:
            raise GraphValueError(
                "This step rounds no tensor to a low dtype: give its network a recipe, such as "
                "amp.auto_mixed_precision(net, amp.CurrentScaling()), and compile the step again.",
            )
        self.roundings = [rounding for rounding in everything if rounding.is_measured]
        self.missed = [_place(r, "in a loop whose length is not there before") for r in everything if not r.is_measured]
        bare = graph.replace(name=f"{graph.name}_precision", outputs=(), writes=())
        self.trips = trips_of(graph)
        self.probes = []
        for start, stop in parts([self._type(r.maker.inputs[0]) for r in self.roundings], times=3):
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
        tensors: list[RoundedTensor] = []
        missed = Counter(self.missed)
        for some, values, probe in self.probes:
            results = dict(zip(values, probe.run(arrays), strict=True))
            for rounding in some:
                runs = list(self._runs(rounding, results))
                tensors += [_tensor(rounding, runs, parameters)] if runs else []
                missed.update([] if runs else [_place(rounding, "in a branch that did not run")])
        return PrecisionExplanation(tuple(sorted(tensors, key=lambda tensor: -tensor.shortfall)), tuple(missed.items()))

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


def _tensor(
    rounding: Rounding, runs: Sequence[tuple[tuple[int, ...], Run]], parameters: Mapping[str, HasStorage]
) -> RoundedTensor:
    """The tensor with the figures of its worst run."""
    maker, value, loc = rounding.maker, rounding.maker.inputs[0], rounding.maker.loc
    file, line = (loc.file, loc.line) if loc is not None else ("", 0)
    by_run = ((iteration, Figures.of(maker.output.type.dtype, *_arrays(rounding, run))) for iteration, run in runs)
    iteration, figures = max(by_run, key=lambda pair: pair[1].shortfall)
    block = (maker if rounding.scaled else rounding.reader).attrs.get("block", ())
    return RoundedTensor(
        name=reference(value), type=value.type, role=rounding.role, products=rounding.products, phase=maker.phase,
        cell=maker.scope, file=file, line=line, block=block, history=_history(rounding, parameters),
        code=linecache.getline(loc.code, line).strip() if loc is not None else "", iteration=iteration,
        **vars(figures),
    )  # fmt: skip


def _arrays(rounding: Rounding, run: Run) -> tuple[Array, Array, Array, Array]:
    """The tensor, the tensor times its scale, and the tensor after rounding, in one shape; and the scales that matter.

    A maker without a scale rounds what is scaled already, and the inverse of the scale tells what it was.
    """
    operand, rounded = (run[v] for v in rounding.values[:2])
    if rounding.scale is None:
        scaled = _moved(rounding, operand.astype(np.float32))
        return scaled, scaled, rounded, np.ones(1, np.float32)
    scale = run[rounding.scale].astype(np.float32)
    with np.errstate(all="ignore"):
        if rounding.scaled:
            scale = spread(scale, operand.shape, rounding.maker.attrs["block"])
            scaled = operand.astype(np.float32) * scale
            return _moved(rounding, operand), _moved(rounding, scaled), rounded, _used(scale, operand)
        scaled = _moved(rounding, operand.astype(np.float32))
        inverse = spread(scale, scaled.shape, rounding.reader.attrs["block"])
        return scaled * inverse, scaled, rounded, 1 / _used(inverse, scaled)


def _used(scale: Array, x: Array) -> Array:
    """The scales of numbers that are not 0; of zeros alone, all of them. A block of zeros has any scale."""
    used = np.broadcast_to(scale, x.shape)[x != 0]
    return used if used.size else scale


def _moved(rounding: Rounding, array: Array) -> Array:
    """An array of the shape of the maker in that of the reader."""
    for node in rounding.moves:
        primitive: Any = node.primitive
        array = primitive.numpy(array, **node.attrs)
    return array


def spread(scale: Array, shape: Sequence[int], block: Sequence[int]) -> Array:
    """Scales of blocks, repeated so that they broadcast over an array of the shape."""
    for axis, (size, length) in enumerate(zip(block, shape, strict=True)):
        if size > 1 and scale.shape[axis] > 1:
            scale = np.repeat(scale, size, axis)[(slice(None),) * axis + (slice(length),)]
    return scale


def _history(rounding: Rounding, parameters: Mapping[str, HasStorage]) -> tuple[float, ...] | None:
    """The maxima of earlier steps that the scale comes from, which are the state beside it."""
    if rounding.state is None or not rounding.state.name.endswith(SCALE):
        return None
    beside = parameters.get(rounding.state.name.removesuffix(SCALE) + HISTORY)
    return () if beside is None else tuple(map(float, np.asarray(beside.storage.copy()).reshape(-1)))
