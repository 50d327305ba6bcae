"""Brightness, contrast, saturation, hue and sharpness of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.transforms.checks import LARGEST_SIZE, number
from graphls.dataset.vision.color_spaces import gray_of, hsv_of_bytes, rgb_of_hsv_bytes
from graphls.dataset.vision.image import (
    Array,
    ImageOperation,
    check_bytes,
    check_channels,
    check_color,
    check_image,
    pillow,
    saturated,
    wrong_shape,
)  # fmt: skip


class AdjustBrightness(ImageOperation):
    """image * brightness_factor: 0 is black, 1 the image. Takes (H, W), (H, W, 1), (H, W, 3) or a PIL image.

    Raises GraphTypeError, GraphValueError for a negative factor, GraphRuntimeError for other shapes.
    """

    def __init__(self, brightness_factor: float) -> None:
        self.brightness_factor = number("brightness_factor", brightness_factor, 0, LARGEST_SIZE)

    def on_array(self, image: Array) -> Array:
        check_channels(self, image)
        return brightened(image, self.brightness_factor)

    def on_pil(self, image: Any) -> Any:
        return pillow("ImageEnhance").Brightness(image).enhance(self.brightness_factor)


class AdjustContrast(ImageOperation):
    """image * factor + mean * (1 - factor), `mean` the mean gray: 0 is gray, 1 the image. Takes uint8 or float32 of
    (H, W, 3), or a PIL image.

    Raises GraphTypeError, GraphValueError for a negative factor, GraphRuntimeError for other images.
    """

    def __init__(self, contrast_factor: float) -> None:
        self.contrast_factor = number("contrast_factor", contrast_factor, 0, LARGEST_SIZE)

    def on_array(self, image: Array) -> Array:
        return contrasted(_check_values(self, image), self.contrast_factor)

    def on_pil(self, image: Any) -> Any:
        return pillow("ImageEnhance").Contrast(image).enhance(self.contrast_factor)


class AdjustSaturation(ImageOperation):
    """image * factor + gray * (1 - factor): 0 is without color, 1 the image. Takes uint8 or float32 of (H, W, 3), or a
    PIL image.

    Raises GraphTypeError, GraphValueError for a negative factor, GraphRuntimeError for other images.
    """

    def __init__(self, saturation_factor: float) -> None:
        self.saturation_factor = number("saturation_factor", saturation_factor, 0, LARGEST_SIZE)

    def on_array(self, image: Array) -> Array:
        return colored(_check_values(self, image), self.saturation_factor)

    def on_pil(self, image: Any) -> Any:
        return pillow("ImageEnhance").Color(image).enhance(self.saturation_factor)


class AdjustHue(ImageOperation):
    """The image with its hue turned by a share of the circle in [-0.5, 0.5]; takes uint8 of (H, W, 3), or a PIL image.

    Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(self, hue_factor: float) -> None:
        self.hue_factor = number("hue_factor", hue_factor, -0.5, 0.5)

    def on_array(self, image: Array) -> Array:
        return hue_turned(check_bytes(self, check_color(self, image)), self.hue_factor)

    def on_pil(self, image: Any) -> Any:
        return hue_turned_pil(image, self.hue_factor)


class AdjustSharpness(ImageOperation):
    """image * factor + smoothed * (1 - factor): 0 is blurred, 1 the image, 2 sharper; the outermost pixels stay.

    Takes uint8 or floats of (H, W) or (H, W, C), gives an array. Raises GraphTypeError, GraphValueError for a negative
    factor, GraphRuntimeError for other images.
    """

    def __init__(self, sharpness_factor: float) -> None:
        self.sharpness_factor = number("sharpness_factor", sharpness_factor, 0, LARGEST_SIZE)

    def on_array(self, image: Array) -> Array:
        check_image(self, image)
        return sharpened(_check_numbers(self, image), self.sharpness_factor)


def _check_numbers(operation: object, image: Array) -> Array:
    if image.dtype != np.uint8 and image.dtype.kind != "f":
        raise wrong_shape(operation, image, "an image of uint8 or floats")
    return image


def _check_values(operation: object, image: Array) -> Array:
    return _check_numbers(operation, check_color(operation, image))


def brightened(image: Array, factor: float) -> Array:
    """image * factor in its own dtype."""
    return saturated(image * np.float32(factor), image.dtype)


def contrasted(image: Array, factor: float) -> Array:
    """A mixture with the mean gray; a factor above 1 goes beyond the image."""
    mean = float(np.mean(gray_of(image), dtype=np.float64))
    mean = int(mean + 0.5) if image.dtype == np.uint8 else mean
    return saturated(image * np.float32(factor) + np.float32(mean * (1 - factor)), image.dtype)


def colored(image: Array, factor: float) -> Array:
    """A mixture with the gray of each pixel."""
    return _mixed(image, gray_of(image)[:, :, None], factor)


def sharpened(image: Array, factor: float) -> Array:
    """A mixture with the image smoothed by weights of 1, 5 in the middle."""
    smooth = image.copy()
    if min(image.shape[:2]) > 2:
        height, width = image.shape[:2]
        inside = image[1:-1, 1:-1].astype(np.float32) * 4
        for y in range(3):
            for x in range(3):
                inside += image[y : height - 2 + y, x : width - 2 + x]
        smooth[1:-1, 1:-1] = saturated(inside / np.float32(13), image.dtype)
    return _mixed(image, smooth, factor)


def _mixed(image: Array, other: Array, factor: float) -> Array:
    return saturated(image * np.float32(factor) + other * np.float32(1 - factor), image.dtype)


def hue_turned(image: Array, factor: float) -> Array:
    """uint8 of (H, W, 3) with the hue turned, by OpenCV's rules with 256 steps of hue."""
    hsv = hsv_of_bytes(image)
    hsv[:, :, 0] += np.uint8(int(factor * 255) & 0xFF)
    return rgb_of_hsv_bytes(hsv)


def hue_turned_pil(image: Any, factor: float) -> Any:
    """A PIL image with the hue turned; one without colors stays as it is."""
    if image.mode in ("L", "1", "I", "F"):
        return image
    hue, saturation, value = image.convert("HSV").split()
    turned = np.asarray(hue) + np.uint8(int(factor * 255) & 0xFF)
    return pillow().merge("HSV", (pillow().fromarray(turned), saturation, value)).convert(image.mode)
