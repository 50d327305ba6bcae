"""Gray, RGB and HSV."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import boolean, choice, integer, probability, value_error
from graphls.dataset.vision.image import Array, ImageOperation, PilOperation, check_image, saturated, wrong_shape
from graphls.dataset.vision.utils import ConvertMode
from graphls.ir.errors import GraphTypeError

_SHARES = (0.299, 0.587, 0.114)  # of red, green and blue in gray, ITU-R BT.601


def gray_of(image: Array, order: tuple[int, int, int] = (0, 1, 2)) -> Array:
    """The gray (H, W) of channels (H, W, C); `order` says which are red, green and blue. uint8 by fixed point."""
    channels = [image[:, :, channel] for channel in order]
    if image.dtype == np.uint8:
        weights = [9798, 19235, 3735]  # the shares times 2 ** 15
        total: Any = sum(weight * channel.astype(np.int32) for weight, channel in zip(weights, channels, strict=True))
        return np.asarray((total + (1 << 14) >> 15).astype(np.uint8))
    parts = (channel * np.float32(share) for share, channel in zip(_SHARES, channels, strict=True))
    return saturated(sum(parts), image.dtype)  # type: ignore[arg-type]


class Grayscale(PilOperation):
    """The gray of a PIL image, in 1 or 3 equal channels; raises GraphTypeError, also for arrays, or GraphValueError."""

    def __init__(self, num_output_channels: int = 1) -> None:
        self.num_output_channels = integer("num_output_channels", num_output_channels)
        if num_output_channels not in (1, 3):
            raise value_error(f"A gray image has 1 or 3 channels, not {num_output_channels}.")

    def on_pil(self, image: Any) -> Any:
        gray = image.convert("L")
        return gray if self.num_output_channels == 1 else gray.convert("RGB")


class RandomGrayscale(PilOperation):
    """The gray of a PIL image, with a probability, with as many channels; raises GraphTypeError or GraphValueError."""

    def __init__(self, prob: float = 0.1) -> None:
        self.prob = probability("prob", prob)

    def on_pil(self, image: Any) -> Any:
        if generator().random() >= self.prob:
            return image
        return Grayscale(1 if image.mode == "L" else 3).on_pil(image)


class ConvertColor(ImageOperation):
    """The image's channels in another order, with opacity (255, or 1 of floats) or without, or as gray (H, W).

    Takes (H, W) or (H, W, C). Raises GraphTypeError for what is no ConvertMode, GraphRuntimeError where the image has
    too few channels.
    """

    def __init__(self, convert_mode: ConvertMode) -> None:
        self.convert_mode = choice("convert_mode", convert_mode, ConvertMode)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        channels = image.shape[2] if image.ndim == 3 else 1
        if self.convert_mode in _GRAYS:
            if channels < 3:
                raise wrong_shape(self, image, "an image of 3 or 4 channels")
            return gray_of(image, _GRAYS[self.convert_mode])
        from_gray = self.convert_mode in (ConvertMode.COLOR_GRAY2BGR, ConvertMode.COLOR_GRAY2BGRA)
        if from_gray != (channels == 1):
            raise wrong_shape(self, image, "an image of 1 channel" if from_gray else "an image of 3 or 4 channels")
        planes = image.reshape(*image.shape[:2], channels)
        opaque = np.full((*image.shape[:2], 1), 255 if image.dtype.kind in "iu" else 1, image.dtype)
        order = _ORDERS[self.convert_mode]
        return np.concatenate([opaque if i == 3 and channels < 4 else planes[:, :, i : i + 1] for i in order], 2)


_KEPT, _SWAPPED = [0, 1, 2], [2, 1, 0]
_ORDERS: dict[ConvertMode, list[int]] = {
    ConvertMode.COLOR_BGR2BGRA: [*_KEPT, 3],
    ConvertMode.COLOR_BGRA2BGR: _KEPT,
    ConvertMode.COLOR_BGR2RGBA: [*_SWAPPED, 3],
    ConvertMode.COLOR_RGBA2BGR: _SWAPPED,
    ConvertMode.COLOR_BGR2RGB: _SWAPPED,
    ConvertMode.COLOR_BGRA2RGBA: [*_SWAPPED, 3],
    ConvertMode.COLOR_GRAY2BGR: [0, 0, 0],
    ConvertMode.COLOR_GRAY2BGRA: [0, 0, 0, 3],
}
_GRAYS: dict[ConvertMode, tuple[int, int, int]] = {
    ConvertMode.COLOR_RGB2GRAY: (0, 1, 2),
    ConvertMode.COLOR_RGBA2GRAY: (0, 1, 2),
    ConvertMode.COLOR_BGR2GRAY: (2, 1, 0),
    ConvertMode.COLOR_BGRA2GRAY: (2, 1, 0),
}


class _OfThreeChannels(ImageOperation):
    def __init__(self, is_hwc: bool = False) -> None:
        self.is_hwc = boolean("is_hwc", is_hwc)

    def on_array(self, image: Array) -> Array:
        axis = -1 if self.is_hwc else -3
        if image.ndim not in (3, 4) or image.shape[axis] != 3:
            text = f"{type(self).__name__} takes three channels on the axis {axis}, not an array of {image.shape}."
            raise GraphTypeError(text)
        channels = np.moveaxis(image, axis, 0)
        result = np.stack(self.convert(*channels), axis)
        return result.astype(image.dtype) if image.dtype.kind == "f" else result

    def on_pil(self, image: Any) -> Any:
        raise GraphTypeError(f"{type(self).__name__} takes an array, not a PIL image.")

    def convert(self, first: Array, second: Array, third: Array) -> list[Array]:
        """The three new channels."""
        raise NotImplementedError


class RgbToHsv(_OfThreeChannels):
    """Hue and saturation in [0, 1] and value of red, green and blue, by the formulas of Python's `colorsys`.

    Takes (3, H, W) or (N, 3, H, W), or with `is_hwc` (H, W, 3) or (N, H, W, 3); integers give float64. Raises
    GraphTypeError for other arrays.
    """

    def convert(self, first: Array, second: Array, third: Array) -> list[Array]:
        red, green, blue = (channel.astype(np.float64) for channel in (first, second, third))
        value = np.maximum(np.maximum(red, green), blue)
        span = value - np.minimum(np.minimum(red, green), blue)
        divisor = np.where(span == 0, 1, span)
        hue = np.where(value == red, (green - blue) / divisor, 2 + (blue - red) / divisor)
        hue = np.where((value == blue) & (value != red) & (value != green), 4 + (red - green) / divisor, hue)
        saturation = span / np.where(value == 0, 1, value)
        return [hue / 6 % 1, saturation, value]


class HsvToRgb(_OfThreeChannels):
    """Red, green and blue of hue, saturation and value, the inverse of `RgbToHsv`."""

    def convert(self, first: Array, second: Array, third: Array) -> list[Array]:
        hue, saturation, value = (channel.astype(np.float64) for channel in (first, second, third))
        sector = np.floor(hue * 6)
        rest = hue * 6 - sector
        p, q = value * (1 - saturation), value * (1 - saturation * rest)
        t = value * (1 - saturation * (1 - rest))
        number = sector.astype(np.int64) % 6
        tables = [[value, q, p, p, t, value], [t, value, value, q, p, p], [p, p, t, value, value, q]]
        return [np.choose(number, table) for table in tables]


def hsv_of_bytes(image: Array) -> Array:
    """uint8 hue (256 steps), saturation and value of uint8 (H, W, 3), by OpenCV's fixed-point rule."""
    red, green, blue = (image[:, :, channel].astype(np.int64) for channel in range(3))
    value = np.maximum(np.maximum(red, green), blue)
    span = value - np.minimum(np.minimum(red, green), blue)
    numbers = np.arange(1, 256)
    by_value = np.concatenate([[0], np.rint((255 << 12) / numbers)]).astype(np.int64)
    by_span = np.concatenate([[0], np.rint((256 << 12) / (6.0 * numbers))]).astype(np.int64)
    saturation = span * by_value[value] + (1 << 11) >> 12
    hue = np.where(value == red, green - blue, np.where(value == green, blue - red + 2 * span, red - green + 4 * span))
    hue = hue * by_span[span] + (1 << 11) >> 12
    hue = hue + np.where(hue < 0, 256, 0)
    return np.stack([hue.clip(0, 255), saturation, value], 2).astype(np.uint8)


def rgb_of_hsv_bytes(hsv: Array) -> Array:
    """uint8 (H, W, 3) of uint8 hue (256 steps), saturation and value."""
    hue = hsv[:, :, 0].astype(np.float32) * np.float32(6 / 255)
    saturation, value = (hsv[:, :, channel].astype(np.float32) / np.float32(255) for channel in (1, 2))
    sector = np.floor(hue)
    rest = hue - sector
    one = np.float32(1)
    shares = [saturation, saturation * rest, saturation * (one - rest)]
    table = [value, *(value * (one - share) for share in shares)]
    rows = [[0, 3, 1], [2, 0, 1], [1, 0, 3], [1, 2, 0], [3, 1, 0], [0, 1, 2]]
    number = sector.astype(np.int64) % 6
    channels = [np.choose(np.array([row[channel] for row in rows])[number], table) for channel in range(3)]
    return saturated(np.stack(channels, 2) * np.float32(255), np.uint8)
