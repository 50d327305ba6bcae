"""Maximum, average and norm over windows of images with one to three axes."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ir.types import int32, int64
from graphls.ops.convolution import FORMATS, are_last, as_given, channels_first, spatial
from graphls.ops.creation import arange, zeros
from graphls.ops.elementwise import add, cast, mod, mul, pow
from graphls.ops.joins import replaced_elements
from graphls.ops.operands import Shape, ShapeLike, apply, float_of, shape_of, tensor_of
from graphls.ops.pads import Windows, check_axes, check_padding, pads_of, sizes_of, zero_padded
from graphls.ops.record import operation, operator_class
from graphls.ops.shapes import check_range, reshape
from graphls.ops.transcendental import root
from graphls.tensors import dispatch
from graphls.tensors.pytree import map_leaves
from graphls.tensors.tensor import Tensor, TensorLike

Result = TypeVar("Result")


@operation
def max_pool1d(
    input: TensorLike,
    kernel_size: TensorLike,
    stride: TensorLike | None = None,
    padding: TensorLike = 0,
    dilation: ShapeLike = 1,
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
    x: TensorLike,
    kernel_size: TensorLike,
    stride: TensorLike | None = None,
    padding: TensorLike = 0,
    dilation: ShapeLike = 1,
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
    x: TensorLike,
    kernel_size: Shape,
    stride: Shape | None = None,
    padding: TensorLike = 0,
    dilation: ShapeLike = 1,
    return_indices: bool = False,
    ceil_mode: bool = False,
    *,
    pad_mode: str = "pad",
) -> Any:
    """The largest element of each window of (N, C, D, H, W) or (C, D, H, W); see `max_pool2d`."""
    windows = Windows(kernel_size, stride, padding, pad_mode, dilation, ceil_mode)
    return _max_pool("max_pool3d", 3, x, windows, return_indices)


def _max_pool(name: str, axes: int, x: TensorLike, windows: Windows, return_indices: bool) -> Any:
    def pool(x: Tensor) -> Any:
        y, places = dispatch.apply("max_pool", x, **windows.geometry(x.shape, axes))
        return (y, mod(places, prod(x.shape[2:]))) if return_indices else y

    return batched(name, axes, x, pool)


def batched(name: str, axes: int, x: TensorLike, function: Callable[[Tensor], Result]) -> Result:
    """A function of a batch of images, applied to one or, without the first axis, to a single image."""
    x = float_of(x)
    check_axes(name, x, axes, unbatched=True)
    if x.ndim == axes + 2:
        return function(x)
    one: Result = map_leaves(lambda y: reshape(y, y.shape[1:]), function(reshape(x, (1, *x.shape))))
    return one


@operation
def avg_pool1d(
    input_x: TensorLike,
    kernel_size: ShapeLike = 1,
    stride: ShapeLike = 1,
    padding: TensorLike = 0,
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
    input_x: TensorLike,
    kernel_size: ShapeLike = 1,
    stride: ShapeLike = 1,
    padding: TensorLike = 0,
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
    input_x: TensorLike,
    kernel_size: ShapeLike = 1,
    stride: ShapeLike = 1,
    padding: TensorLike = 0,
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
    """The mean where of all padding only some counts."""
    if geometry["pads"] == counted:
        return apply("avg_pool", x, **geometry, count_include_pad=True)
    pads = tuple(n - own for n, own in zip(geometry["pads"], counted, strict=True))
    return apply("avg_pool", zero_padded(x, counted), **(geometry | {"pads": pads}))


def check_divisor(divisor: TensorLike | None) -> int:
    """A divisor of 1 or more, or 0 for none; raises GraphTypeError or GraphValueError otherwise."""
    if divisor is not None and (isinstance(divisor, bool) or not isinstance(divisor, int)):
        raise GraphTypeError(f"The 'divisor_override' is an integer, not {divisor!r}.")
    if divisor is not None and divisor < 0:
        raise GraphValueError(f"The 'divisor_override' is not negative, as {divisor} is.")
    return divisor or 0


@operation
def lp_pool1d(
    x: TensorLike, norm_type: float, kernel_size: ShapeLike, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window of (N, C, L) or (C, L); see `lp_pool2d`."""
    return _lp_pool("lp_pool1d", 1, x, norm_type, kernel_size, stride, ceil_mode)


@operation
def lp_pool2d(
    x: TensorLike, norm_type: float, kernel_size: ShapeLike, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """(sum of x ** p) ** (1 / p) over each window of images, for p = `norm_type`; the gradient of a sum of 0 is 0.

    The stride is the size of the window unless given. Raises GraphTypeError and GraphValueError for what is no
    positive number.
    """
    return _lp_pool("lp_pool2d", 2, x, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(
    name: str, axes: int, x: TensorLike, norm_type: TensorLike, kernel_size: ShapeLike, stride: Shape, ceil_mode: bool
) -> Tensor:
    if isinstance(norm_type, bool) or not isinstance(norm_type, (int, float)):
        raise GraphTypeError(f"The 'norm_type' is a number, not {norm_type!r}.")
    if norm_type <= 0:
        raise GraphValueError(f"The 'norm_type' is positive, not {norm_type!r}.")
    windows = Windows(kernel_size, stride, 0, "valid", ceil_mode=ceil_mode)
    sums = _avg_pool(name, axes, pow(float_of(x), norm_type), windows, False, 1)
    return root(sums, norm_type)


def _lower(pad_mode: str) -> Any:
    """The mode of padding, of which MindSpore also writes "SAME" and "VALID"."""
    return pad_mode.lower() if isinstance(pad_mode, str) else pad_mode


def _pool(function: Callable[..., Any]) -> Callable[..., Any]:
    def pooled(
        x: Any, kernel_size: Any = 1, strides: Any = 1, pad_mode: str = "valid", data_format: str = "NCHW"
    ) -> Any:
        windows = spatial(kernel_size, 2), spatial(strides, 2)
        y = function(channels_first(x, data_format, 2), *windows, pad_mode=_lower(pad_mode))
        return map_leaves(lambda t: as_given(t, data_format, 2), y)

    return pooled


@operator_class("MaxPool3D", "kernel_size strides pad_mode pad_list ceil_mode data_format", like=max_pool3d)
def _max_pool_volumes(
    x: TensorLike,
    kernel_size: TensorLike = 1,
    strides: TensorLike = 1,
    pad_mode: str = "VALID",
    pad_list: TensorLike = 0,
    ceil_mode: bool | None = None,
    data_format: str = "NCDHW",
) -> Tensor:
    is_ceiled = bool(ceil_mode) and _lower(pad_mode) == "pad"
    y = max_pool3d(
        channels_first(x, data_format, 3), spatial(kernel_size, 3), spatial(strides, 3), pad_list,
        ceil_mode=is_ceiled, pad_mode=_lower(pad_mode),
    )  # fmt: skip
    return as_given(y, data_format, 3)


@operator_class(
    "AvgPool3D", "kernel_size strides pad_mode pad ceil_mode count_include_pad divisor_override data_format"
)
def _avg_pool_volumes(
    x: TensorLike,
    kernel_size: ShapeLike = 1,
    strides: ShapeLike = 1,
    pad_mode: str = "valid",
    pad: TensorLike = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
    data_format: str = "NCDHW",
) -> Tensor:
    """The mean of each window of (N, C, D, H, W); see `ops.avg_pool3d`.

    Padding counts as zeros with `count_include_pad`, that of the mode "same" too.
    """
    x, mode = channels_first(x, data_format, 3), _lower(pad_mode)
    kernel, steps = (sizes_of(n, spatial(v, 3), 3) for n, v in (("kernel_size", kernel_size), ("strides", strides)))
    if mode == "same" and count_include_pad:
        sides = pads_of(x.shape, kernel, steps, mode, pad)
        mode, pad = "pad", tuple(n for pair in zip(sides[:3], sides[3:], strict=True) for n in pair)
    y = avg_pool3d(x, kernel, steps, pad, ceil_mode, count_include_pad, divisor_override, pad_mode=mode)
    return as_given(y, data_format, 3)


def _max_pool_with_places(x: Tensor, kernel_size: Shape, stride: Shape, *, pad_mode: str) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its int32 position among all elements of its (C, H, W)."""
    y, places = max_pool2d(x, kernel_size, stride, pad_mode=pad_mode, return_indices=True)
    before = mul(reshape(arange(y.shape[-3]), (-1, 1, 1)), prod(x.shape[-2:]))
    return y, cast(add(places, before), int32)


def _with_places(function: Callable[..., Any]) -> Callable[..., Any]:
    def pooled(
        x: TensorLike,
        kernel_size: Shape,
        strides: Shape | None = None,
        pads: TensorLike = 0,
        dilation: ShapeLike = 1,
        ceil_mode: bool = False,
        argmax_type: object = int64,
    ) -> tuple[Tensor, Tensor]:
        y, places = function(x, kernel_size, strides, pads, dilation, True, ceil_mode)
        return y, cast(places, argmax_type)

    return pooled


@operator_class("MaxPool3DWithArgmax", "ksize strides pads dilation ceil_mode data_format argmax_type", like=max_pool3d)
def _volumes_with_places(
    x: TensorLike,
    ksize: ShapeLike,
    strides: ShapeLike,
    pads: Shape | str,
    dilation: ShapeLike = (1, 1, 1),
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    argmax_type: object = int64,
) -> Any:
    pooled = _with_places(max_pool3d)
    y = pooled(channels_first(x, data_format, 3), ksize, strides, pads, dilation, ceil_mode, argmax_type)
    return map_leaves(lambda t: as_given(t, data_format, 3), y)


_SETTINGS = "kernel_size strides pad_mode data_format"
operator_class("AvgPool", _SETTINGS, defaults={"pad_mode": "VALID"}, via=_pool)(avg_pool2d)
operator_class("MaxPool", _SETTINGS, via=_pool)(max_pool2d)
operator_class("MaxPoolWithArgmax", _SETTINGS, via=_pool)(_max_pool_with_places)
_SETTINGS = "kernel_size strides pads dilation ceil_mode argmax_type"
operator_class("MaxPoolWithArgmaxV2", _SETTINGS, defaults={"dilation": (1, 1)}, via=_with_places)(max_pool2d)


@operation
def max_unpool1d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The elements of (N, C, L) or (C, L) at the places that `max_pool1d` found them; see `max_unpool2d`."""
    return _unpooled("max_unpool1d", 1, x, indices, kernel_size, stride, padding, output_size)


@operation
def max_unpool2d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The elements of images (N, C, H, W) or (C, H, W) at the places that `max_pool2d` found them, zeros elsewhere.

    `indices` count the places in the result in row-major order; of several for one place the last stays. A size becomes
    (size - 1) * stride - 2 * padding + kernel, or what `output_size` says, which is at most a stride away; it may also
    begin with the sizes of batch and channels. Raises GraphTypeError and GraphValueError for arguments that do not fit,
    GraphIndexError for an index that is known and out of range.
    """
    return _unpooled("max_unpool2d", 2, x, indices, kernel_size, stride, padding, output_size)


@operation
def max_unpool3d(
    x: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The elements of (N, C, D, H, W) or (C, D, H, W) at the places that `max_pool3d` found; see `max_unpool2d`."""
    return _unpooled("max_unpool3d", 3, x, indices, kernel_size, stride, padding, output_size)


def _unpooled(
    name: str,
    axes: int,
    x: TensorLike,
    indices: TensorLike,
    kernel_size: Shape,
    stride: Shape,
    padding: Shape,
    output_size: ShapeLike,
) -> Tensor:
    x, places = tensor_of(x), tensor_of(indices)
    check_axes(name, x, axes, unbatched=True)
    if places.dtype not in (int32, int64):
        raise GraphTypeError(f"{name} takes int32 or int64 indices, not {places.type}.")
    if places.shape != x.shape:
        raise GraphValueError(f"{name} takes indices of the shape {x.shape}, not {places.type}.")
    kernel, strides, pads = window_sizes(kernel_size, stride, padding, axes)
    outer, sizes = x.shape[:-axes], _sizes(name, x.shape, kernel, strides, pads, output_size)
    rows = prod(outer)
    background = zeros((rows, prod(sizes)), x.dtype)
    flat = [reshape(t, (rows, prod(x.shape[-axes:]))) for t in (places, x)]
    check_range(background, flat[0], 1)
    found = replaced_elements(background, flat[0], flat[1], 1) if x.size else background
    return reshape(found, (*outer, *sizes))


def window_sizes(kernel_size: Any, stride: Any, padding: Any, axes: int) -> tuple[Shape, Shape, Shape]:
    """Kernel, stride and padding for each axis; a stride of None or 0 is the kernel.

    Raises GraphTypeError or GraphValueError for anything but integers of a fitting size.
    """
    kernel = sizes_of("kernel_size", kernel_size, axes)
    is_kernel = stride is None or stride in (0, (0,) * axes, [0] * axes)
    pads = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * axes
    if len(pads) != axes or any(isinstance(n, bool) or not isinstance(n, int) for n in pads):
        raise GraphTypeError(f"The 'padding' is one integer or {axes}, not {padding!r}.")
    if min(pads) < 0:
        raise GraphValueError(f"The 'padding' is 0 or more, not {padding!r}.")
    return kernel, kernel if is_kernel else sizes_of("stride", stride, axes), pads


def _sizes(name: str, shape: Shape, kernel: Shape, strides: Shape, pads: Shape, output_size: ShapeLike) -> Shape:
    axes = len(kernel)
    usual = tuple((n - 1) * s - 2 * p + k for n, s, p, k in zip(shape[-axes:], strides, pads, kernel, strict=True))
    given = shape_of(() if output_size is None else output_size)
    sizes = given[-axes:] or usual
    is_near = len(sizes) == axes and all(abs(n - u) <= s for n, u, s in zip(sizes, usual, strides, strict=True))
    if not is_near or given[:-axes] not in ((), shape[:-axes]) or min(sizes) < 1:
        message = f"{name} makes the sizes {usual} of {shape}, or others a stride away at most, not {output_size}."
        raise GraphValueError(message)
    return sizes


def _unpool(function: Callable[..., Any], axes: int) -> Callable[..., Any]:
    def unpooled(
        x: TensorLike,
        argmax: TensorLike,
        ksize: Shape,
        strides: ShapeLike = 0,
        pads: TensorLike = 0,
        output_shape: Any = (),
        data_format: str = FORMATS[axes][0],
    ) -> Tensor:
        x, places = (channels_first(t, data_format, axes) for t in (x, argmax))
        whole = tuple(output_shape) or None
        if whole and are_last(data_format, axes):
            whole = (whole[0], whole[-1], *whole[1:-1])
        y = function(x, places, ksize, strides, pads, whole)
        return as_given(y, data_format, axes)

    return unpooled


_SETTINGS_POOLING = "ksize strides pads output_shape data_format"
operator_class("MaxUnpool2D", _SETTINGS_POOLING, via=lambda function: _unpool(function, 2))(max_unpool2d)
operator_class("MaxUnpool3D", _SETTINGS_POOLING, via=lambda function: _unpool(function, 3))(max_unpool3d)
