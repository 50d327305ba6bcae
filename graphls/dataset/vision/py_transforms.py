"""MindSpore 1's import path of the operations on PIL images, some with (C, H, W) or PIL images by default."""

# ruff: noqa: F403, F405
from collections.abc import Sequence

from graphls.dataset import vision
from graphls.dataset.vision import *

__all__ = [
    "HWC2CHW", "AdjustGamma", "AutoContrast", "Border", "CenterCrop", "Cutout", "Decode", "Equalize", "FiveCrop",
    "Grayscale", "HsvToRgb", "Inter", "Invert", "LinearTransformation", "MixUp", "Normalize", "NormalizePad", "Pad",
    "RandomAffine", "RandomColor", "RandomColorAdjust", "RandomCrop", "RandomErasing", "RandomGrayscale",
    "RandomHorizontalFlip", "RandomPerspective", "RandomResizedCrop", "RandomRotation", "RandomSharpness",
    "RandomVerticalFlip", "Resize", "RgbToHsv", "TenCrop", "ToPIL", "ToTensor", "ToType", "UniformAugment",
]  # fmt: skip


class Decode(vision.Decode):
    """Decode an image to a PIL image; see `vision.Decode`."""

    def __init__(self) -> None:
        super().__init__(to_pil=True)


class Normalize(vision.Normalize):
    """`vision.Normalize` of an array of (C, H, W)."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__(mean, std, is_hwc=False)


class NormalizePad(vision.NormalizePad):
    """`vision.NormalizePad` of an array of (C, H, W)."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], dtype: str = "float32") -> None:
        super().__init__(mean, std, dtype, is_hwc=False)


class Cutout(vision.CutOut):
    """`vision.CutOut` of an array of (C, H, W)."""

    def __init__(self, length: int, num_patches: int = 1) -> None:
        super().__init__(length, num_patches, is_hwc=False)
