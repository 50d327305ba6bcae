"""Matrix products and convolutions."""

from __future__ import annotations

from typing import Any

from graphls import ops
from graphls.base.errors import GraphValueError
from graphls.frontend.tensors.tensor import Tensor
from graphls.onnx.table import operator
from graphls.ops.operands import apply, tensor_of
from graphls.primitives.windows import Geometry

Shape = tuple[int, ...]


@operator("MatMul")
def matmul(a: Any, b: Any) -> Any:
    a, b = tensor_of(a), tensor_of(b)
    if a.dtype.is_float:
        return ops.matmul(a, b)
    # Products of integers are exact in float64 as long as they stay below 2 ** 53.
    return ops.cast(ops.matmul(ops.cast(a, "float64"), ops.cast(b, "float64")), a.dtype)


@operator("Gemm")
def gemm(
    a: Any, b: Any, c: Any = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0,
    broadcast: int = 1,
) -> Any:  # fmt: skip
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
def einsum(*operands: Any, equation: str) -> Any:
    return ops.einsum(equation.replace(" ", ""), *operands)


@operator("Conv")
def conv(
    x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    x, w = tensor_of(x), tensor_of(w)
    at = geometry(x.shape, w.shape[2:], auto_pad, pads, strides, dilations)
    return with_bias(apply("convolution", x, w, **at, groups=group), b)


@operator("ConvTranspose")
def conv_transpose(
    x: Any, w: Any, b: Any = None, *, auto_pad: str = "NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, output_padding: Any = None, output_shape: Any = None, pads: Any = None,
    strides: Any = None,
) -> Any:  # fmt: skip
    x, w = tensor_of(x), tensor_of(w)
    axes = x.ndim - 2
    ones, zeros = (1,) * axes, (0,) * axes
    strides, dilations = tuple(strides or ones), tuple(dilations or ones)
    extra, pads = tuple(output_padding or zeros), tuple(pads or zeros * 2)
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True))
    whole = [(n - 1) * s + r + e for n, s, r, e in zip(x.shape[2:], strides, reach, extra, strict=True)]
    if output_shape or auto_pad.startswith("SAME"):
        wanted = tuple(output_shape or (n * s for n, s in zip(x.shape[2:], strides, strict=True)))[-axes:]
        lost = [w - n for w, n in zip(whole, wanted, strict=True)]
        small, large = [n // 2 for n in lost], [n - n // 2 for n in lost]
        pads = (*small, *large) if auto_pad == "SAME_UPPER" else (*large, *small)
    elif auto_pad == "VALID":
        pads = zeros * 2
    return with_bias(_transposed(x, w, whole, pads, extra, strides, dilations, group), b)


def _transposed(
    x: Tensor, w: Tensor, whole: list[int], pads: Shape, extra: Shape, strides: Shape, dilations: Shape, group: int
) -> Tensor:
    """The transposed convolution: of its whole result, without output padding, what the pads leave."""
    axes = len(strides)
    full = [n - e for n, e in zip(whole, extra, strict=True)]
    shape = (x.shape[0], w.shape[1] * group, *full)
    y = apply("convolution_input_gradient", x, w, shape=shape, strides=strides, dilations=dilations, groups=group)
    stops = [n - p for n, p in zip(whole, pads[axes:], strict=True)]
    sides = [(-p, s - f) for p, s, f in zip(pads[:axes], stops, full, strict=True)]
    return padded(y, sides)


def padded(x: Tensor, sides: list[tuple[int, int]]) -> Tensor:
    """x with zeros before and behind along its last axes, or with elements taken away where a number is negative."""
    return ops.pad(x, [n for side in reversed(sides) for n in side]) if any(map(any, sides)) else x


def with_bias(y: Tensor, bias: Any) -> Tensor:
    """y with a number added for each channel."""
    return y if bias is None else ops.add(y, ops.reshape(bias, (1, -1, *[1] * (y.ndim - 2))))


def geometry(
    shape: Shape, kernel: Shape, auto_pad: str, pads: Any, strides: Any, dilations: Any = None
) -> dict[str, Shape]:
    """How windows lie on images; raises GraphValueError for attributes of another number of axes."""
    ones = (1,) * len(kernel)
    strides, dilations = tuple(strides or ones), tuple(dilations or ones)
    if len(shape) != len(kernel) + 2 or len(strides) != len(kernel) or len(dilations) != len(kernel):
        raise GraphValueError(f"Windows of size {kernel} do not fit images of shape {shape}.")
    if auto_pad.startswith("SAME"):
        reach = Geometry.over(kernel, strides, dilations=dilations).reach(kernel)
        counts = [-(-n // s) for n, s in zip(shape[2:], strides, strict=True)]
        needed = [max((c - 1) * s + r - n, 0) for c, s, r, n in zip(counts, strides, reach, shape[2:], strict=True)]
        small, large = [n // 2 for n in needed], [n - n // 2 for n in needed]
        pads = (*large, *small) if auto_pad == "SAME_LOWER" else (*small, *large)
    elif auto_pad == "VALID" or not pads:
        pads = (0, 0) * len(kernel)
    return {"strides": strides, "pads": tuple(pads), "dilations": dilations}
