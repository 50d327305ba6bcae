"""Lowers `scan` and `while_loop` to Scan and Loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import GraphProto

from graphls.ir.graph import Graph, Node, captures
from graphls.ir.types import Type, bool_, float32, int64
from graphls.runtime.lowering.types import held
from graphls.runtime.lowering.values import Values

Lower = Callable[[], Sequence[str]]
"""Appends operators to the current body and returns the names of their results."""


def lower_scan(e: Values, node: Node, names: Sequence[str]) -> tuple[str, ...]:
    """A scan as Scan; one along stacks runs only if there are iterations, because Scan takes no empty arrays."""
    _widen(e, node.regions)
    if node.attrs["length"] is not None:
        return _scan(e, node, names)
    types = [v.type for v in node.outputs]
    return if_iterations(e, names[-1], lambda: _scan(e, node, names), lambda: _nothing(e, node, names), types)


def if_iterations(e: Values, stack: str, some: Lower, none: Lower, types: Sequence[Type]) -> tuple[str, ...]:
    """The tensors of `some()` if a stack has any iteration, else those of `none()`, as an If."""
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
    """The results of a scan without iterations: its carry, and empty stacks."""
    carries = node.attrs["carries"]
    stacks = (v.type for v in node.outputs[carries:])
    empty = [e.const(np.empty((0, *kind.shape)), kind.dtype) for kind in stacks]
    return tuple(e.Identity(name) for name in (*names[:carries], *empty))


def _scan(e: Values, node: Node, names: Sequence[str]) -> tuple[str, ...]:
    """The results of a Scan, which takes one array at least: if there is none, an array that its body does not read."""
    (region,) = node.regions
    carries, arrays = names[: node.attrs["carries"]], list(names[node.attrs["carries"] :])
    body = GraphProto(name=e.names.fresh(region.name))
    with e.branch_body(body):
        used = e.add_parameters(region.inputs)
        if not arrays:
            arrays = [e.const([False] * node.attrs["length"], bool_)]
            used.add(e.add_parameter("unused", Type(bool_)))
        e.nodes(region.nodes, region.outputs)
        for value in region.outputs:
            e.result(value, held(value.type), used)
    e.node = node
    attrs: dict[str, GraphProto | int | list[int]] = {"body": body, "num_scan_inputs": len(arrays)}
    if node.attrs.get("reverse"):
        attrs["scan_input_directions"] = [1] * len(arrays)
        attrs["scan_output_directions"] = [1] * (len(node.outputs) - len(carries))
    return e.results("Scan", [*carries, *arrays], attrs, len(node.outputs))


def lower_while(e: Values, node: Node, names: Sequence[str]) -> tuple[str, ...]:
    """A while loop as Loop: the condition is computed once before it, and in its body for the next iteration."""
    test, region = node.regions
    _widen(e, node.regions)
    first = _condition(e, test, names)
    body = GraphProto(name=e.names.fresh(region.name))
    with e.branch_body(body):
        e.add_parameter("iteration", Type(int64))
        e.add_parameter("running", Type(bool_))
        used = e.add_parameters(region.inputs)
        e.nodes(region.nodes, region.outputs)
        again = _condition(e, test, [e.form(v, held(v.type).dtype) for v in region.outputs[: len(names)]])
        e.yielded(again, Type(bool_), used)
        for value in region.outputs:
            e.result(value, held(value.type), used)
    e.node = node
    return e.results("Loop", ["", first, *names], {"body": body}, len(node.outputs))


def _condition(e: Values, test: Graph, names: Sequence[str]) -> str:
    """The condition of a loop for these tensors, in the current graph or body."""
    with e.branch_body(e.body):
        for value, name in zip(test.inputs, names, strict=True):
            e.forms[value] = {held(value.type).dtype: name}
        e.nodes(test.nodes, test.outputs)
        return e.form(test.outputs[0], bool_)


def _widen(e: Values, regions: Sequence[Graph]) -> None:
    """Cast captured 16-bit floats to float32 once, rather than in each iteration."""
    for value in (v for region in regions for v in captures(region)):
        if e.computed(value.type) != value.type and value.type.dtype.is_half:
            e.form(value, float32)
