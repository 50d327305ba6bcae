"""Random augmentations: operations drawn from a list, and the published policies for well-known datasets.

The policies of AutoAugment (Cubuk et al. 2019, tables 7 to 9) are pairs of (operation, probability, level of 10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphls.base.errors import GraphValueError
from graphls.dataset.checks import LARGEST_SIZE, Function, choice, functions, instance, integer, probability, type_error
from graphls.dataset.randomness import generator
from graphls.dataset.transforms.operations import chained
from graphls.dataset.vision.colors import AdjustBrightness, AdjustContrast, AdjustSaturation, AdjustSharpness
from graphls.dataset.vision.geometry import Affine, Rotate
from graphls.dataset.vision.image import Array, FillValue, ImageOperation, check_bytes, check_color
from graphls.dataset.vision.sizes import checked_fill
from graphls.dataset.vision.tones import AutoContrast, Equalize, Invert, Posterize, Solarize
from graphls.dataset.vision.utils import AutoAugmentPolicy, Inter

__all__ = ["AutoAugment", "RandAugment", "RandomSelectSubpolicy", "TrivialAugmentWide", "UniformAugment"]

Step = tuple[str, float, int]

_IMAGENET = """
Posterize 0.4 8, Rotate 0.6 9 | Solarize 0.6 5, AutoContrast 0.6 0 | Equalize 0.8 0, Equalize 0.6 0
Posterize 0.6 7, Posterize 0.6 6 | Equalize 0.4 0, Solarize 0.2 4 | Equalize 0.4 0, Rotate 0.8 8
Solarize 0.6 3, Equalize 0.6 0 | Posterize 0.8 5, Equalize 1.0 0 | Rotate 0.2 3, Solarize 0.6 8
Equalize 0.6 0, Posterize 0.4 6 | Rotate 0.8 8, Color 0.4 0 | Rotate 0.4 9, Equalize 0.6 0
Equalize 0.0 0, Equalize 0.8 0 | Invert 0.6 0, Equalize 1.0 0 | Color 0.6 4, Contrast 1.0 8
Rotate 0.8 8, Color 1.0 2 | Color 0.8 8, Solarize 0.8 7 | Sharpness 0.4 7, Invert 0.6 0
ShearX 0.6 5, Equalize 1.0 0 | Color 0.4 0, Equalize 0.6 0 | Equalize 0.4 0, Solarize 0.2 4
Solarize 0.6 5, AutoContrast 0.6 0 | Invert 0.6 0, Equalize 1.0 0 | Color 0.6 4, Contrast 1.0 8
Equalize 0.8 0, Equalize 0.6 0
"""
_CIFAR10 = """
Invert 0.1 0, Contrast 0.2 6 | Rotate 0.7 2, TranslateX 0.3 9 | Sharpness 0.8 1, Sharpness 0.9 3
ShearY 0.5 8, TranslateY 0.7 9 | AutoContrast 0.5 0, Equalize 0.9 0 | ShearY 0.2 7, Posterize 0.3 7
Color 0.4 3, Brightness 0.6 7 | Sharpness 0.3 9, Brightness 0.7 9 | Equalize 0.6 0, Equalize 0.5 0
Contrast 0.6 7, Sharpness 0.6 5 | Color 0.7 7, TranslateX 0.5 8 | Equalize 0.3 0, AutoContrast 0.4 0
TranslateY 0.4 3, Sharpness 0.2 6 | Brightness 0.9 6, Color 0.2 8 | Solarize 0.5 2, Invert 0.0 0
Equalize 0.2 0, AutoContrast 0.6 0 | Equalize 0.2 0, Equalize 0.6 0 | Color 0.9 9, Equalize 0.6 0
AutoContrast 0.8 0, Solarize 0.2 8 | Brightness 0.1 3, Color 0.7 0 | Solarize 0.4 5, AutoContrast 0.9 0
TranslateY 0.9 9, TranslateY 0.7 9 | AutoContrast 0.9 0, Solarize 0.8 3 | Equalize 0.8 0, Invert 0.1 0
TranslateY 0.7 9, AutoContrast 0.9 0
"""
_SVHN = """
ShearX 0.9 4, Invert 0.2 0 | ShearY 0.9 8, Invert 0.7 0 | Equalize 0.6 0, Solarize 0.6 6
Invert 0.9 0, Equalize 0.6 0 | Equalize 0.6 0, Rotate 0.9 3 | ShearX 0.9 4, AutoContrast 0.8 0
ShearY 0.9 8, Invert 0.4 0 | ShearY 0.9 5, Solarize 0.2 6 | Invert 0.9 0, AutoContrast 0.8 0
Equalize 0.6 0, Rotate 0.9 3 | ShearX 0.9 4, Solarize 0.3 3 | ShearY 0.8 8, Invert 0.7 0
Equalize 0.9 0, TranslateY 0.6 6 | Invert 0.9 0, Equalize 0.6 0 | Contrast 0.3 3, Rotate 0.8 4
Invert 0.8 0, TranslateY 0.0 2 | ShearY 0.7 6, Solarize 0.4 8 | Invert 0.6 0, Rotate 0.8 4
ShearY 0.3 7, TranslateX 0.9 3 | ShearX 0.1 6, Invert 0.6 0 | Solarize 0.7 2, TranslateY 0.6 7
ShearY 0.8 4, Invert 0.8 0 | ShearX 0.7 9, TranslateY 0.8 3 | ShearY 0.8 5, AutoContrast 0.7 0
ShearX 0.7 2, Invert 0.1 0
"""


def _policies(text: str) -> list[list[Step]]:
    pairs = [pair for line in text.strip().splitlines() for pair in line.split(" | ")]
    steps = [[step.split() for step in pair.split(", ")] for pair in pairs]
    return [[(name, float(prob), int(level)) for name, prob, level in pair] for pair in steps]


POLICIES = {
    AutoAugmentPolicy.IMAGENET: _policies(_IMAGENET),
    AutoAugmentPolicy.CIFAR10: _policies(_CIFAR10),
    AutoAugmentPolicy.SVHN: _policies(_SVHN),
}


class UniformAugment:
    """`num_ops` different operations of a list in sequence, each with a probability drawn for each image.

    Raises GraphTypeError or GraphValueError, also for a list that is too short.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.UniformAugment([vision.Invert(), vision.Equalize()], 1)(image).shape
        (4, 6, 3)
    """

    def __init__(self, transforms: Sequence[Function], num_ops: int = 2) -> None:
        self.num_ops = integer("num_ops", num_ops, 1)
        self.transforms = functions("transforms", transforms)
        if self.num_ops > len(self.transforms):
            raise GraphValueError(f"num_ops is {num_ops}, but there are only {len(self.transforms)} transforms.")

    def __call__(self, *columns: object) -> Any:
        draw = generator()
        chosen = draw.permutation(len(self.transforms))[: self.num_ops]
        return chained([self.transforms[i] for i in chosen if draw.random() < draw.random()], columns)


class RandomSelectSubpolicy:
    """One of several lists of (operation, probability) pairs, whose operations run in sequence.

    Raises GraphTypeError or GraphValueError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandomSelectSubpolicy([[(vision.Invert(), 1.0)]])(image)[0, 0]
        array([155, 155, 155], dtype=uint8)
    """

    def __init__(self, policy: Sequence[Sequence[tuple[Function, float]]]) -> None:
        if not instance("policy", policy, list, "a list of lists of (operation, probability)"):
            raise GraphValueError("The list policy must not be empty.")
        self.policy = [_subpolicy(f"policy[{index}]", item) for index, item in enumerate(policy)]

    def __call__(self, *columns: object) -> Any:
        draw = generator()
        chosen = self.policy[draw.integers(len(self.policy))]
        return chained([operation for operation, prob in chosen if draw.random() < prob], columns)


def _subpolicy(name: str, value: object) -> list[tuple[Function, float]]:
    if not isinstance(value, (list, tuple)):
        raise type_error(name, value, "a list of (operation, probability)")
    if not value:
        raise GraphValueError(f"The list {name} must not be empty.")
    for pair in value:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise type_error(name, pair, "an (operation, probability) pair")
    functions(name, [operation for operation, _ in value])
    return [(operation, probability(name, prob)) for operation, prob in value]


_FACTORS = {
    "Brightness": AdjustBrightness,
    "Color": AdjustSaturation,
    "Contrast": AdjustContrast,
    "Sharpness": AdjustSharpness,
}
_PLAIN = {"AutoContrast": AutoContrast, "Equalize": Equalize, "Invert": Invert}
_ACROSS = ("ShearX", "TranslateX")


@dataclass(eq=False, repr=False)
class _Augment(ImageOperation):
    """The base of the three augmentations: operations of some strength on an image of uint8 and (H, W, 3).

    Its fields are their last arguments; those of a second base of dataclasses come before them.
    """

    interpolation: Inter = Inter.NEAREST
    fill_value: FillValue = 0

    def __post_init__(self) -> None:
        choice("interpolation", self.interpolation, Inter)
        self.fill_value = checked_fill(self.fill_value)

    def on_array(self, image: Array) -> Array:
        return self.augmented(check_bytes(self, check_color(self, image)))

    def augmented(self, image: Array) -> Array:
        """The image after the drawn operations."""
        raise NotImplementedError

    def _apply_named(self, image: Array, name: str, strength: float) -> Array:
        """The image after the operation of a name; a strength with two directions has a random sign."""
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
        return self._transformed(image, name, strength)

    def _transformed(self, image: Array, name: str, strength: float) -> Array:
        pair = (strength, 0.0) if name in _ACROSS else (0.0, strength)
        if name.startswith("Shear"):
            degrees = tuple(np.degrees(np.arctan(pair)).tolist())
            return Affine(0, (0, 0), 1.0, degrees, self.interpolation, self.fill_value).on_array(image)
        share = np.divide(pair, (image.shape[1], image.shape[0])).clip(-1, 1)  # no more than all of a small image
        return Affine(0, tuple(share.tolist()), 1.0, 0, self.interpolation, self.fill_value).on_array(image)


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


@dataclass(eq=False, repr=False)
class _Policy:
    policy: AutoAugmentPolicy = AutoAugmentPolicy.IMAGENET


@dataclass(eq=False, repr=False)
class AutoAugment(_Augment, _Policy):
    """One of 25 pairs of operations, drawn at random, of the policy for a dataset (Cubuk et al. 2019).

    Takes uint8 of (H, W, 3); returns an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.AutoAugment(vision.AutoAugmentPolicy.CIFAR10)(image).shape
        (4, 6, 3)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("policy", self.policy, AutoAugmentPolicy)

    def augmented(self, image: Array) -> Array:
        table = POLICIES[self.policy]
        for name, prob, level in table[generator().integers(len(table))]:
            if generator().random() < prob:
                image = self._apply_named(image, name, _strengths(name, 10, image.shape[:2], wide=False)[level])
        return image


_RANDOM = (
    "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
    "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize",
)  # fmt: skip


@dataclass(eq=False, repr=False)
class _Bins:
    num_magnitude_bins: int = 31


@dataclass(eq=False, repr=False)
class _Strength:
    num_ops: int = 2
    magnitude: int = 9


@dataclass(eq=False, repr=False)
class RandAugment(_Augment, _Bins, _Strength):
    """`num_ops` operations drawn at random, of the strength `magnitude` of `num_magnitude_bins` (Cubuk et al. 2020).

    Takes uint8 of (H, W, 3); returns an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((4, 6, 3), 100, np.uint8)
        >>> vision.RandAugment()(image).shape
        (4, 6, 3)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        bins = integer("num_magnitude_bins", self.num_magnitude_bins, 2, LARGEST_SIZE)
        integer("num_ops", self.num_ops, 0, LARGEST_SIZE)
        if integer("magnitude", self.magnitude, 0, LARGEST_SIZE) >= bins:
            raise GraphValueError(f"Input magnitude is not within the required interval of [0, {bins}).")

    def augmented(self, image: Array) -> Array:
        for choice_of in generator().integers(len(_RANDOM), size=self.num_ops):
            name = _RANDOM[choice_of]
            strengths = _strengths(name, self.num_magnitude_bins, image.shape[:2], wide=False)
            image = self._apply_named(image, name, strengths[self.magnitude])
        return image


@dataclass(eq=False, repr=False)
class TrivialAugmentWide(_Augment, _Bins):
    """One operation of one strength of `num_magnitude_bins`, both drawn at random (Mueller and Hutter 2021).

    Takes uint8 of (H, W, 3); returns an array. Raises GraphTypeError, GraphValueError or GraphRuntimeError.

    Examples:
        >>> import numpy as np
        >>> from graphls.dataset import vision
        >>> image = np.full((64, 48, 3), 100, np.uint8)
        >>> vision.TrivialAugmentWide()(image).shape
        (64, 48, 3)
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        integer("num_magnitude_bins", self.num_magnitude_bins, 2, LARGEST_SIZE)

    def augmented(self, image: Array) -> Array:
        name = _RANDOM[generator().integers(len(_RANDOM))]
        strengths = _strengths(name, self.num_magnitude_bins, image.shape[:2], wide=True)
        return self._apply_named(image, name, strengths[generator().integers(self.num_magnitude_bins)])
