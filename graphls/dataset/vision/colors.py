"""Color transforms: conversions to gray, RGB and HSV, and brightness, contrast, saturation, hue and sharpness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.dataset import checks
from graphls.dataset.randomness import generator
from graphls.dataset.vision import image as images
from graphls.dataset.vision.image import Array, Image, ImageOperation, Numbers, PilImage, PilOperation, WithProbability
from graphls.dataset.vision.opencv import blended, opencv, recolored, smoothed
from graphls.dataset.vision.utils import ConvertMode

__all__ = [
    "AdjustBrightness", "AdjustContrast", "AdjustHue", "AdjustSaturation", "AdjustSharpness", "ConvertColor",
    "Grayscale", "HsvToRgb", "RandomAdjustSharpness", "RandomColor", "RandomColorAdjust", "RandomGrayscale",
    "RandomLighting", "RandomSharpness", "RgbToHsv",
]  # fmt: skip


class Grayscale(PilOperation):
    """The gray of a PIL image, in 1 or 3 equal channels; raises GraphTypeError, also for arrays, or GraphValueError.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.Grayscale()(image).getpixel((0, 0))
        133
    """

    def __init__(self, num_output_channels: int = 1) -> None:
        self.num_output_channels = checks.integer("num_output_channels", num_output_channels)
        if num_output_channels not in (1, 3):
            raise GraphValueError(f"A gray image has 1 or 3 channels, not {num_output_channels}.")

    def on_pil(self, image: PilImage) -> Any:
        gray = image.convert("L")
        return gray if self.num_output_channels == 1 else gray.convert("RGB")


class RandomGrayscale(PilOperation):
    """The gray of a PIL image, with a probability, with as many channels; raises GraphTypeError or GraphValueError.

    Examples:
        >>> from PIL import Image
        >>> from graphls.dataset import vision
        >>> image = Image.new("RGB", (6, 4), (250, 100, 0))
        >>> vision.RandomGrayscale(1.0)(image).getpixel((0, 0))
        (133, 133, 133)
    """

    def __init__(self, prob: float = 0.1) -> None:
        self.prob = checks.probability("prob", prob)

    def on_pil(self, image: PilImage) -> Any:
        if generator().random() >= self.prob:
            return image
        return Grayscale(1 if image.mode == "L" else 3).on_pil(image)


class ConvertColor(ImageOperation):
    """The image's channels in another order, with or without opacity, or as gray (H, W).

    The opacity is the largest integer, or 1 for floats. Takes uint8, uint16 or floats of (H, W) or (H, W, C). Raises
    GraphTypeError for anything but a ConvertMode, GraphRuntimeError for an image of another kind, or with too few
    channels.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), (200, 100, 0), np.uint8)
        >>> vision.ConvertColor(vision.ConvertMode.COLOR_RGB2BGR)(image)[0, 0]
        array([  0, 100, 200], dtype=uint8)
    """

    def __init__(self, convert_mode: ConvertMode) -> None:
        self.convert_mode = checks.choice("convert_mode", convert_mode, ConvertMode)

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        from_gray = self.convert_mode.name.startswith("COLOR_GRAY")
        channels = image.shape[2] if image.ndim == 3 else 1
        if channels not in ((1,) if from_gray else (3, 4)):
            count = "1 channel" if from_gray else "3 or 4 channels"
            raise images.wrong_shape(self, image, f"an image of {count}")
        if image.dtype.kind != "f" and image.dtype not in (np.uint8, np.uint16):
            raise images.wrong_shape(self, image, "an image of uint8, uint16 or floats")
        return recolored(image, self.convert_mode.name)


class _OfThreeChannels(ImageOperation):
    def __init__(self, is_hwc: bool = False) -> None:
        self.is_hwc = checks.boolean("is_hwc", is_hwc)

    def on_array(self, image: Array) -> Array:
        axis = -1 if self.is_hwc else -3
        if image.ndim not in (3, 4) or image.shape[axis] != 3:
            text = f"{type(self).__name__} takes three channels on the axis {axis}, not an array of {image.shape}."
            raise GraphTypeError(text)
        channels = np.moveaxis(image, axis, 0)
        result = np.stack(self.convert(*channels), axis)
        return result.astype(image.dtype) if image.dtype.kind == "f" else result

    def on_pil(self, image: PilImage) -> Any:
        raise GraphTypeError(f"{type(self).__name__} takes an array, not a PIL image.")

    def convert(self, first: Array, second: Array, third: Array) -> list[Array]:
        """The three new channels."""
        raise NotImplementedError


class RgbToHsv(_OfThreeChannels):
    """Hue and saturation in [0, 1] and value of red, green and blue, by the formulas of Python's `colorsys`.

    Takes (3, H, W) or (N, 3, H, W), or with `is_hwc` (H, W, 3) or (N, H, W, 3); integers become float64. Raises
    GraphTypeError for other arrays.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((1, 1, 3), (0.5, 0.0, 0.0))
        >>> vision.RgbToHsv(is_hwc=True)(image)[0, 0]
        array([0. , 1. , 0.5])
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
    """Red, green and blue of hue, saturation and value, the inverse of `RgbToHsv`.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((1, 1, 3), (0.0, 1.0, 0.5))
        >>> vision.HsvToRgb(is_hwc=True)(image)[0, 0]
        array([0.5, 0. , 0. ])
    """

    def convert(self, first: Array, second: Array, third: Array) -> list[Array]:
        hue, saturation, value = (channel.astype(np.float64) for channel in (first, second, third))
        sector = np.floor(hue * 6)
        rest = hue * 6 - sector
        p, q = value * (1 - saturation), value * (1 - saturation * rest)
        t = value * (1 - saturation * (1 - rest))
        number = sector.astype(np.int64) % 6
        tables = [[value, q, p, p, t, value], [t, value, value, q, p, p], [p, p, t, value, value, q]]
        return [np.choose(number, table) for table in tables]


class AdjustBrightness(ImageOperation):
    """image * brightness_factor: 0 is black, 1 the image. Takes (H, W), (H, W, 1), (H, W, 3) or a PIL image.

    Raises GraphTypeError, GraphValueError for a negative factor, GraphRuntimeError for other shapes.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.AdjustBrightness(0.5)(image)[0, 0]
        array([50, 50, 50], dtype=uint8)
    """

    def __init__(self, brightness_factor: float) -> None:
        self.brightness_factor = checks.magnitude("brightness_factor", brightness_factor)

    def on_array(self, image: Array) -> Array:
        images.check_channels(self, image)
        return blended(image, np.zeros_like(image), self.brightness_factor)

    def on_pil(self, image: PilImage) -> Any:
        return images.pillow("ImageEnhance").Brightness(image).enhance(self.brightness_factor)


class AdjustContrast(ImageOperation):
    """image * factor + mean * (1 - factor), `mean` the mean gray: 0 is gray, 1 the image.

    Takes uint8 or float32 of (H, W, 3), or a PIL image. Raises GraphTypeError, GraphValueError for a negative factor,
    GraphRuntimeError for other images.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), (200, 100, 0), np.uint8)
        >>> vision.AdjustContrast(0.0)(image)[0, 0]
        array([119, 119, 119], dtype=uint8)
    """

    def __init__(self, contrast_factor: float) -> None:
        self.contrast_factor = checks.magnitude("contrast_factor", contrast_factor)

    def on_array(self, image: Array) -> Array:
        mean = float(np.mean(recolored(_check_values(self, image), "RGB2GRAY"), dtype=np.float64))
        gray = np.full_like(image, int(mean + 0.5) if image.dtype == np.uint8 else mean)
        return blended(image, gray, self.contrast_factor, other_first=True)

    def on_pil(self, image: PilImage) -> Any:
        return images.pillow("ImageEnhance").Contrast(image).enhance(self.contrast_factor)


class AdjustSaturation(ImageOperation):
    """image * factor + gray * (1 - factor): 0 is without color, 1 the image.

    Takes uint8 or float32 of (H, W, 3), or a PIL image. Raises GraphTypeError, GraphValueError for a negative factor,
    GraphRuntimeError for other images.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), (200, 100, 0), np.uint8)
        >>> vision.AdjustSaturation(0.0)(image)[0, 0]
        array([119, 119, 119], dtype=uint8)
    """

    def __init__(self, saturation_factor: float) -> None:
        self.saturation_factor = checks.magnitude("saturation_factor", saturation_factor)

    def on_array(self, image: Array) -> Array:
        gray = recolored(recolored(_check_values(self, image), "RGB2GRAY"), "GRAY2RGB")
        return blended(image, gray, self.saturation_factor, other_first=True)

    def on_pil(self, image: PilImage) -> Any:
        return images.pillow("ImageEnhance").Color(image).enhance(self.saturation_factor)


class AdjustHue(ImageOperation):
    """The image with its hue turned by a share of the circle in [-0.5, 0.5]; takes uint8 of (H, W, 3), or a PIL image.

    Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), (200, 100, 0), np.uint8)
        >>> vision.AdjustHue(0.5)(image)[0, 0]
        array([  0, 104, 200], dtype=uint8)
    """

    def __init__(self, hue_factor: float) -> None:
        self.hue_factor = checks.number("hue_factor", hue_factor, -0.5, 0.5)

    def on_array(self, image: Array) -> Array:
        hsv = recolored(images.check_bytes(self, images.check_color(self, image)), "RGB2HSV_FULL")
        hsv[:, :, 0] += self._steps()
        return recolored(hsv, "HSV2RGB_FULL")

    def on_pil(self, image: PilImage) -> Any:
        if image.mode in ("L", "1", "I", "F"):
            return image  # without colors
        hue, saturation, value = image.convert("HSV").split()
        turned = images.pillow().fromarray(np.asarray(hue) + self._steps())
        return images.pillow().merge("HSV", (turned, saturation, value)).convert(image.mode)

    def _steps(self) -> np.uint8:
        """The rotation in steps of a byte of hue, of which there are 256."""
        return np.uint8(int(self.hue_factor * 255) & 0xFF)


class AdjustSharpness(ImageOperation):
    """image * factor + smoothed * (1 - factor): 0 is blurred, 1 the image, 2 sharper; the outermost pixels stay.

    Takes uint8 or floats of (H, W) or (H, W, C); returns an array. Raises GraphTypeError, GraphValueError for a
    negative factor, GraphRuntimeError for other images.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.AdjustSharpness(2.0)(image).shape
        (4, 6, 3)
    """

    def __init__(self, sharpness_factor: float) -> None:
        self.sharpness_factor = checks.magnitude("sharpness_factor", sharpness_factor)

    def on_array(self, image: Array) -> Array:
        images.check_image(self, image)
        return blended(image, smoothed(_check_numbers(self, image)), self.sharpness_factor)


def _check_numbers(operation: object, image: Array) -> Array:
    if image.dtype != np.uint8 and image.dtype.kind != "f":
        raise images.wrong_shape(operation, image, "an image of uint8 or floats")
    return image


def _check_values(operation: object, image: Array) -> Array:
    return _check_numbers(operation, images.check_color(operation, image))


Bounds = tuple[float, float]


def _bounds(name: str, value: Numbers, center: float, low: float, high: float) -> Bounds:
    """A (min, max) pair, or `center` plus and minus one number."""
    if isinstance(value, (list, tuple)):
        return checks.interval(name, value, lambda part, item: checks.number(part, item, low, high))
    distance = checks.number(name, value, 0)
    if center + distance > high:
        raise GraphValueError(f"Input {name} is not within the required interval of [0, {high - center}], but {value}.")
    return max(low, center - distance), center + distance


class RandomColorAdjust(ImageOperation):
    """The image with brightness, contrast, saturation and hue changed by factors drawn evenly, in random order.

    A factor's bounds are a (min, max) pair, or 1 plus and minus a number (for the hue: plus and minus it, at most 0.5).
    Takes (H, W, 3) or a PIL image. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomColorAdjust(brightness=(0.5, 0.5))(image)[0, 0]
        array([50, 50, 50], dtype=uint8)
    """

    def __init__(
        self, brightness: Numbers = (1, 1), contrast: Numbers = (1, 1), saturation: Numbers = (1, 1),
        hue: Numbers = (0, 0),
    ) -> None:  # fmt: skip
        self.brightness = _bounds("brightness", brightness, 1, 0, checks.LARGEST_SIZE)
        self.contrast = _bounds("contrast", contrast, 1, 0, checks.LARGEST_SIZE)
        self.saturation = _bounds("saturation", saturation, 1, 0, checks.LARGEST_SIZE)
        self.hue = _bounds("hue", hue, 0, -0.5, 0.5)

    def apply(self, column: Image) -> Any:
        image = column if not isinstance(column, np.ndarray) else images.check_color(self, column)
        steps: list[tuple[Callable[[float], ImageOperation], Bounds, float]] = [
            (AdjustBrightness, self.brightness, 1),
            (AdjustContrast, self.contrast, 1),
            (AdjustSaturation, self.saturation, 1),
            (AdjustHue, self.hue, 0),
        ]
        draw = generator()
        for step in draw.permutation(len(steps)):
            adjust, bounds, neutral = steps[step]
            factor = draw.uniform(*bounds)
            image = image if factor == neutral else adjust(factor).apply(image)
        return image


class RandomColor(ImageOperation):
    """`AdjustSaturation` by a factor drawn evenly from a (min, max) pair; takes (H, W, 3) or a PIL image.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomColor((0.5, 1.5))(image).shape
        (4, 6, 3)
    """

    def __init__(self, degrees: Sequence[float] = (0.1, 1.9)) -> None:
        self.degrees = checks.interval("degrees", degrees, checks.magnitude)

    def apply(self, column: Image) -> Any:
        return AdjustSaturation(generator().uniform(*self.degrees)).apply(column)


class RandomSharpness(RandomColor):
    """`AdjustSharpness` by a factor drawn evenly from a (min, max) pair; a PIL image stays one.

    For a PIL image Pillow must be installed, otherwise it raises GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomSharpness()(image).shape
        (4, 6, 3)
    """

    def apply(self, column: Image) -> Any:
        factor = generator().uniform(*self.degrees)
        if images.is_pil(column):
            return images.pillow("ImageEnhance").Sharpness(column).enhance(factor)
        return AdjustSharpness(factor).apply(column)


class RandomAdjustSharpness(WithProbability):
    """`AdjustSharpness` by the factor `degree`, with a probability; returns an array.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomAdjustSharpness(2.0, 1.0)(image).shape
        (4, 6, 3)
    """

    def __init__(self, degree: float, prob: float = 0.5) -> None:
        self.operation = AdjustSharpness(checks.magnitude("degree", degree))
        super().__init__(prob)


class RandomLighting(ImageOperation):
    """The image plus noise along the main directions of color in ImageNet, of the standard deviation `alpha`.

    Takes (H, W, 3) or a PIL image (Krizhevsky et al. 2012). Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomLighting(0.1)(image).shape
        (4, 6, 3)
    """

    def __init__(self, alpha: float = 0.05) -> None:
        self.alpha = checks.magnitude("alpha", alpha)

    def on_array(self, image: Array) -> Array:
        noise = (_PRINCIPAL @ generator().normal(0, self.alpha, 3)).astype(np.float32)
        if images.check_color(self, image).dtype != np.uint8:
            return images.saturated(image + noise, image.dtype)
        table = images.saturated(np.arange(256, dtype=np.float32)[:, None] + noise, image.dtype)
        return np.asarray(opencv().LUT(image, table[:, None]))

    def on_pil(self, image: PilImage) -> Any:
        lit = images.pillow().fromarray(self.on_array(np.asarray(image.convert("RGB"))))
        return lit.convert(image.mode)


_PRINCIPAL = (
    np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])
    * np.array([0.2175, 0.0188, 0.0045])
    * 255
)  # eigenvectors times eigenvalues of RGB in [0, 1]
