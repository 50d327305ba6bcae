"""The arguments of convolution and pooling: sizes along each axis, and padding by mode."""

from __future__ import annotations

from typing import Any, NamedTuple

from graphls.ir.errors import GraphTypeError, GraphValueError
from graphls.ops.operands import apply
from graphls.tensors.tensor import Tensor, TensorLike

Sizes = tuple[int, ...]
_COUNTS = {1: "one integer", 2: "one integer or two", 3: "one integer or three"}


def sizes_of(name: str, value: object, axes: int) -> Sizes:
    """One positive integer for all axes, or one for each.

    Raises GraphTypeError for anything else, GraphValueError for sizes below 1.
    """
    values = value if isinstance(value, (tuple, list)) else (value,) * axes
    if len(values) != axes or not all(map(_is_int, values)):
        raise GraphTypeError(f"The {name!r} is {_COUNTS[axes]}, not {value!r}.")
    if min(values) < 1:
        raise GraphValueError(f"The {name!r} is 1 or more, not {value!r}.")
    return tuple(values)


def _is_int(value: TensorLike) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def pads_of(
    shape: Sizes, kernel: Sizes, strides: Sizes, pad_mode: str, padding: TensorLike, dilations: Sizes | None = None
) -> Sizes:
    """What is added before every axis of an image of that shape, then after every axis.

    "same" gives ceil(size / stride) windows, with the smaller half of the padding first. Raises GraphValueError for an
    unknown mode or size.
    """
    sides = check_padding(pad_mode, padding, len(kernel))
    if pad_mode != "same" or len(shape) != len(kernel) + 2:
        return sides
    sizes = zip(shape[2:], kernel, strides, dilations or (1,) * len(kernel), strict=True)
    totals = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in sizes]
    return (*(t // 2 for t in totals), *(t - t // 2 for t in totals))


def check_padding(pad_mode: str, padding: TensorLike, axes: int) -> Sizes:
    """`padding` before every axis, then after every axis.

    Raises GraphValueError for an unknown mode, or one that takes no padding.
    """
    sides = _sides_of(padding, axes)
    if pad_mode not in ("same", "valid", "pad"):
        raise GraphValueError(f"The 'pad_mode' is 'same', 'valid' or 'pad', not {pad_mode!r}.")
    if pad_mode != "pad" and any(sides):
        raise GraphValueError(f"With the pad_mode {pad_mode!r}, 'padding' is 0, not {padding!r}.")
    return sides


def _sides_of(padding: Any, axes: int) -> Sizes:
    """From one integer, one for each axis, or (before, after) for each axis in turn."""
    sides = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * axes
    if len(sides) not in (axes, 2 * axes) or not all(map(_is_int, sides)):
        counts = {1: "or two", 2: "two or four", 3: "three or six"}[axes]
        raise GraphTypeError(f"The 'padding' is one integer, {counts}, not {padding!r}.")
    if min(sides) < 0:
        raise GraphValueError(f"The 'padding' is made of integers of 0 or more, not {padding!r}.")
    return sides + sides if len(sides) == axes else (*sides[::2], *sides[1::2])


def check_axes(name: str, x: Tensor, axes: int, unbatched: bool = False) -> None:
    """Raise GraphValueError unless x has a batch, channels and so many axes more; `unbatched` may lack the batch."""
    if x.ndim != axes + 2 and not (unbatched and x.ndim == axes + 1):
        sizes = {1: "C, L", 2: "C, H, W", 3: "C, D, H, W"}[axes]
        shapes = f"(N, {sizes}) or ({sizes})" if unbatched else f"(N, {sizes})"
        raise GraphValueError(f"{name} takes images of shape {shapes}, not {x.type}.")


class Windows(NamedTuple):
    """The windows of a pool as a user gives them."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    pad_mode: str = "pad"
    dilation: Any = 1
    ceil_mode: bool = False

    def geometry(self, shape: Sizes, axes: int) -> dict[str, Any]:
        """The attributes of the primitive for images of a shape."""
        kernel, dilations = sizes_of("kernel_size", self.kernel_size, axes), sizes_of("dilation", self.dilation, axes)
        strides = kernel if self.stride is None else sizes_of("stride", self.stride, axes)
        pads = pads_of(shape, kernel, strides, self.pad_mode, self.padding, dilations)
        if self.ceil_mode:
            check_ceil_mode(self.pad_mode)
            reach = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
            pads = _ceiled(shape, reach, strides, pads)
        dilated = {"dilations": dilations} if set(dilations) != {1} else {}
        return {"kernel": kernel, "strides": strides, "pads": pads, **dilated}


def check_ceil_mode(pad_mode: str) -> None:
    """Raise GraphValueError for "same", which says by itself how many windows there are."""
    if pad_mode == "same":
        raise GraphValueError("With the pad_mode 'same', 'ceil_mode' must be False.")


def _ceiled(shape: Sizes, reach: Sizes, strides: Sizes, pads: Sizes) -> Sizes:
    """The pads with what a last window needs that starts before the end of the image."""
    axes = len(reach)
    after = []
    for n, k, s, first, last in zip(shape[2:], reach, strides, pads[:axes], pads[axes:], strict=True):
        count = -(-max(n + first + last - k, 0) // s)
        start = count * s if count * s < n + first else (count - 1) * s
        after.append(max(start + k - n - first, last))
    return (*pads[:axes], *after)


def zero_padded(x: Tensor, pads: Sizes) -> Tensor:
    """Images with zeros around, as many as `pads` says before every axis, then after every axis."""
    axes = x.ndim - 2
    starts = (0, 0, *pads[:axes])
    stops = tuple(a + n for a, n in zip(starts, x.shape, strict=True))
    shape = tuple(b + n for b, n in zip(stops, (0, 0, *pads[axes:]), strict=True))
    return apply("slice_gradient", x, shape=shape, starts=starts, stops=stops, steps=(1,) * x.ndim)
