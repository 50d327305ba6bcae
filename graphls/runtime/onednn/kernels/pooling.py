"""Rules of pooling and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphls.ir.graph import Node, Value
from graphls.runtime.onednn.binding import Descriptor, Primitive, Query, Role, dims
from graphls.runtime.onednn.kernels.convolution_shapes import TRAINING, geometry
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Program
from graphls.runtime.onednn.registry import rule

AVERAGE_WITH_PADDING, AVERAGE_WITHOUT_PADDING = 0x2FF, 0x3FF


def _algorithm(node: Node) -> int:
    return AVERAGE_WITH_PADDING if node.attrs.get("count_include_pad") else AVERAGE_WITHOUT_PADDING


@rule("avg_pool")
def _avg_pool(program: Program, node: Node) -> None:
    source, kernel = fast_kernel(program, node.inputs[0], lambda layout: Primitive(
        "pooling", "pooling_forward", library().engine, TRAINING, _algorithm(node), layout,
        Descriptor.any_of(node.output.type), *windows(node), None,
    ))  # fmt: skip
    program.run(kernel, {
        Role.SOURCE: source, Role.RESULT: program.written(node.output, kernel.layout(Query.RESULT)),
    })  # fmt: skip


@rule("avg_pool_gradient")
def _avg_pool_gradient(program: Program, node: Node) -> None:
    shape, engine = Descriptor.any_of(node.output.type), library().engine
    forward = Primitive("pooling", "pooling_forward", engine, TRAINING, _algorithm(node),
                        Descriptor.of(node.output.type), Descriptor.any_of(node.inputs[0].type),
                        *windows(node), None)  # fmt: skip
    g, kernel = fast_kernel(program, node.inputs[0], lambda layout: Primitive(
        "pooling, gradient", "pooling_backward", engine, _algorithm(node), shape, layout, *windows(node), forward, None,
    ))  # fmt: skip
    program.run(kernel, {
        Role.RESULT_GRADIENT: g,
        Role.SOURCE_GRADIENT: program.written(node.output, kernel.layout(Query.SOURCE_GRADIENT)),
    })  # fmt: skip


def fast_kernel(
    program: Program, value: Value, kernel_of: Callable[[Descriptor], Primitive]
) -> tuple[View, Primitive]:  # fmt: skip
    """A view of images, and the kernel for its layout; in the common one where there is only the slow reference."""
    view = program.read(value)
    kernel = kernel_of(view.layout)
    if kernel.is_reference and not view.layout.is_plain:
        view = program.converted(view, Descriptor.common(value.type.shape, view.layout.dtype), value)
        kernel = kernel_of(view.layout)
    return view, kernel


def windows(node: Node) -> tuple[Any, ...]:
    """The strides, sizes, dilations and paddings of windows as oneDNN takes them."""
    size = node.attrs["kernel"]
    _, (strides, dilations, first, last) = geometry(node, size)
    return strides, dims(size), dilations, first, last
