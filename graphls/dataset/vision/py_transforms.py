"""MindSpore 1's path to the operations on PIL images, where some take (C, H, W) or give PIL images by default."""

from typing import Any

from graphls.dataset.vision import (
    HWC2CHW,
    AdjustGamma,
    AutoContrast,
    CenterCrop,
    Equalize,
    FiveCrop,
    Grayscale,
    HsvToRgb,
    Invert,
    LinearTransformation,
    MixUp,
    Pad,
    RandomAffine,
    RandomColor,
    RandomColorAdjust,
    RandomCrop,
    RandomErasing,
    RandomGrayscale,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomResizedCrop,
    RandomRotation,
    RandomSharpness,
    RandomVerticalFlip,
    Resize,
    RgbToHsv,
    TenCrop,
    ToPIL,
    ToTensor,
    ToType,
    UniformAugment,
)  # fmt: skip
from graphls.dataset.vision import CutOut as _CutOut
from graphls.dataset.vision import Decode as _Decode
from graphls.dataset.vision import Normalize as _Normalize
from graphls.dataset.vision import NormalizePad as _NormalizePad
from graphls.dataset.vision.utils import Border, Inter

__all__ = [
    "HWC2CHW", "AdjustGamma", "AutoContrast", "Border", "CenterCrop", "Cutout", "Decode", "Equalize", "FiveCrop",
    "Grayscale", "HsvToRgb", "Inter", "Invert", "LinearTransformation", "MixUp", "Normalize", "NormalizePad", "Pad",
    "RandomAffine", "RandomColor", "RandomColorAdjust", "RandomCrop", "RandomErasing", "RandomGrayscale",
    "RandomHorizontalFlip", "RandomPerspective", "RandomResizedCrop", "RandomRotation", "RandomSharpness",
    "RandomVerticalFlip", "Resize", "RgbToHsv", "TenCrop", "ToPIL", "ToTensor", "ToType", "UniformAugment",
]  # fmt: skip


class Decode(_Decode):
    """Decode an image to a PIL image; see `vision.Decode`."""

    def __init__(self) -> None:
        super().__init__(to_pil=True)


class Normalize(_Normalize):
    """`vision.Normalize` of an array of (C, H, W)."""

    def __init__(self, mean: Any, std: Any) -> None:
        super().__init__(mean, std, is_hwc=False)


class NormalizePad(_NormalizePad):
    """`vision.NormalizePad` of an array of (C, H, W)."""

    def __init__(self, mean: Any, std: Any, dtype: str = "float32") -> None:
        super().__init__(mean, std, dtype, is_hwc=False)


class Cutout(_CutOut):
    """`vision.CutOut` of an array of (C, H, W)."""

    def __init__(self, length: int, num_patches: int = 1) -> None:
        super().__init__(length, num_patches, is_hwc=False)
