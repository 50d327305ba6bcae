"""Gray, RGB and HSV; brightness, contrast, saturation, hue and sharpness."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.checks import boolean, choice, integer, magnitude, number, probability
from graphls.dataset.randomness import generator
from graphls.dataset.vision.image import (
    Array,
    ImageOperation,
    PilOperation,
    check_bytes,
    check_channels,
    check_color,
    check_image,
    pillow,
    saturated,
    wrong_shape,
)
from graphls.dataset.vision.utils import ConvertMode
from graphls.ir.errors import GraphTypeError, GraphValueError

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
            raise GraphValueError(f"A gray image has 1 or 3 channels, not {num_output_channels}.")

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


class AdjustBrightness(ImageOperation):
    """image * brightness_factor: 0 is black, 1 the image. Takes (H, W), (H, W, 1), (H, W, 3) or a PIL image.

    Raises GraphTypeError, GraphValueError for a negative factor, GraphRuntimeError for other shapes.
    """

    def __init__(self, brightness_factor: float) -> None:
        self.brightness_factor = magnitude("brightness_factor", brightness_factor)

    def on_array(self, image: Array) -> Array:
        check_channels(self, image)
        return saturated(image * np.float32(self.brightness_factor), image.dtype)

    def on_pil(self, image: Any) -> Any:
        return pillow("ImageEnhance").Brightness(image).enhance(self.brightness_factor)


class AdjustContrast(ImageOperation):
    """image * factor + mean * (1 - factor), `mean` the mean gray: 0 is gray, 1 the image. Takes uint8 or float32 of
    (H, W, 3), or a PIL image.

    Raises GraphTypeError, GraphValueError for a negative factor, GraphRuntimeError for other images.
    """

    def __init__(self, contrast_factor: float) -> None:
        self.contrast_factor = magnitude("contrast_factor", contrast_factor)

    def on_array(self, image: Array) -> Array:
        factor, gray = self.contrast_factor, gray_of(_check_values(self, image))
        mean = float(np.mean(gray, dtype=np.float64))
        mean = int(mean + 0.5) if image.dtype == np.uint8 else mean
        return saturated(image * np.float32(factor) + np.float32(mean * (1 - factor)), image.dtype)

    def on_pil(self, image: Any) -> Any:
        return pillow("ImageEnhance").Contrast(image).enhance(self.contrast_factor)


class AdjustSaturation(ImageOperation):
    """image * factor + gray * (1 - factor): 0 is without color, 1 the image. Takes uint8 or float32 of (H, W, 3), or a
    PIL image.

    Raises GraphTypeError, GraphValueError for a negative factor, GraphRuntimeError for other images.
    """

    def __init__(self, saturation_factor: float) -> None:
        self.saturation_factor = magnitude("saturation_factor", saturation_factor)

    def on_array(self, image: Array) -> Array:
        return _mixed(image, gray_of(_check_values(self, image))[:, :, None], self.saturation_factor)

    def on_pil(self, image: Any) -> Any:
        return pillow("ImageEnhance").Color(image).enhance(self.saturation_factor)


class AdjustHue(ImageOperation):
    """The image with its hue turned by a share of the circle in [-0.5, 0.5]; takes uint8 of (H, W, 3), or a PIL image.

    Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, hue_factor: float) -> None:
        self.hue_factor = number("hue_factor", hue_factor, -0.5, 0.5)

    def on_array(self, image: Array) -> Array:
        hsv = hsv_of_bytes(check_bytes(self, check_color(self, image)))
        hsv[:, :, 0] += self._steps()
        return rgb_of_hsv_bytes(hsv)

    def on_pil(self, image: Any) -> Any:
        if image.mode in ("L", "1", "I", "F"):
            return image  # without colors
        hue, saturation, value = image.convert("HSV").split()
        turned = pillow().fromarray(np.asarray(hue) + self._steps())
        return pillow().merge("HSV", (turned, saturation, value)).convert(image.mode)

    def _steps(self) -> np.uint8:
        """The turn in the 256 steps that a byte of hue has."""
        return np.uint8(int(self.hue_factor * 255) & 0xFF)


class AdjustSharpness(ImageOperation):
    """image * factor + smoothed * (1 - factor): 0 is blurred, 1 the image, 2 sharper; the outermost pixels stay.

    Takes uint8 or floats of (H, W) or (H, W, C), gives an array. Raises GraphTypeError, GraphValueError for a negative
    factor, GraphRuntimeError for other images.
    """

    def __init__(self, sharpness_factor: float) -> None:
        self.sharpness_factor = magnitude("sharpness_factor", sharpness_factor)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        smooth = _check_numbers(self, image).copy()
        if min(image.shape[:2]) > 2:
            height, width = image.shape[:2]
            inside = image[1:-1, 1:-1].astype(np.float32) * 4  # weights of 1, 5 in the middle
            for y in range(3):
                for x in range(3):
                    inside += image[y : height - 2 + y, x : width - 2 + x]
            smooth[1:-1, 1:-1] = saturated(inside / np.float32(13), image.dtype)
        return _mixed(image, smooth, self.sharpness_factor)


def _check_numbers(operation: object, image: Array) -> Array:
    if image.dtype != np.uint8 and image.dtype.kind != "f":
        raise wrong_shape(operation, image, "an image of uint8 or floats")
    return image


def _check_values(operation: object, image: Array) -> Array:
    return _check_numbers(operation, check_color(operation, image))


def _mixed(image: Array, other: Array, factor: float) -> Array:
    return saturated(image * np.float32(factor) + other * np.float32(1 - factor), image.dtype)
