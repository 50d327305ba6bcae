"""Measures the tensors that a step rounds to low dtypes, by probes that are compiled once."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.inspect.diagnosis.precision_explanation import PrecisionExplanation
from graphls.inspect.diagnosis.rounded import Figures, RoundedTensor, Window
from graphls.inspect.diagnosis.roundings import Rounding, roundings
from graphls.inspect.diagnosis.watched import Array, Probe, parts
from graphls.ir.graph import Graph, Value
from graphls.ir.text import reference
from graphls.passes import Pipeline
from graphls.passes.overflow.watch import giving
from graphls.passes.simplify.dce import Dce
from graphls.runtime.states import HasStorage

SCALE, HISTORY = "scale", "amax_history"
"""The ends of the names of the two states of delayed scaling."""


class LowTensors:
    """The tensors that a graph rounds, measured on the states of its step."""

    def __init__(self, graph: Graph, open_probe: Callable[[Graph], Probe]) -> None:
        self.roundings = roundings(graph)
        if not self.roundings:
            raise GraphValueError(
                "This step rounds no tensor to a low dtype, or only in loops: give its network a recipe, such as "
                "amp.auto_mixed_precision(net, amp.CurrentScaling()), and compile the step again.",
            )
        bare = graph.replace(name=f"{graph.name}_precision", outputs=(), writes=())
        self.probes = []
        for start, stop in parts([r.maker.inputs[0] for r in self.roundings], times=3):
            some = self.roundings[start:stop]
            values = list(dict.fromkeys(v for rounding in some for v in rounding.values))
            graph = Pipeline((Dce(),)).run(giving(bare, values), keep=False).graph
            self.probes.append((some, values, open_probe(graph)))

    def explain(self, arrays: Sequence[Array], parameters: Mapping[str, HasStorage]) -> PrecisionExplanation:
        """The figures of every tensor that the step rounds on these inputs, the worst first."""
        tensors: list[RoundedTensor] = []
        for some, values, probe in self.probes:
            results = dict(zip(values, probe.run(arrays), strict=True))
            ran = [r for r in some if all(bool(results[flag].reshape(())) is answer for flag, answer in r.guards)]
            tensors += [_tensor(rounding, results, parameters) for rounding in ran]
        return PrecisionExplanation(tuple(sorted(tensors, key=lambda tensor: -tensor.shortfall)))


def _tensor(rounding: Rounding, results: Mapping[Value, Array], parameters: Mapping[str, HasStorage]) -> RoundedTensor:
    maker, value = rounding.maker, rounding.maker.inputs[0]
    low, loc = maker.output.type.dtype, maker.loc
    file, line = (loc.file, loc.line) if loc is not None else ("", 0)
    figures = Figures.of(Window.of(low), *_arrays(rounding, results))
    return RoundedTensor(
        name=reference(value), type=value.type, format=low, role=rounding.role, phase=maker.phase, cell=maker.scope,
        file=file, line=line, code=linecache.getline(loc.code, line).strip() if loc is not None else "",
        block=(maker if rounding.scaled else rounding.reader).attrs["block"], history=_history(rounding, parameters),
        **vars(figures),
    )  # fmt: skip


def _arrays(rounding: Rounding, results: Mapping[Value, Array]) -> tuple[Array, Array, Array, Array]:
    """The tensor, the tensor times its scale, and the tensor after rounding, in one shape; and the scales that matter.

    A maker without a scale rounds what is scaled already, and the inverse of the scale tells what it was.
    """
    operand, scale, rounded = (results[v] for v in rounding.values[:3])
    scale = scale.astype(np.float32)
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
