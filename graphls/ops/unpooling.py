"""What a maximum over windows took, put back where it was."""

from __future__ import annotations

from math import prod
from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ops.creation import zeros
from graphls.ops.operands import shape_of, tensor_of
from graphls.ops.pooling import batched
from graphls.ops.scattering import tensor_scatter_elements
from graphls.ops.shapes import reshape
from graphls.ops.windows import sizes_of
from graphls.source import user_location
from graphls.tensor import Tensor


def unpooled(
    name: str, axes: int, x: Any, indices: Any, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    """Zeros with the elements of (N, C, sizes...) or (C, sizes...) at positions in their images, in row-major order.

    A size becomes (size - 1) * stride - 2 * padding + kernel unless the sizes, or the whole shape, are given. The
    stride is the size of the window unless given. Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    places = tensor_of(indices)
    if places.shape != tensor_of(x).shape:
        message = f"{name} takes a position for each element of {tensor_of(x).type}, not {places.type}."
        raise GraphValueError(message, user_location())

    def put_back(x: Tensor) -> Tensor:
        sizes = _sizes(name, x, axes, (kernel_size, stride, padding), output_size)
        rows = x.shape[0] * x.shape[1], prod(x.shape[2:])
        empty = zeros((rows[0], prod(sizes)), x.dtype)
        flat = tensor_scatter_elements(empty, reshape(places, rows), reshape(x, rows), 1)
        return reshape(flat, (*x.shape[:2], *sizes))

    return batched(name, axes, x, put_back)


def _sizes(name: str, x: Tensor, axes: int, windows: tuple[Any, Any, Any], output_size: Any) -> tuple[int, ...]:
    if output_size is not None:
        wanted = shape_of(output_size)
        outer = wanted[:-axes]
        if len(wanted) < axes or outer not in ((), x.shape[1:2], x.shape[:2]):
            raise GraphValueError(f"{name} cannot make a tensor of shape {wanted} of {x.type}.", user_location())
        return wanted[-axes:]
    kernel = sizes_of("kernel_size", windows[0], axes)
    strides = kernel if windows[1] is None else sizes_of("stride", windows[1], axes)
    pads = shape_of(windows[2]) * (axes if isinstance(windows[2], int) else 1)
    return tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(x.shape[2:], strides, pads, kernel, strict=True))
