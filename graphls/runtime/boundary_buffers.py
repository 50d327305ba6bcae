"""Boundary buffers: the arrays in which values cross between segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from graphls.base.sharing.arrays import zeros
from graphls.ir.graph import Value, needs
from graphls.ir.plan import Plan, Segment
from graphls.runtime.lowering.types import exchanged

Array = np.ndarray[Any, Any]


def boundary_buffers(plan: Plan) -> dict[Value, Array]:
    """An array for each value that crosses, in the dtype in which it is exchanged.

    What one collective takes, and what it gives, lies in one buffer each, so that nothing is copied to communicate, or
    in the same one. There are no gaps: another rank, whose segments may be others, may have to copy, and sends as much.
    """
    replaced = overwritten(plan)
    private = plan.crossing_stages
    kinds = {v: exchanged(v.type) for v in plan.boundary_values if v not in replaced and v not in private}
    buffers: dict[Value, Array] = {}
    for values in (values for segment in plan.segments for values in _together(segment)):
        is_free = all(v in kinds and kinds[v] == v.type and v not in buffers for v in values)
        is_one = len({v.type.dtype for v in values}) == 1 and len(set(values)) == len(values)
        if is_free and is_one:
            buffers.update(_in_one(values))
    for v, kind in kinds.items():
        if v not in buffers:
            buffers[v] = zeros(kind.shape, kind.dtype.numpy)
    return buffers | {v: _within(buffers[operand], v) for v, operand in replaced.items()}


def _within(array: Array, value: Value) -> Array:
    """The array itself, or the beginning of it for a value that has fewer elements, as a shard has."""
    size = value.type.size
    return array if size == array.size else array.reshape(-1)[:size].reshape(value.type.shape)


def overwritten(plan: Plan) -> Mapping[Value, Value]:
    """The results of collectives that take the place of an operand, which nothing else reads."""
    replaced: dict[Value, Value] = {}
    boundary = set(plan.boundary_values)
    results_of_step = {plan.flag, *plan.graph.outputs, *(write.value for write in plan.graph.writes)}
    readers = Counter(v for segment in plan.segments for v in segment.graph.inputs)
    for segment in plan.segments:
        plan_values = dict(zip(segment.graph.outputs, segment.gives, strict=True))
        inside = Counter(v for node in segment.graph.nodes for v in needs(node))
        for node in segment.graph.nodes:
            if node.primitive.fits_its_operands:
                results = [plan_values.get(v, v) for v in node.outputs[1:]]
                is_last = all(readers[v] == inside[v] == 1 and v in boundary - results_of_step for v in node.inputs)
                if is_last and boundary.issuperset(results) and all(exchanged(v.type) == v.type for v in node.inputs):
                    replaced.update(zip(results, node.inputs, strict=True))
    return replaced


def _together(segment: Segment) -> Iterable[Sequence[Value]]:
    """The operands, and the results, of each collective of a segment that has several, by the values of the plan."""
    plan_values = dict(zip(segment.graph.outputs, segment.gives, strict=True))
    for node in segment.graph.nodes:
        if node.primitive.is_collective and len(node.inputs) > 1:
            yield node.inputs
            yield [plan_values.get(v, v) for v in node.outputs[1:]]


def _in_one(values: Sequence[Value]) -> dict[Value, Array]:
    dtype = np.dtype(values[0].type.dtype.numpy)
    flat = np.zeros(sum(v.type.size for v in values), dtype)
    views, start = {}, 0
    for v in values:
        views[v] = flat[start : start + v.type.size].reshape(v.type.shape)
        start += v.type.size
    return views


def contiguous_buffer(arrays: Sequence[Array]) -> Array | None:
    """The flat buffer that these arrays fill, in their order; None where there is none."""
    if len(arrays) == 1:
        return arrays[0].reshape(-1)
    base = arrays[0].base if arrays else None
    if base is None or any(array.base is not base for array in arrays):
        return None
    start = base.ctypes.data
    for array in arrays:
        if array.ctypes.data != start:
            return None
        start += array.nbytes
    return base if start == base.ctypes.data + base.nbytes else None
