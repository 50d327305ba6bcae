"""Operations on images, for `map`: arrays of (H, W, C) or PIL images in, as MindSpore's `dataset.vision` has them."""

from graphls.dataset.vision.augmentation import (
    AutoAugment,
    RandAugment,
    RandomSelectSubpolicy,
    TrivialAugmentWide,
    UniformAugment,
)  # fmt: skip
from graphls.dataset.vision.boxes import (
    BoundingBoxAugment,
    RandomCropWithBBox,
    RandomHorizontalFlipWithBBox,
    RandomResizedCropWithBBox,
    RandomResizeWithBBox,
    RandomVerticalFlipWithBBox,
    ResizeWithBBox,
)  # fmt: skip
from graphls.dataset.vision.colors import (
    AdjustBrightness,
    AdjustContrast,
    AdjustHue,
    AdjustSaturation,
    AdjustSharpness,
    ConvertColor,
    Grayscale,
    HsvToRgb,
    RandomAdjustSharpness,
    RandomColor,
    RandomColorAdjust,
    RandomGrayscale,
    RandomLighting,
    RandomSharpness,
    RgbToHsv,
)  # fmt: skip
from graphls.dataset.vision.cropping import (
    CenterCrop,
    Crop,
    FiveCrop,
    RandomCrop,
    RandomCropDecodeResize,
    RandomResizedCrop,
    SlicePatches,
    TenCrop,
)  # fmt: skip
from graphls.dataset.vision.decoding import Decode, read_file, read_image
from graphls.dataset.vision.geometry import (
    Affine,
    HorizontalFlip,
    Perspective,
    RandomAffine,
    RandomHorizontalFlip,
    RandomPerspective,
    RandomRotation,
    RandomVerticalFlip,
    Rotate,
    VerticalFlip,
)  # fmt: skip
from graphls.dataset.vision.mixing import CutMixBatch, CutOut, Erase, MixUp, MixUpBatch, RandomErasing
from graphls.dataset.vision.sizes import Pad, PadToSize, RandomResize, Resize, ResizedCrop
from graphls.dataset.vision.tones import (
    AdjustGamma,
    AutoContrast,
    Equalize,
    GaussianBlur,
    Invert,
    Posterize,
    RandomAutoContrast,
    RandomEqualize,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
    Solarize,
)  # fmt: skip
from graphls.dataset.vision.utils import (
    AutoAugmentPolicy,
    Border,
    ConvertMode,
    ImageBatchFormat,
    ImageReadMode,
    Inter,
    SliceMode,
)  # fmt: skip
from graphls.dataset.vision.values import (
    HWC2CHW,
    LinearTransformation,
    Normalize,
    NormalizePad,
    Rescale,
    ToNumpy,
    ToPIL,
    ToTensor,
    ToType,
)  # fmt: skip

__all__ = [
    "HWC2CHW", "AdjustBrightness", "AdjustContrast", "AdjustGamma", "AdjustHue", "AdjustSaturation", "AdjustSharpness",
    "Affine", "AutoAugment", "AutoAugmentPolicy", "AutoContrast", "Border", "BoundingBoxAugment", "CenterCrop",
    "ConvertColor", "ConvertMode", "Crop", "CutMixBatch", "CutOut", "Decode", "Equalize", "Erase", "FiveCrop",
    "GaussianBlur", "Grayscale", "HorizontalFlip", "HsvToRgb", "ImageBatchFormat", "ImageReadMode", "Inter", "Invert",
    "LinearTransformation", "MixUp", "MixUpBatch", "Normalize", "NormalizePad", "Pad", "PadToSize", "Perspective",
    "Posterize", "RandAugment", "RandomAdjustSharpness", "RandomAffine", "RandomAutoContrast", "RandomColor",
    "RandomColorAdjust", "RandomCrop", "RandomCropDecodeResize", "RandomCropWithBBox", "RandomEqualize",
    "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomHorizontalFlipWithBBox", "RandomInvert",
    "RandomLighting", "RandomPerspective", "RandomPosterize", "RandomResize", "RandomResizeWithBBox",
    "RandomResizedCrop", "RandomResizedCropWithBBox", "RandomRotation", "RandomSelectSubpolicy", "RandomSharpness",
    "RandomSolarize", "RandomVerticalFlip", "RandomVerticalFlipWithBBox", "Rescale", "Resize", "ResizeWithBBox",
    "ResizedCrop", "RgbToHsv", "Rotate", "SliceMode", "SlicePatches", "Solarize", "TenCrop", "ToNumpy", "ToPIL",
    "ToTensor", "ToType", "TrivialAugmentWide", "UniformAugment", "VerticalFlip", "read_file", "read_image",
]  # fmt: skip
