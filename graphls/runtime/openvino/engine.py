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
"""The dtypes that it computes in. It takes float64 for float32, float16 without its limits and int64 for int32."""

MOST_UNROLLED = 4096
"""The most nodes of an unrolled scan; OpenVINO compiles each in about a millisecond."""

LONGEST = 1 << 24
"""The longest axis of which every index is a float32: indices are compared with the size of the axis in float32."""


class Openvino:
    """Compiles segments for the CPU: float32 as such, products of bfloat16 with sums in float32."""

    name = "openvino"
    runs_python = False
    writes_in_place = False

    def takes(self, node: Node) -> bool:
        """Whether the only integers of a node are moved, counted, cast to floats or used as indices.

        It takes no remainders, conditions, loops other than short recurrences, nodes with empty operands or results,
        or host random inputs.
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

    def version(self) -> str:
        """The version of the package; "" where there is none."""
        from graphls.runtime.onnxruntime.runtime import package_version

        return package_version("openvino") or ""

    def open(self, segment: Segment, context: PlanContext) -> Part:
        """A model of a segment; a session of ONNX Runtime where OpenVINO refuses it."""
        from graphls.runtime.openvino.exact_check import open_part
        from graphls.runtime.openvino.part import OpenvinoPart, open_or_fall_back

        own = partial(open_part, OpenvinoPart, segment, context)
        part: Part = open_or_fall_back(own, lambda other: other.open(segment, context))
        return part

    def profiled(self, segment: Segment, context: PlanContext, folder: Path) -> ProfiledPart:
        """A model of a segment, as `open` chooses it, whose operators are timed."""
        from graphls.runtime.openvino.exact_check import open_part
        from graphls.runtime.openvino.part import open_or_fall_back
        from graphls.runtime.openvino.profiled import ProfiledOpenvinoPart

        own = partial(open_part, ProfiledOpenvinoPart, segment, context)
        part: ProfiledPart = open_or_fall_back(own, lambda other: other.profiled(segment, context, folder))
        return part

    def title(self, device: str) -> str:
        """OpenVINO with its version."""
        from graphls.runtime.openvino.runtime import load_openvino

        return f"OpenVINO {load_openvino().__version__.partition('-')[0]}"


def _is_short_recurrence(node: Node) -> bool:
    """Whether a scan is unrolled, because that is faster than a loop and takes little time to compile.

    That holds for recurrences with matrix products. A loop over training steps is none.
    """
    if node.primitive.name != "scan" or not node.attrs["length"]:
        return False
    nodes = node.regions[0].nodes
    is_step = any(n.phase in ("check", "update") for n in nodes)
    has_products = any(n.primitive.is_product for n in nodes)
    return has_products and not is_step and node.attrs["length"] * len(nodes) <= MOST_UNROLLED


def _may_repeat(node: Node) -> bool:
    """Whether a node concatenates operands, of size 1 from the axis on, that may be the same value; see target.py."""
    kinds = {v.type for v in node.inputs}
    return node.primitive.name == "concat" and len(kinds) == 1 and prod(kinds.pop().shape[node.attrs["axis"] :]) == 1


def _is_exact(value: Value) -> bool:
    return value.type.dtype in EXACT


def _only_reads_integers(node: Node) -> bool:
    """Whether int32 is moved, added, compared, or indexes floats."""
    primitive = node.primitive
    if {v.type.dtype for v in (*node.inputs, *node.outputs)} - EXACT != {int32}:
        return False
    chooses = primitive.takes_indices and all(map(_is_exact, node.outputs))
    counts = isinstance(primitive, (Add, Comparison, Sub))
    return chooses or counts or primitive.flops_per_element == 0


def _counts_positions(node: Node) -> bool:
    """Whether int64 are positions in an image, which int32 holds, or are cast to int32, in which they are already."""
    source = node.inputs[0].type if node.inputs else TOKEN
    if node.primitive.name == "max_pool":
        return source.dtype in EXACT and source.size < 2**31
    return node.primitive.name == "cast" and (source.dtype, node.output.type.dtype) == (int64, int32)
