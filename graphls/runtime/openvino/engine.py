"""The OpenVINO engine: takes the nodes that OpenVINO computes exactly."""

from __future__ import annotations

from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from graphls.base.errors import GraphValueError
from graphls.ir.graph import Node, Value
from graphls.ir.plan import Segment
from graphls.ir.types import TOKEN, bfloat16, bool_, float32, int32, int64
from graphls.primitives.arithmetic import Add, Sub
from graphls.primitives.indexing import axis_size
from graphls.primitives.logic import Comparison

if TYPE_CHECKING:
    from graphls.runtime.engine import Part, PlanContext, ProfiledPart

EXACT = {float32, bfloat16, bool_, TOKEN.dtype}
"""What it computes in. It takes float64 for float32, float16 without its limits and int64 for int32."""

MOST_UNROLLED = 4096
"""Nodes that a scan may come to when it is written out; OpenVINO takes about a millisecond for each."""

LONGEST = 1 << 24
"""The longest axis of which every index is a float32, by way of which an index is compared with its size."""


class Openvino:
    """Compiles segments for the CPU: float32 as such, products of bfloat16 with sums in float32."""

    name = "openvino"
    runs_python = False
    writes_in_place = False

    def takes(self, node: Node) -> bool:
        """Whether it has no integers but those that are moved, counted, become floats or are indices.

        Remainders, conditions, loops but short recurrences, nodes that give or take nothing, and those that the host
        draws stay elsewhere.
        """
        primitive = node.primitive
        if node.regions:
            return _is_short_recurrence(node) and all(map(self.takes, node.regions[0].nodes))
        if primitive.on_host or primitive.is_remainder or primitive.calls_python:
            return False
        values = (*node.inputs, *node.outputs)
        if any(v.type != TOKEN and (v.type.stacked or not v.type.size) for v in values):
            return False
        if (primitive.takes_indices and axis_size(node) > LONGEST) or _may_repeat(node):
            return False
        if primitive.name == "cast" and node.output.type.dtype is bool_ and node.inputs[0].type.dtype.is_float:
            return False  # nan becomes False
        return all(map(_is_exact, values)) or _only_reads_integers(node) or _counts_positions(node)

    def check(self, device: object) -> None:
        """Raise GraphRuntimeError where it is not installed, GraphValueError for another device than the CPU."""
        if device != "cpu":
            raise GraphValueError(f"The engine 'openvino' runs on 'cpu', not on {device!r}.")
        from graphls.runtime.openvino.runtime import core

        core()

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A model of a segment, or what ONNX Runtime makes of it where OpenVINO refuses it."""
        from graphls.runtime.openvino.part import OpenvinoPart, unless_refused
        from graphls.runtime.openvino.rechecked import open_part

        own = partial(open_part, OpenvinoPart, segment, context)
        part: Part = unless_refused(own, lambda other: other.open(segment, context))
        return part

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """A model of a segment whose operators are timed, as `open` chooses."""
        from graphls.runtime.openvino.part import unless_refused
        from graphls.runtime.openvino.profiled import ProfiledOpenvinoPart
        from graphls.runtime.openvino.rechecked import open_part

        own = partial(open_part, ProfiledOpenvinoPart, segment, context)
        part: ProfiledPart = unless_refused(own, lambda other: other.profiled(segment, context, folder))
        return part

    def title(self, device: str) -> str:
        """OpenVINO with its version."""
        from graphls.runtime.openvino.runtime import load_openvino

        return f"OpenVINO {load_openvino().__version__.partition('-')[0]}"


def _is_short_recurrence(node: Node) -> bool:
    """Whether a scan is written out once for each iteration, because that is faster than a loop and soon compiled.

    Products of bfloat16 make it so. A loop over whole steps is none.
    """
    if node.primitive.name != "scan" or not node.attrs["length"]:
        return False
    nodes = node.regions[0].nodes
    is_step = any(n.phase in ("check", "update") for n in nodes)
    has_products = any(n.primitive.is_product for n in nodes)
    return has_products and not is_step and node.attrs["length"] * len(nodes) <= MOST_UNROLLED


def _may_repeat(node: Node) -> bool:
    """Whether a node joins operands that may be one and the same, of size 1 in whatever form; see target.py."""
    kinds = {v.type for v in node.inputs}
    return node.primitive.name == "concat" and len(kinds) == 1 and prod(kinds.pop().shape[node.attrs["axis"] :]) == 1


def _is_exact(value: Value) -> bool:
    return value.type.dtype in EXACT


def _only_reads_integers(node: Node) -> bool:
    """Whether int32 is moved, counted, compared, or chooses from floats."""
    primitive = node.primitive
    if {v.type.dtype for v in (*node.inputs, *node.outputs)} - EXACT != {int32}:
        return False
    chooses = primitive.takes_indices and all(map(_is_exact, node.outputs))
    counts = isinstance(primitive, (Add, Comparison, Sub))
    return chooses or counts or primitive.flops_per_element == 0


def _counts_positions(node: Node) -> bool:
    """Whether int64 are positions in an image, which int32 holds, or become int32, which they are already."""
    source = node.inputs[0].type if node.inputs else TOKEN
    if node.primitive.name == "max_pool":
        return source.dtype in EXACT and source.size < 2**31
    return node.primitive.name == "cast" and (source.dtype, node.output.type.dtype) == (int64, int32)
