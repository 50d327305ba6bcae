"""Maximum, average and norm pooling of images with one to three axes, and unpooling."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

from graphls.base.checks import positive
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.names.traps import STRIDE, warns_of
from graphls.frontend.tensors import dispatch
from graphls.frontend.tensors.pytree import map_leaves
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ir.types import DTypeLike, int32, int64
from graphls.ops.arrays.creation import arange, zeros
from graphls.ops.arrays.joins import replaced_elements
from graphls.ops.arrays.pads import Windows, check_axes, check_padding, pads_of, sizes_of, zero_padded
from graphls.ops.arrays.shapes import check_range, reshape
from graphls.ops.math.elementwise import add, cast, mod, mul
from graphls.ops.math.transcendental import root
from graphls.ops.network.convolution import FORMATS, are_last, channels_first, spatial, to_format
from graphls.ops.operands import Shape, ShapeLike, Sizes, apply, float_of, shape_of, tensor_of
from graphls.ops.record import by_axes, operation, operator_class

Result = TypeVar("Result")


@operation
def max_pool1d(
    input: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False, *, pad_mode: str = "pad",
) -> Any:  # fmt: skip
    """The largest element of each window of (N, C, L) or (C, L); see `max_pool2d`."""
    windows = Windows(kernel_size, stride, padding, pad_mode, dilation, ceil_mode)
    return _max_pool("max_pool1d", 1, input, windows, return_indices)


@by_axes(2, 3)
def max_pool(axes: int) -> Callable[..., Any]:
    """The largest element of each window of {images} (N, C, {sizes}) or (C, {sizes}).

    The default stride is the size of the window. `ceil_mode` adds a last window for remaining elements, if it starts on
    the image or on the padding before it. With `return_indices` also the int64 position of the element in its image, in
    row-major order; the gradient goes to that element. Raises GraphTypeError and GraphValueError where sizes do not
    fit.
    """

    def pooled(
        x: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1,
        return_indices: bool = False, ceil_mode: bool = False, *, pad_mode: str = "pad",
    ) -> Any:  # fmt: skip
        windows = Windows(kernel_size, stride, padding, pad_mode, dilation, ceil_mode)
        return _max_pool(f"max_pool{axes}d", axes, x, windows, return_indices)

    return pooled


max_pool2d, max_pool3d = max_pool


def _max_pool(name: str, axes: int, x: TensorLike, windows: Windows, return_indices: bool) -> Any:
    def pool(x: Tensor) -> Any:
        y, positions = dispatch.apply("max_pool", x, **windows.geometry(x.shape, axes))
        return (y, mod(positions, prod(x.shape[2:]))) if return_indices else y

    return batched(name, axes, x, pool)


def batched(name: str, axes: int, x: TensorLike, function: Callable[[Tensor], Result]) -> Result:
    """A function of a batch of images, applied to a batch or, without the first axis, to a single image."""
    x = float_of(x)
    check_axes(name, x, axes, unbatched=True)
    if x.ndim == axes + 2:
        return function(x)
    one: Result = map_leaves(lambda y: reshape(y, y.shape[1:]), function(reshape(x, (1, *x.shape))))
    return one


@operation
@warns_of(STRIDE)
def avg_pool1d(
    input_x: TensorLike, kernel_size: Sizes = 1, stride: Sizes = 1, padding: Sizes = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, *, pad_mode: str = "pad",
) -> Tensor:  # fmt: skip
    """The mean of each window of (N, C, L) or (C, L); see `avg_pool2d`."""
    windows = Windows(kernel_size, stride, padding, pad_mode, ceil_mode=ceil_mode)
    return _avg_pool("avg_pool1d", 1, input_x, windows, count_include_pad)


@by_axes(2, 3)
def avg_pool(axes: int) -> Callable[..., Tensor]:
    """The mean of each window of {images} (N, C, {sizes}) or (C, {sizes}).

    Padding counts as zeros only for `pad_mode` "pad" with `count_include_pad`; padding added by `ceil_mode`, as in
    `max_pool2d`, never counts. A `divisor_override` above 0 replaces the number of elements as the divisor. Raises
    GraphTypeError and GraphValueError where sizes do not fit.
    """

    @warns_of(STRIDE)
    def pooled(
        input_x: TensorLike, kernel_size: Sizes = 1, stride: Sizes = 1, padding: Sizes = 0, ceil_mode: bool = False,
        count_include_pad: bool = True, divisor_override: int | None = 0, *, pad_mode: str = "pad",
    ) -> Tensor:  # fmt: skip
        windows = Windows(kernel_size, stride, padding, pad_mode, ceil_mode=ceil_mode)
        return _avg_pool(f"avg_pool{axes}d", axes, input_x, windows, count_include_pad, divisor_override)

    return pooled


avg_pool2d, avg_pool3d = avg_pool


def _avg_pool(
    name: str, axes: int, x: TensorLike, windows: Windows, count_include_pad: bool, divisor_override: int | None = 0
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


def _with_counted_zeros(x: Tensor, geometry: dict[str, Any], counted: Shape) -> Tensor:
    """The mean where only part of the padding counts."""
    if geometry["pads"] == counted:
        return apply("avg_pool", x, **geometry, count_include_pad=True)
    pads = tuple(n - own for n, own in zip(geometry["pads"], counted, strict=True))
    return apply("avg_pool", zero_padded(x, counted), **(geometry | {"pads": pads}))


def check_divisor(divisor: int | None) -> int:
    """A divisor of 1 or more, or 0 for none; raises GraphTypeError or GraphValueError otherwise."""
    if divisor is not None and (isinstance(divisor, bool) or not isinstance(divisor, int)):
        raise GraphTypeError(f"The 'divisor_override' is an integer, not {divisor!r}.")
    if divisor is not None and divisor < 0:
        raise GraphValueError(f"The 'divisor_override' is not negative, as {divisor} is.")
    return divisor or 0


@by_axes(1, 2, checks={"norm_type": positive})
def lp_pool(axes: int) -> Callable[..., Tensor]:
    """(sum of x ** p) ** (1 / p) over each window of {images}, for p = `norm_type`; the gradient of a sum of 0 is 0.

    The default stride is the size of the window. Raises GraphTypeError and GraphValueError for anything but a positive
    number.
    """

    def pooled(
        x: TensorLike, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> Tensor:
        windows = Windows(kernel_size, stride, 0, "valid", ceil_mode=ceil_mode)
        sums = _avg_pool(f"lp_pool{axes}d", axes, float_of(x) ** norm_type, windows, False, 1)
        return root(sums, norm_type)

    return pooled


lp_pool1d, lp_pool2d = lp_pool


def _lower(pad_mode: str) -> str:
    """The padding mode in lower case, as MindSpore also has "SAME" and "VALID"."""
    return pad_mode.lower() if isinstance(pad_mode, str) else pad_mode


def _pool(function: Callable[..., Any]) -> Callable[..., Any]:
    def pooled(
        x: TensorLike, kernel_size: Sizes = 1, strides: Sizes = 1, pad_mode: str = "valid", data_format: str = "NCHW"
    ) -> Any:
        windows = spatial(kernel_size, 2), spatial(strides, 2)
        y = function(channels_first(x, data_format, 2), *windows, pad_mode=_lower(pad_mode))
        return map_leaves(lambda t: to_format(t, data_format, 2), y)

    return pooled


@operator_class("MaxPool3D", "kernel_size strides pad_mode pad_list ceil_mode data_format", like=max_pool3d)
def _max_pool_volumes(
    x: TensorLike, kernel_size: Sizes = 1, strides: Sizes = 1, pad_mode: str = "VALID", pad_list: Sizes = 0,
    ceil_mode: bool | None = None, data_format: str = "NCDHW",
) -> Tensor:  # fmt: skip
    is_ceiled = bool(ceil_mode) and _lower(pad_mode) == "pad"
    y = max_pool3d(
        channels_first(x, data_format, 3), spatial(kernel_size, 3), spatial(strides, 3), pad_list,
        ceil_mode=is_ceiled, pad_mode=_lower(pad_mode),
    )  # fmt: skip
    return to_format(y, data_format, 3)


@operator_class(
    "AvgPool3D", "kernel_size strides pad_mode pad ceil_mode count_include_pad divisor_override data_format"
)
def _avg_pool_volumes(
    x: TensorLike, kernel_size: Sizes = 1, strides: Sizes = 1, pad_mode: str = "valid", pad: Sizes = 0,
    ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int = 0, data_format: str = "NCDHW",
) -> Tensor:  # fmt: skip
    """The mean of each window of (N, C, D, H, W); see `ops.avg_pool3d`.

    Padding counts as zeros with `count_include_pad`, that of the mode "same" too.
    """
    x, mode = channels_first(x, data_format, 3), _lower(pad_mode)
    kernel, steps = (sizes_of(n, spatial(v, 3), 3) for n, v in (("kernel_size", kernel_size), ("strides", strides)))
    if mode == "same" and count_include_pad:
        sides = pads_of(x.shape, kernel, steps, mode, pad)
        mode, pad = "pad", tuple(n for pair in zip(sides[:3], sides[3:], strict=True) for n in pair)
    y = avg_pool3d(x, kernel, steps, pad, ceil_mode, count_include_pad, divisor_override, pad_mode=mode)
    return to_format(y, data_format, 3)


def _max_pool_with_positions(x: Tensor, kernel_size: Sizes, stride: Sizes, *, pad_mode: str) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its int32 position among all elements of its (C, H, W)."""
    y, positions = max_pool2d(x, kernel_size, stride, pad_mode=pad_mode, return_indices=True)
    before = reshape(arange(y.shape[-3]), (-1, 1, 1)) * prod(x.shape[-2:])
    return y, cast(add(positions, before), int32)


def _with_positions(function: Callable[..., Any]) -> Callable[..., Any]:
    def pooled(
        x: TensorLike, kernel_size: Sizes, strides: Sizes | None = None, pads: Sizes = 0, dilation: Sizes = 1,
        ceil_mode: bool = False, argmax_type: DTypeLike = int64,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        y, positions = function(x, kernel_size, strides, pads, dilation, True, ceil_mode)
        return y, cast(positions, argmax_type)

    return pooled


@operator_class("MaxPool3DWithArgmax", "ksize strides pads dilation ceil_mode data_format argmax_type", like=max_pool3d)
def _volumes_with_positions(
    x: TensorLike, ksize: Sizes, strides: Sizes, pads: Sizes, dilation: Sizes = (1, 1, 1), ceil_mode: bool = False,
    data_format: str = "NCDHW", argmax_type: DTypeLike = int64,
) -> Any:  # fmt: skip
    pooled = _with_positions(max_pool3d)
    y = pooled(channels_first(x, data_format, 3), ksize, strides, pads, dilation, ceil_mode, argmax_type)
    return map_leaves(lambda t: to_format(t, data_format, 3), y)


_SETTINGS = "kernel_size strides pad_mode data_format"
operator_class("AvgPool", _SETTINGS, defaults={"pad_mode": "VALID"}, via=_pool)(avg_pool2d)
operator_class("MaxPool", _SETTINGS, via=_pool)(max_pool2d)
operator_class("MaxPoolWithArgmax", _SETTINGS, via=_pool)(_max_pool_with_positions)
_SETTINGS = "kernel_size strides pads dilation ceil_mode argmax_type"
operator_class("MaxPoolWithArgmaxV2", _SETTINGS, defaults={"dilation": (1, 1)}, via=_with_positions)(max_pool2d)


@by_axes(1, 2, 3)
def max_unpool(axes: int) -> Callable[..., Tensor]:
    """The inverse of `max_pool`: the elements of {images} (N, C, {sizes}) or (C, {sizes}) at `indices`, else zeros.

    `indices` are positions in the result in row-major order; of several for one position the last wins. A size becomes
    (size - 1) * stride - 2 * padding + kernel, or that of `output_size`, which differs by at most a stride; it may also
    begin with the sizes of batch and channels. Raises GraphTypeError and GraphValueError for arguments that do not fit,
    GraphIndexError for a constant index out of range.
    """
    name = f"max_unpool{axes}d"

    def unpooled(
        x: TensorLike, indices: TensorLike, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0,
        output_size: ShapeLike | None = None,
    ) -> Tensor:  # fmt: skip
        x, positions = tensor_of(x), tensor_of(indices)
        check_axes(name, x, axes, unbatched=True)
        if positions.dtype not in (int32, int64):
            raise GraphTypeError(f"{name} takes int32 or int64 indices, not {positions.type}.")
        if positions.shape != x.shape:
            raise GraphValueError(f"{name} takes indices of the shape {x.shape}, not {positions.type}.")
        kernel, strides, pads = window_sizes(kernel_size, stride, padding, axes)
        outer, sizes = x.shape[:-axes], _sizes(name, x.shape, kernel, strides, pads, output_size)
        rows = prod(outer)
        background = zeros((rows, prod(sizes)), x.dtype)
        flat = [reshape(t, (rows, prod(x.shape[-axes:]))) for t in (positions, x)]
        check_range(background, flat[0], 1)
        result = replaced_elements(background, flat[0], flat[1], 1) if x.size else background
        return reshape(result, (*outer, *sizes))

    return unpooled


max_unpool1d, max_unpool2d, max_unpool3d = max_unpool


def window_sizes(kernel_size: Sizes, stride: Sizes | None, padding: Sizes, axes: int) -> tuple[Shape, Shape, Shape]:
    """Kernel, stride and padding for each axis; a stride of None or 0 is the kernel.

    Raises GraphTypeError or GraphValueError for anything but integers of a fitting size.
    """
    kernel, pads = sizes_of("kernel_size", kernel_size, axes), sizes_of("padding", padding, axes, least=0)
    if stride is None or stride in (0, (0,) * axes, [0] * axes):
        return kernel, kernel, pads
    return kernel, sizes_of("stride", stride, axes), pads


def _sizes(name: str, shape: Shape, kernel: Shape, strides: Shape, pads: Shape, output_size: ShapeLike | None) -> Shape:
    axes = len(kernel)
    usual = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(shape[-axes:], strides, pads, kernel, strict=True))
    requested = shape_of(() if output_size is None else output_size)
    sizes = requested[-axes:] or usual
    is_near = len(sizes) == axes and all(abs(n - u) <= s for n, u, s in zip(sizes, usual, strides, strict=True))
    if not is_near or requested[:-axes] not in ((), shape[:-axes]) or min(sizes) < 1:
        message = f"{name} makes the sizes {usual} of {shape}, or others a stride away at most, not {output_size}."
        raise GraphValueError(message)
    return sizes


def _unpool(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    def unpooled(
        x: TensorLike, argmax: TensorLike, ksize: Sizes, strides: Sizes = 0, pads: Sizes = 0, output_shape: Shape = (),
        data_format: str = FORMATS[axes][0],
    ) -> Tensor:  # fmt: skip
        x, positions = (channels_first(t, data_format, axes) for t in (x, argmax))
        output_size = tuple(output_shape) or None
        if output_size and are_last(data_format, axes):
            output_size = (output_size[0], output_size[-1], *output_size[1:-1])
        y = function(x, positions, ksize, strides, pads, output_size)
        return to_format(y, data_format, axes)

    return unpooled


_SETTINGS_POOLING = "ksize strides pads output_shape data_format"
operator_class("MaxUnpool2D", _SETTINGS_POOLING, via=lambda function: _unpool(function, 2))(max_unpool2d)
operator_class("MaxUnpool3D", _SETTINGS_POOLING, via=lambda function: _unpool(function, 3))(max_unpool3d)
