"""Maximum, average and norm over windows of images with one to three axes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.elementwise import mod, mul, pow
from graphls.ops.operands import apply, float_of
from graphls.ops.record import operation
from graphls.ops.roots import root
from graphls.ops.shapes import reshape
from graphls.ops.windows import Sizes, Windows, check_axes, check_padding, zero_padded
from graphls.tensors import dispatch
from graphls.tensors.pytree import map_leaves
from graphls.tensors.tensor import Tensor

Result = TypeVar("Result")


@operation
def max_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    pad_mode: str = "pad",
) -> Any:
    """The largest element of each window of (N, C, L) or (C, L); see `max_pool2d`."""
    windows = Windows(kernel_size, stride, padding, pad_mode, dilation, ceil_mode)
    return _max_pool("max_pool1d", 1, input, windows, return_indices)


@operation
def max_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    return_indices: bool = False,
    ceil_mode: bool = False,
    *,
    pad_mode: str = "pad",
) -> Any:
    """The largest element of each window of images (N, C, H, W) or (C, H, W).

    The stride is the size of the window unless given. `ceil_mode` adds a last window where elements are left, if it
    starts on the image or on the padding before it. With `return_indices` also the int64 position of the element in
    its image, counted in row-major order; the gradient goes to that element. Raises GraphTypeError and
    GraphValueError where sizes do not fit.
    """
    windows = Windows(kernel_size, stride, padding, pad_mode, dilation, ceil_mode)
    return _max_pool("max_pool2d", 2, x, windows, return_indices)


@operation
def max_pool3d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    return_indices: bool = False,
    ceil_mode: bool = False,
    *,
    pad_mode: str = "pad",
) -> Any:
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W); see `max_pool2d`."""
    windows = Windows(kernel_size, stride, padding, pad_mode, dilation, ceil_mode)
    return _max_pool("max_pool3d", 3, x, windows, return_indices)


def _max_pool(name: str, axes: int, x: Any, windows: Windows, return_indices: bool) -> Any:
    def pool(x: Tensor) -> Any:
        y, places = dispatch.apply("max_pool", x, **windows.geometry(x.shape, axes))
        return (y, mod(places, prod(x.shape[2:]))) if return_indices else y

    return batched(name, axes, x, pool)


def batched(name: str, axes: int, x: Any, function: Callable[[Tensor], Result]) -> Result:
    """A function of a batch of images, applied to one or, without the first axis, to a single image."""
    x = float_of(x)
    check_axes(name, x, axes, unbatched=True)
    if x.ndim == axes + 2:
        return function(x)
    one: Result = map_leaves(lambda y: reshape(y, y.shape[1:]), function(reshape(x, (1, *x.shape))))
    return one


@operation
def avg_pool1d(
    input_x: Any,
    kernel_size: Any = 1,
    stride: Any = 1,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    *,
    pad_mode: str = "pad",
) -> Tensor:
    """The mean of each window of (N, C, L) or (C, L); see `avg_pool2d`."""
    windows = Windows(kernel_size, stride, padding, pad_mode, ceil_mode=ceil_mode)
    return _avg_pool("avg_pool1d", 1, input_x, windows, count_include_pad)


@operation
def avg_pool2d(
    input_x: Any,
    kernel_size: Any = 1,
    stride: Any = 1,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = 0,
    *,
    pad_mode: str = "pad",
) -> Tensor:
    """The mean of each window of images (N, C, H, W) or (C, H, W).

    Padding counts as zeros only for `pad_mode` "pad" with `count_include_pad`; what `ceil_mode` adds at the end, as in
    `max_pool2d`, never counts. A `divisor_override` above 0 divides the sums in place of the number of elements.
    Raises GraphTypeError and GraphValueError where sizes do not fit.
    """
    windows = Windows(kernel_size, stride, padding, pad_mode, ceil_mode=ceil_mode)
    return _avg_pool("avg_pool2d", 2, input_x, windows, count_include_pad, divisor_override)


@operation
def avg_pool3d(
    input_x: Any,
    kernel_size: Any = 1,
    stride: Any = 1,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = 0,
    *,
    pad_mode: str = "pad",
) -> Tensor:
    """The mean of each window of (N, C, D, H, W) or (C, D, H, W); see `avg_pool2d`."""
    windows = Windows(kernel_size, stride, padding, pad_mode, ceil_mode=ceil_mode)
    return _avg_pool("avg_pool3d", 3, input_x, windows, count_include_pad, divisor_override)


def _avg_pool(
    name: str, axes: int, x: Any, windows: Windows, count_include_pad: bool, divisor_override: int | None = 0
) -> Tensor:
    divisor = check_divisor(divisor_override)

    def pool(x: Tensor) -> Tensor:
        geometry = windows.geometry(x.shape, axes)
        if divisor:
            mean = apply("avg_pool", x, **geometry, count_include_pad=True)
            return mul(mean, prod(geometry["kernel"]) / divisor)
        if not count_include_pad or windows.pad_mode != "pad":
            return apply("avg_pool", x, **geometry)
        return _with_counted_zeros(x, geometry, check_padding("pad", windows.padding, axes))

    return batched(name, axes, x, pool)


def _with_counted_zeros(x: Tensor, geometry: dict[str, Any], counted: Sizes) -> Tensor:
    """The mean where of all padding only some counts."""
    if geometry["pads"] == counted:
        return apply("avg_pool", x, **geometry, count_include_pad=True)
    pads = tuple(n - own for n, own in zip(geometry["pads"], counted, strict=True))
    return apply("avg_pool", zero_padded(x, counted), **(geometry | {"pads": pads}))


def check_divisor(divisor: Any) -> int:
    """A divisor of 1 or more, or 0 for none; raises GraphTypeError or GraphValueError otherwise."""
    if divisor is not None and (isinstance(divisor, bool) or not isinstance(divisor, int)):
        raise GraphTypeError(f"The 'divisor_override' is an integer, not {divisor!r}.")
    if divisor is not None and divisor < 0:
        raise GraphValueError(f"The 'divisor_override' is not negative, as {divisor} is.")
    return divisor or 0


@operation
def lp_pool1d(x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm of each window of (N, C, L) or (C, L); see `lp_pool2d`."""
    return _lp_pool("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode)


@operation
def lp_pool2d(x: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """(sum of x ** p) ** (1 / p) over each window of images, for p = `norm_type`; the gradient of a sum of 0 is 0.

    The stride is the size of the window unless given. Raises GraphTypeError and GraphValueError for what is no
    positive number.
    """
    return _lp_pool("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(name: str, axes: int, x: Any, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    if isinstance(norm_type, bool) or not isinstance(norm_type, (int, float)):
        raise GraphTypeError(f"The 'norm_type' is a number, not {norm_type!r}.")
    if norm_type <= 0:
        raise GraphValueError(f"The 'norm_type' is positive, not {norm_type!r}.")
    windows = Windows(kernel_size, stride, 0, "valid", ceil_mode=ceil_mode)
    sums = _avg_pool(name, axes, pow(float_of(x), norm_type), windows, False, 1)
    return root(sums, norm_type)
