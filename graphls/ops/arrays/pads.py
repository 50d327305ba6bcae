"""Padding of tensors, and the padding modes and windows of convolution and pooling."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.ops.arrays.arrangement import flip
from graphls.ops.arrays.creation import full
from graphls.ops.arrays.shapes import broadcast_to, concat, cut
from graphls.ops.operands import Operand, Paddings, Shape, Sizes, apply, tensor_of
from graphls.ops.record import AXES, operation, operator_class

_COUNTS = {1: "one integer", 2: "one integer or two", 3: "one integer or three"}


def sizes_of(name: str, value: object, axes: int, least: int = 1) -> Shape:
    """One integer for all axes, or one for each, of `least` or more.

    Raises GraphTypeError for anything else, GraphValueError for smaller ones.
    """
    values = value if isinstance(value, (tuple, list)) else (value,) * axes
    if len(values) != axes or not all(map(_is_int, values)):
        raise GraphTypeError(f"The {name!r} is {_COUNTS[axes]}, not {value!r}.")
    if min(values) < least:
        raise GraphValueError(f"The {name!r} is {least} or more, not {value!r}.")
    return tuple(values)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def pads_of(
    shape: Shape, kernel: Shape, strides: Shape, pad_mode: str, padding: object, dilations: Shape | None = None
) -> Shape:
    """The padding before every axis of an image of that shape, then after every axis.

    "same" gives ceil(size / stride) windows, with the smaller half of the padding first. Raises GraphValueError for an
    unknown mode or size.
    """
    sides = check_padding(pad_mode, padding, len(kernel))
    if pad_mode != "same" or len(shape) != len(kernel) + 2:
        return sides
    sizes = zip(shape[2:], kernel, strides, dilations or (1,) * len(kernel), strict=True)
    totals = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0) for n, k, s, d in sizes]
    return (*(t // 2 for t in totals), *(t - t // 2 for t in totals))


def check_padding(pad_mode: str, padding: object, axes: int) -> Shape:
    """`padding` before every axis, then after every axis.

    Raises GraphValueError for an unknown mode, or one that takes no padding.
    """
    sides = _sides_of(padding, axes)
    if pad_mode not in ("same", "valid", "pad"):
        raise GraphValueError(f"The 'pad_mode' is 'same', 'valid' or 'pad', not {pad_mode!r}.")
    if pad_mode != "pad" and any(sides):
        raise GraphValueError(f"With the pad_mode {pad_mode!r}, 'padding' is 0, not {padding!r}; give pad_mode='pad'.")
    return sides


def _sides_of(padding: object, axes: int) -> Shape:
    """From one integer, one for each axis, or (before, after) for each axis in turn."""
    sides: Shape = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * axes  # type: ignore[assignment]
    if len(sides) not in (axes, 2 * axes) or not all(map(_is_int, sides)):
        counts = {1: "or two", 2: "two or four", 3: "three or six"}[axes]
        raise GraphTypeError(f"The 'padding' is one integer, {counts}, not {padding!r}.")
    if min(sides) < 0:
        raise GraphValueError(f"The 'padding' is made of integers of 0 or more, not {padding!r}.")
    return sides + sides if len(sides) == axes else (*sides[::2], *sides[1::2])


def check_axes(name: str, x: Tensor, axes: int, unbatched: bool = False) -> None:
    """Raise GraphValueError unless x has a batch, channels and `axes` axes more; `unbatched` may lack the batch."""
    if x.ndim != axes + 2 and not (unbatched and x.ndim == axes + 1):
        sizes = f"C, {AXES[axes]['sizes']}"
        shapes = f"(N, {sizes}) or ({sizes})" if unbatched else f"(N, {sizes})"
        raise GraphValueError(f"{name} takes images of shape {shapes}, not {x.type}.")


class Windows(NamedTuple):
    """The windows of a pool as the arguments of a user."""

    kernel_size: Sizes
    stride: Sizes | None = None
    padding: Sizes = 0
    pad_mode: str = "pad"
    dilation: Sizes = 1
    ceil_mode: bool = False

    def geometry(self, shape: Shape, axes: int) -> dict[str, Any]:
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
    """Raise GraphValueError for "same", which fixes the number of windows by itself."""
    if pad_mode == "same":
        raise GraphValueError("With the pad_mode 'same', 'ceil_mode' must be False.")


def _ceiled(shape: Shape, reach: Shape, strides: Shape, pads: Shape) -> Shape:
    """The pads, extended for a last window that starts before the end of the image."""
    axes = len(reach)
    after = []
    for n, k, s, first, last in zip(shape[2:], reach, strides, pads[:axes], pads[axes:], strict=True):
        count = -(-max(n + first + last - k, 0) // s)
        start = count * s if count * s < n + first else (count - 1) * s
        after.append(max(start + k - n - first, last))
    return (*pads[:axes], *after)


def zero_padded(x: Tensor, pads: Shape) -> Tensor:
    """Images padded with zeros: `pads` has the numbers before every axis, then after every axis."""
    axes = x.ndim - 2
    return _with_zeros(x, [(0, 0), (0, 0), *zip(pads[:axes], pads[axes:], strict=True)])


Side = Callable[[Tensor, int, int], Tensor]
"""A function from a tensor, an axis and a count to the padding on one side."""


@operation(also="mint.nn.functional")
def pad(
    input_x: TensorLike, padding: Sequence[int], mode: str = "constant", value: float | Tensor | None = None
) -> Tensor:
    """x padded before and after its last axes.

    `padding` has a pair of numbers for each of these axes, the last axis first. A negative number removes elements. The
    new ones are `value` (default 0) for "constant"; mirrored elements without the edge itself for "reflect" and with it
    for "symmetric"; the edge for "replicate"; and those of the other end for "circular". Raises GraphTypeError for a
    padding that is not a sequence of integers, GraphValueError for one that does not fit and for another mode.
    """
    x, counts = tensor_of(input_x), _integers(padding)
    if len(counts) % 2 or len(counts) > 2 * x.ndim:
        message = f"pad takes a pair of numbers for each axis, {2 * x.ndim} at most for {x.type}, not {len(counts)}."
        raise GraphValueError(message)
    if value is not None and mode != "constant":
        raise GraphValueError(f"pad takes a 'value' in the mode 'constant', not in {mode!r}.")
    pairs = list(zip(counts[0::2], counts[1::2], strict=True))[::-1]
    return _padded(x, [(0, 0)] * (x.ndim - len(pairs)) + pairs, mode, value)


@operation(classes="MirrorPad", settings="mode")
def mirror_pad(input_x: TensorLike, paddings: Paddings, mode: str = "REFLECT") -> Tensor:
    """x padded with its mirrored elements: a pair of numbers before and after each axis, the first axis first.

    The mode is "REFLECT", without the edge itself, or "SYMMETRIC", with it. Raises GraphValueError for another one and
    for numbers that do not fit.
    """
    if mode not in ("REFLECT", "SYMMETRIC"):
        raise GraphValueError(f"'mode' is 'REFLECT' or 'SYMMETRIC', not {mode!r}.")
    return _padded(tensor_of(input_x), _pairs(input_x, paddings), mode.lower(), None)


@operator_class("Pad", "paddings")
def pad_zeros(input_x: TensorLike, paddings: Paddings) -> Tensor:
    """x padded with zeros: a pair of numbers before and after each axis, the first axis first."""
    return _padded(tensor_of(input_x), _pairs(input_x, paddings), "constant", None)


def _integers(numbers: Sequence[int] | Tensor) -> tuple[int, ...]:
    numbers = numbers.tolist() if hasattr(numbers, "tolist") else numbers
    is_sequence = isinstance(numbers, (tuple, list))
    if not is_sequence or any(isinstance(n, bool) or not isinstance(n, int) for n in numbers):
        raise GraphTypeError(f"A padding is a tuple of integers, not {numbers!r}.")
    return tuple(numbers)


def _pairs(x: TensorLike, paddings: Paddings) -> list[tuple[int, int]]:
    items = paddings.tolist() if hasattr(paddings, "tolist") else paddings
    if not isinstance(items, (tuple, list)):
        raise GraphTypeError(f"The paddings are a pair for each axis, not {paddings!r}.")
    pairs = [_integers(pair) for pair in items]
    rank = tensor_of(x).ndim
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise GraphValueError(f"The paddings are a pair for each of {rank} axes, not {paddings}.")
    return [(pair[0], pair[1]) for pair in pairs]


def _padded(x: Tensor, pairs: Sequence[tuple[int, int]], mode: str, value: TensorLike | None) -> Tensor:
    if mode != "constant" and (not isinstance(mode, str) or mode not in _SIDES):
        known = ", ".join(map(repr, ("constant", *_SIDES)))
        raise GraphValueError(f"pad has the modes {known}, not {mode!r}.")
    for axis, pair in enumerate(pairs):
        x = _shortened(x, axis, *pair)
    widths = [tuple(builtins.max(n, 0) for n in pair) for pair in pairs]
    if mode == "constant" and not value:
        return _with_zeros(x, widths)
    for axis, (before, after) in enumerate(widths):
        if before or after:
            x = _widened(x, axis, before, after, mode, value)
    return x


def _shortened(x: Tensor, axis: int, before: int, after: int) -> Tensor:
    """x cropped by negative numbers."""
    start, stop = builtins.max(0, -before), x.shape[axis] + builtins.min(0, after)
    if start > stop:
        raise GraphValueError(f"pad cannot take {-before} and {-after} elements of {x.shape[axis]}.")
    return cut(x, axis, start, stop) if stop - start < x.shape[axis] else x


def _with_zeros(x: Tensor, widths: Sequence[tuple[int, ...]]) -> Tensor:
    if not any(map(any, widths)):
        return x
    starts = tuple(before for before, _ in widths)
    stops = tuple(start + n for start, n in zip(starts, x.shape, strict=True))
    shape = tuple(stop + after for stop, (_, after) in zip(stops, widths, strict=True))
    return apply("slice_gradient", x, shape=shape, starts=starts, stops=stops, steps=(1,) * x.ndim)


def _widened(x: Tensor, axis: int, before: int, after: int, mode: str, value: TensorLike | None) -> Tensor:
    if mode == "constant":
        shapes = [tuple(n if i == axis else m for i, m in enumerate(x.shape)) for n in (before, after)]
        first, last = (full(shape, value, dtype=x.dtype) for shape in shapes)
        return concat((first, x, last), axis)
    inner, (first_side, last_side) = _INNER[mode], _SIDES[mode]
    room = x.shape[axis] - inner
    wide = builtins.max(before, after)
    if (mode == "replicate" and not x.shape[axis]) or (mode != "replicate" and wide > room):
        message = f"pad in the mode {mode!r} cannot add {wide} elements to {x.shape[axis]} along axis {axis}."
        raise GraphValueError(message)
    pieces = [first_side(x, axis, before)] if before else []
    pieces += [x, last_side(x, axis, after)] if after else [x]
    return concat(pieces, axis)


def _edge(x: Tensor, axis: int, at: int, count: int) -> Tensor:
    return broadcast_to(cut(x, axis, at, at + 1), tuple(count if i == axis else n for i, n in enumerate(x.shape)))


def _last(x: Tensor, axis: int, count: int, skipped: int = 0) -> Tensor:
    stop = x.shape[axis] - skipped
    return cut(x, axis, stop - count, stop)


_SIDES: dict[str, tuple[Side, Side]] = {
    "reflect": (lambda x, a, n: flip(cut(x, a, 1, n + 1), a), lambda x, a, n: flip(_last(x, a, n, 1), a)),
    "symmetric": (lambda x, a, n: flip(cut(x, a, 0, n), a), lambda x, a, n: flip(_last(x, a, n), a)),
    "replicate": (lambda x, a, n: _edge(x, a, 0, n), lambda x, a, n: _edge(x, a, x.shape[a] - 1, n)),
    "circular": (lambda x, a, n: _last(x, a, n), lambda x, a, n: cut(x, a, 0, n)),
}
"""The padding before and after x, in each mode."""

_INNER = {"reflect": 1, "symmetric": 0, "replicate": 0, "circular": 0}
"""The number of elements at an edge that are not repeated."""


@operator_class("PadV3", "mode paddings_contiguous")
def _padded_operator(
    x: TensorLike, paddings: Sizes, constant_value: Operand | None = None, mode: str = "constant",
    paddings_contiguous: bool = True,
) -> Tensor:  # fmt: skip
    """x padded before and after its last axes, the last one first; see `ops.pad`.

    The mode "edge" repeats the edge. Unless `paddings_contiguous`, all numbers before axes precede all those after.
    """
    widths = [int(n) for n in tensor_of(paddings).asnumpy().reshape(-1)]
    if not paddings_contiguous:
        half = len(widths) // 2
        widths = [n for pair in zip(widths[:half], widths[half:], strict=True) for n in pair]
    value = constant_value if mode == "constant" else None
    return pad(x, widths, "replicate" if mode == "edge" else mode, value)
