"""MindSpore 1's import path of the operations on arrays of images."""

# ruff: noqa: F403, F405
from graphls.dataset.vision import *

__all__ = [
    "HWC2CHW", "AdjustGamma", "AutoAugment", "AutoAugmentPolicy", "AutoContrast", "Border", "BoundingBoxAugment",
    "CenterCrop", "ConvertColor", "ConvertMode", "Crop", "CutMixBatch", "CutOut", "Decode", "Equalize", "GaussianBlur",
    "HorizontalFlip", "ImageBatchFormat", "Inter", "Invert", "MixUpBatch", "Normalize", "NormalizePad", "Pad",
    "PadToSize", "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomAutoContrast", "RandomColor",
    "RandomColorAdjust", "RandomCrop", "RandomCropDecodeResize", "RandomCropWithBBox", "RandomEqualize",
    "RandomHorizontalFlip", "RandomHorizontalFlipWithBBox", "RandomInvert", "RandomLighting", "RandomPosterize",
    "RandomResize", "RandomResizeWithBBox", "RandomResizedCrop", "RandomResizedCropWithBBox", "RandomRotation",
    "RandomSelectSubpolicy", "RandomSharpness", "RandomSolarize", "RandomVerticalFlip", "RandomVerticalFlipWithBBox",
    "Rescale", "Resize", "ResizeWithBBox", "Rotate", "SliceMode", "SlicePatches", "UniformAugment", "VerticalFlip",
]  # fmt: skip
