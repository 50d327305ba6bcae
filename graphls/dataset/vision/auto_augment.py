"""Tables of augmentations that were found to help on well-known data sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.dataset.randomness import generator
from graphls.dataset.transforms.checks import LARGEST_SIZE, choice, integer, value_error
from graphls.dataset.vision.affine import Affine
from graphls.dataset.vision.auto_augment_tables import POLICIES
from graphls.dataset.vision.colors import AdjustBrightness, AdjustContrast, AdjustSaturation, AdjustSharpness
from graphls.dataset.vision.image import Array, ImageOperation, check_bytes, check_color
from graphls.dataset.vision.padding import checked_fill
from graphls.dataset.vision.rotating import Rotate
from graphls.dataset.vision.tones import AutoContrast, Equalize, Invert, Posterize, Solarize
from graphls.dataset.vision.utils import AutoAugmentPolicy, Inter

_FACTORS = {
    "Brightness": AdjustBrightness,
    "Color": AdjustSaturation,
    "Contrast": AdjustContrast,
    "Sharpness": AdjustSharpness,
}
_PLAIN = {"AutoContrast": AutoContrast, "Equalize": Equalize, "Invert": Invert}
_ACROSS = ("ShearX", "TranslateX")


class _Augment(ImageOperation):
    """What the three augmentations have: an image of uint8 and (H, W, 3), and operations of some strength."""

    def __init__(self, interpolation: Inter, fill_value: Any) -> None:
        self.interpolation = choice("interpolation", interpolation, Inter)
        self.fill_value = checked_fill(fill_value)

    def on_array(self, image: Array) -> Array:
        return self.augmented(check_bytes(self, check_color(self, image)))

    def augmented(self, image: Array) -> Array:
        """The image after the operations that were drawn."""
        raise NotImplementedError

    def _done(self, image: Array, name: str, strength: float) -> Array:
        """The image after the operation of a name; a strength with two directions goes either way."""
        if name == "Identity":
            return image
        if name in _PLAIN:
            return np.asarray(_PLAIN[name]().on_array(image))
        if name == "Posterize":
            return Posterize(int(strength)).on_array(image)
        if name == "Solarize":
            return Solarize(min(255.0, strength)).on_array(image)
        strength = -strength if generator().random() < 0.5 else strength
        if name in _FACTORS:
            return np.asarray(_FACTORS[name](1 + strength).on_array(image))
        if name == "Rotate":
            return Rotate(strength, self.interpolation, fill_value=self.fill_value).on_array(image)
        return self._moved(image, name, strength)

    def _moved(self, image: Array, name: str, strength: float) -> Array:
        pair = (strength, 0.0) if name in _ACROSS else (0.0, strength)
        if name.startswith("Shear"):
            degrees = tuple(np.degrees(np.arctan(pair)).tolist())
            return Affine(0, (0, 0), 1.0, degrees, self.interpolation, self.fill_value).on_array(image)
        share = (pair[0] / image.shape[1], pair[1] / image.shape[0])
        return Affine(0, share, 1.0, 0, self.interpolation, self.fill_value).on_array(image)


def _strengths(name: str, bins: int, size: tuple[int, int], wide: bool) -> Array:
    """The strengths of an operation from the weakest to the strongest; `size` is (height, width)."""
    if name in _PLAIN or name == "Identity":
        return np.zeros(bins)
    if name == "Posterize":
        return 8 - np.rint(np.arange(bins) / ((bins - 1) / (6 if wide else 4)))
    if name == "Solarize":
        return np.linspace(255, 0, bins)
    if name.startswith("Translate"):
        return np.linspace(0, 32 if wide else 150 / 331 * size[name in _ACROSS], bins)
    ends = {"ShearX": (0.3, 0.99), "ShearY": (0.3, 0.99), "Rotate": (30, 135)}
    return np.linspace(0, ends.get(name, (0.9, 0.99))[wide], bins)


class AutoAugment(_Augment):
    """One of 25 pairs of operations, drawn at random, of the table found on a data set (Cubuk et al. 2019).

    Takes uint8 of (H, W, 3), gives an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(
        self,
        policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET,
        interpolation: Inter = Inter.NEAREST,
        fill_value: Any = 0,
    ) -> None:
        super().__init__(interpolation, fill_value)
        self.policy = choice("policy", policy, AutoAugmentPolicy)

    def augmented(self, image: Array) -> Array:
        table = POLICIES[self.policy]
        for name, prob, level in table[generator().integers(len(table))]:
            if generator().random() < prob:
                image = self._done(image, name, _strengths(name, 10, image.shape[:2], wide=False)[level])
        return image


_RANDOM = (
    "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
    "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize",
)  # fmt: skip


class RandAugment(_Augment):
    """`num_ops` operations drawn at random, of the strength `magnitude` of `num_magnitude_bins` (Cubuk et al. 2020).

    Takes uint8 of (H, W, 3), gives an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: Inter = Inter.NEAREST,
        fill_value: Any = 0,
    ) -> None:
        super().__init__(interpolation, fill_value)
        self.num_ops = integer("num_ops", num_ops, 0, LARGEST_SIZE)
        self.num_magnitude_bins = integer("num_magnitude_bins", num_magnitude_bins, 2, LARGEST_SIZE)
        self.magnitude = integer("magnitude", magnitude, 0, LARGEST_SIZE)
        if magnitude >= num_magnitude_bins:
            raise value_error(f"Input magnitude is not within the required interval of [0, {num_magnitude_bins}).")

    def augmented(self, image: Array) -> Array:
        for choice_of in generator().integers(len(_RANDOM), size=self.num_ops):
            name = _RANDOM[choice_of]
            strengths = _strengths(name, self.num_magnitude_bins, image.shape[:2], wide=False)
            image = self._done(image, name, strengths[self.magnitude])
        return image


class TrivialAugmentWide(_Augment):
    """One operation of one strength of `num_magnitude_bins`, both drawn at random (Mueller and Hutter 2021).

    Takes uint8 of (H, W, 3), gives an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.
    """

    def __init__(
        self, num_magnitude_bins: int = 31, interpolation: Inter = Inter.NEAREST, fill_value: Any = 0
    ) -> None:
        super().__init__(interpolation, fill_value)
        self.num_magnitude_bins = integer("num_magnitude_bins", num_magnitude_bins, 2, LARGEST_SIZE)

    def augmented(self, image: Array) -> Array:
        name = _RANDOM[generator().integers(len(_RANDOM))]
        strengths = _strengths(name, self.num_magnitude_bins, image.shape[:2], wide=True)
        return self._done(image, name, strengths[generator().integers(self.num_magnitude_bins)])
