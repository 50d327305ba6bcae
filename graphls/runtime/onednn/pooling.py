"""Rules of pooling and its gradients."""

from __future__ import annotations

from typing import Any

from graphls.ir.graph import Node
from graphls.runtime.onednn.binding import Descriptor, Primitive, Query, Role, dims
from graphls.runtime.onednn.convolution import TRAINING, geometry
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program import Program
from graphls.runtime.onednn.registry import rule

AVERAGE_WITHOUT_PADDING = 0x3FF


def _averages(node: Node) -> bool:
    """Whether oneDNN averages as the primitive does: with padding that counts it counts what no window should."""
    return not (node.attrs.get("count_include_pad") and any(node.attrs.get("pads", ())))


@rule("avg_pool", where=_averages)
def _avg_pool(program: Program, node: Node) -> None:
    source = program.read(node.inputs[0])
    result = Descriptor.any_of(node.output.type)
    kernel = Primitive("pooling", "pooling_forward", library().engine, TRAINING, AVERAGE_WITHOUT_PADDING, source.layout,
                       result, *_pooling(node), None)  # fmt: skip
    program.run(kernel, {
        Role.SOURCE: source, Role.RESULT: program.written(node.output, kernel.layout(Query.RESULT)),
    })  # fmt: skip


@rule("avg_pool_gradient", where=_averages)
def _avg_pool_gradient(program: Program, node: Node) -> None:
    g = program.read(node.inputs[0])
    shape, engine = Descriptor.any_of(node.output.type), library().engine
    forward = Primitive("pooling", "pooling_forward", engine, TRAINING, AVERAGE_WITHOUT_PADDING,
                        Descriptor.of(node.output.type), Descriptor.any_of(node.inputs[0].type),
                        *_pooling(node), None)  # fmt: skip
    kernel = Primitive("pooling, gradient", "pooling_backward", engine, AVERAGE_WITHOUT_PADDING, shape, g.layout,
                       *_pooling(node), forward, None)  # fmt: skip
    program.run(kernel, {
        Role.RESULT_GRADIENT: g,
        Role.SOURCE_GRADIENT: program.written(node.output, kernel.layout(Query.SOURCE_GRADIENT)),
    })  # fmt: skip


def _pooling(node: Node) -> tuple[Any, ...]:
    size = node.attrs["kernel"]
    _, (strides, dilations, first, last) = geometry(node, size)
    return strides, dims(size), dilations, first, last
