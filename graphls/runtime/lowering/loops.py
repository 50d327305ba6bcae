"""Lowers `scan` and `while_loop` to Scan and Loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto

from graphls.ir.graph import Graph, Node, captures
from graphls.ir.types import Type, bool_, float32, int64
from graphls.runtime.lowering.unrolled import unrolled
from graphls.runtime.lowering.values import Values

Lower = Callable[[], Sequence[str]]
"""Appends operators to the body that is current and returns the names of their results."""


def lower_scan(e: Values, node: Node, names: Sequence[str]) -> tuple[str, ...]:
    """A scan as Scan; one along stacks only where there are rounds, because Scan takes no arrays without elements."""
    _widen(e, node.regions)
    if e.target.unrolls:
        return unrolled(e, node, names)
    if node.attrs["length"] is not None:
        return _scan(e, node, names)
    types = [v.type for v in node.outputs]
    return if_iterations(e, names[-1], lambda: _scan(e, node, names), lambda: _nothing(e, node, names), types)


def if_iterations(e: Values, stack: str, some: Lower, none: Lower, types: Sequence[Type]) -> tuple[str, ...]:
    """The tensors of `some()` where a stack has any iteration, else those of `none()`; both make their own."""
    node = e.node
    bodies = GraphProto(name=e.names.fresh("some")), GraphProto(name=e.names.fresh("none"))
    is_some = e.Reshape(e.Greater(e.Shape(stack, start=0, end=1), e.ints([0])), e.ints([]))
    for body, lowered in zip(bodies, (some, none), strict=True):
        with e.branch_body(body):
            for name, kind in zip(lowered(), types, strict=True):
                e.yield_from_branch(name, kind)
    e.node = node
    return e.results("If", [is_some], {"then_branch": bodies[0], "else_branch": bodies[1]}, len(types))


def _nothing(e: Values, node: Node, names: Sequence[str]) -> tuple[str, ...]:
    """The results of a scan that never runs: its carry, and stacks without elements."""
    carries = node.attrs["carries"]
    stacks = (v.type for v in node.outputs[carries:])
    empty = [e.const(np.empty((0, *kind.shape)), kind.dtype) for kind in stacks]
    return tuple(e.Identity(name) for name in (*names[:carries], *empty))


def _scan(e: Values, node: Node, names: Sequence[str]) -> tuple[str, ...]:
    """Scan takes one array at least: where there is none, one that its body does not look at."""
    (region,) = node.regions
    carries, arrays = names[: node.attrs["carries"]], list(names[node.attrs["carries"] :])
    body = GraphProto(name=e.names.fresh(region.name))
    with e.branch_body(body):
        taken = e.take_parameters(region.inputs)
        if not arrays:
            arrays = [e.const([False] * node.attrs["length"], bool_)]
            taken.add(e.take_parameter("unused", Type(bool_)))
        e.nodes(region.nodes, region.outputs)
        for value in region.outputs:
            e.result(value, value.type, taken)
    e.node = node
    attrs: dict[str, Any] = {"body": body, "num_scan_inputs": len(arrays)}
    if node.attrs.get("reverse"):
        attrs["scan_input_directions"] = [1] * len(arrays)
        attrs["scan_output_directions"] = [1] * (len(node.outputs) - len(carries))
    return e.results("Scan", [*carries, *arrays], attrs, len(node.outputs))


def lower_while(e: Values, node: Node, names: Sequence[str]) -> tuple[str, ...]:
    """A while loop as Loop: its body also computes the condition for the next time, which is asked once before."""
    test, region = node.regions
    _widen(e, node.regions)
    first = _condition(e, test, names)
    body = GraphProto(name=e.names.fresh(region.name))
    with e.branch_body(body):
        e.take_parameter("iteration", Type(int64))
        e.take_parameter("running", Type(bool_))
        taken = e.take_parameters(region.inputs)
        e.nodes(region.nodes, region.outputs)
        again = _condition(e, test, [e.form(v, v.type.dtype) for v in region.outputs[: len(names)]])
        e.yielded(again, Type(bool_), taken)
        for value in region.outputs:
            e.result(value, value.type, taken)
    e.node = node
    return e.results("Loop", ["", first, *names], {"body": body}, len(node.outputs))


def _condition(e: Values, test: Graph, names: Sequence[str]) -> str:
    """The nodes of the condition on these tensors, in the graph or body that is current."""
    with e.branch_body(e.body):
        for value, name in zip(test.inputs, names, strict=True):
            e.forms[value] = {value.type.dtype: name}
        e.nodes(test.nodes, test.outputs)
        return e.form(test.outputs[0], bool_)


def _widen(e: Values, regions: Sequence[Graph]) -> None:
    """Make the float32 copies of captured 16-bit floats once and not each time."""
    for value in (v for region in regions for v in captures(region)):
        if e.computed(value.type) != value.type and value.type.dtype.is_half:
            e.form(value, float32)
