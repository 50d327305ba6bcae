"""Matrix products and convolutions."""

from __future__ import annotations

from typing import TypedDict

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.table import operator
from graphls.onnx.values import Input, Ints, OptionalInput
from graphls.ops.operands import apply, tensor_of
from graphls.primitives.windows import Geometry

Shape = tuple[int, ...]


class ConvolutionAttributes(TypedDict, total=False):
    """The attributes of Conv, which other convolutions pass on."""

    auto_pad: str
    dilations: Ints
    group: int
    kernel_shape: Ints
    pads: Ints
    strides: Ints


@operator("MatMul")
def matmul(a: Input, b: Input) -> Tensor:
    a, b = tensor_of(a), tensor_of(b)
    if a.dtype.is_float:
        return ops.matmul(a, b)
    # Products of integers are exact in float64 as long as they stay below 2 ** 53.
    return ops.cast(ops.matmul(ops.cast(a, "float64"), ops.cast(b, "float64")), a.dtype)


@operator("Gemm")
def gemm(
    a: Input, b: Input, c: OptionalInput = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0, broadcast: int = 1,
) -> Tensor:  # fmt: skip
    a, b = tensor_of(a), tensor_of(b)
    if not a.dtype.is_float:
        a, b = (ops.transpose(x) if swapped else x for x, swapped in ((a, transA), (b, transB)))
        product = matmul(a, b)
    else:
        a, b = ops.transpose(a) if transA else a, ops.transpose(b) if transB else b
        product = ops.matmul(a, b)
    product = product if alpha == 1 else product * alpha
    if c is None or beta == 0:
        return product
    return ops.add(product, c if beta == 1 else ops.mul(c, beta))


@operator("Einsum")
def einsum(*operands: Input, equation: str) -> Tensor:
    return ops.einsum(equation.replace(" ", ""), *operands)


@operator("Conv")
def conv(
    x: Input, w: Input, b: OptionalInput = None, *, auto_pad: str = "NOTSET", dilations: Ints | None = None,
    group: int = 1, kernel_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    x, w = tensor_of(x), tensor_of(w)
    at = geometry(x.shape, w.shape[2:], auto_pad, pads, strides, dilations)
    return with_bias(apply("convolution", x, w, **at, groups=group), b)


@operator("ConvTranspose")
def conv_transpose(
    x: Input, w: Input, b: OptionalInput = None, *, auto_pad: str = "NOTSET", dilations: Ints | None = None,
    group: int = 1, kernel_shape: Ints | None = None, output_padding: Ints | None = None,
    output_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    x, w = tensor_of(x), tensor_of(w)
    axes = x.ndim - 2
    ones, zeros = (1,) * axes, (0,) * axes
    strides, dilations = tuple(strides or ones), tuple(dilations or ones)
    extra, pads = tuple(output_padding or zeros), tuple(pads or zeros * 2)
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True))
    full = [(n - 1) * s + r + e for n, s, r, e in zip(x.shape[2:], strides, reach, extra, strict=True)]
    if output_shape or auto_pad.startswith("SAME"):
        target = tuple(output_shape or (n * s for n, s in zip(x.shape[2:], strides, strict=True)))[-axes:]
        totals = [f - n for f, n in zip(full, target, strict=True)]
        small, large = [n // 2 for n in totals], [n - n // 2 for n in totals]
        pads = (*small, *large) if auto_pad == "SAME_UPPER" else (*large, *small)
    elif auto_pad == "VALID":
        pads = zeros * 2
    return with_bias(_transposed(x, w, full, pads, extra, strides, dilations, group), b)


def _transposed(
    x: Tensor, w: Tensor, full: list[int], pads: Shape, extra: Shape, strides: Shape, dilations: Shape, group: int
) -> Tensor:
    """The transposed convolution: its full result, without output padding, less what the pads cut off."""
    axes = len(strides)
    computed = [n - e for n, e in zip(full, extra, strict=True)]
    shape = (x.shape[0], w.shape[1] * group, *computed)
    y = apply("convolution_input_gradient", x, w, shape=shape, strides=strides, dilations=dilations, groups=group)
    stops = [n - p for n, p in zip(full, pads[axes:], strict=True)]
    sides = [(-p, s - c) for p, s, c in zip(pads[:axes], stops, computed, strict=True)]
    return padded(y, sides)


def padded(x: Tensor, sides: list[tuple[int, int]]) -> Tensor:
    """x padded with zeros before and behind along its last axes; a negative number removes elements."""
    return ops.pad(x, [n for side in reversed(sides) for n in side]) if any(map(any, sides)) else x


def with_bias(y: Tensor, bias: OptionalInput) -> Tensor:
    """y plus a bias for each channel."""
    return y if bias is None else ops.add(y, ops.reshape(bias, (1, -1, *[1] * (y.ndim - 2))))


def geometry(
    shape: Shape, kernel: Shape, auto_pad: str, pads: Ints | None, strides: Ints | None, dilations: Ints | None = None
) -> dict[str, Shape]:
    """Strides, pads and dilations of windows; raises GraphValueError for attributes of another number of axes."""
    ones = (1,) * len(kernel)
    strides, dilations = tuple(strides or ones), tuple(dilations or ones)
    if len(shape) != len(kernel) + 2 or len(strides) != len(kernel) or len(dilations) != len(kernel):
        raise GraphValueError(f"Windows of size {kernel} do not fit images of shape {shape}.")
    if auto_pad.startswith("SAME"):
        reach = Geometry.over(kernel, strides, dilations=dilations).reach(kernel)
        counts = [-(-n // s) for n, s in zip(shape[2:], strides, strict=True)]
        totals = [max((c - 1) * s + r - n, 0) for c, s, r, n in zip(counts, strides, reach, shape[2:], strict=True)]
        small, large = [n // 2 for n in totals], [n - n // 2 for n in totals]
        pads = (*large, *small) if auto_pad == "SAME_LOWER" else (*small, *large)
    elif auto_pad == "VALID" or not pads:
        pads = (0, 0) * len(kernel)
    return {"strides": strides, "pads": tuple(pads), "dilations": dilations}
