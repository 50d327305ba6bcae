"""Operator classes of colours, whose three numbers lie along one axis."""

from __future__ import annotations

from graphls.ir.errors import GraphValueError
from graphls.ops.elementwise import abs as absolute
from graphls.ops.elementwise import (
    add,
    clip_by_value,
    div,
    equal,
    floor,
    greater,
    maximum,
    minimum,
    mod,
    mul,
    sub,
    where,
)
from graphls.ops.operands import in_single
from graphls.ops.record import operator_class
from graphls.ops.shapes import gather, stack
from graphls.tensors.tensor import Tensor, TensorLike

Colour = tuple[Tensor, Tensor, Tensor]


def _parts(x: Tensor) -> Colour:
    if not x.ndim or x.shape[-1] != 3 or not x.dtype.is_float:
        raise GraphValueError(f"Colours are three floats along the last axis, not {x.type}.")
    return gather(x, 0, -1), gather(x, 1, -1), gather(x, 2, -1)


def _hue_saturation_value(r: Tensor, g: Tensor, b: Tensor) -> Colour:
    value, least = maximum(maximum(r, g), b), minimum(minimum(r, g), b)
    spread = sub(value, least)
    safe = where(greater(spread, 0.0), spread, 1.0)
    by_red, by_green, by_blue = div(sub(g, b), safe), add(div(sub(b, r), safe), 2.0), add(div(sub(r, g), safe), 4.0)
    sixths = where(equal(value, r), by_red, where(equal(value, g), by_green, by_blue))
    hue = where(greater(spread, 0.0), div(mod(sixths, 6.0), 6.0), 0.0)
    saturation = where(greater(value, 0.0), div(spread, where(greater(value, 0.0), value, 1.0)), 0.0)
    return hue, saturation, value


def _red_green_blue(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    sixths = mul(sub(hue, floor(hue)), 6.0)
    corners = (
        sub(absolute(sub(sixths, 3.0)), 1.0), sub(2.0, absolute(sub(sixths, 2.0))), sub(2.0, absolute(sub(sixths, 4.0)))
    )  # fmt: skip
    missing = (sub(1.0, clip_by_value(corner, 0.0, 1.0)) for corner in corners)
    return stack([mul(value, sub(1.0, mul(saturation, part))) for part in missing], -1)


@operator_class("RGBToHSV")
def _to_hsv(images: TensorLike) -> Tensor:
    """Hue, saturation and value of red, green and blue along the last axis; the hue goes from 0 to 1."""
    return in_single(lambda x: stack(_hue_saturation_value(*_parts(x)), -1), images)


@operator_class("HSVToRGB")
def _to_rgb(images: TensorLike) -> Tensor:
    """Red, green and blue of hue, saturation and value along the last axis."""
    return in_single(lambda x: _red_green_blue(*_parts(x)), images)


@operator_class("AdjustHue")
def _adjust_hue(image: TensorLike, delta: TensorLike) -> Tensor:
    """Colours along the last axis with their hue moved by `delta`, of which 1 is once around."""

    def adjusted(x: Tensor) -> Tensor:
        hue, saturation, value = _hue_saturation_value(*_parts(x))
        return _red_green_blue(add(hue, delta), saturation, value)

    return in_single(adjusted, image)


@operator_class("AdjustSaturation")
def _adjust_saturation(image: TensorLike, scale: TensorLike) -> Tensor:
    """Colours along the last axis with their saturation times `scale`, kept between 0 and 1."""

    def adjusted(x: Tensor) -> Tensor:
        hue, saturation, value = _hue_saturation_value(*_parts(x))
        return _red_green_blue(hue, clip_by_value(mul(saturation, scale), 0.0, 1.0), value)

    return in_single(adjusted, image)
