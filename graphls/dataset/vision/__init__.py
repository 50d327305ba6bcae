"""Operations on images, for `map`: arrays of (H, W, C) or PIL images in, as MindSpore's `dataset.vision` has them."""

from graphls.dataset.vision.affine import Affine, RandomAffine
from graphls.dataset.vision.augmentation import RandomSelectSubpolicy, UniformAugment
from graphls.dataset.vision.auto_augment import AutoAugment, RandAugment, TrivialAugmentWide
from graphls.dataset.vision.blurring import GaussianBlur
from graphls.dataset.vision.color_spaces import ConvertColor, Grayscale, HsvToRgb, RandomGrayscale, RgbToHsv
from graphls.dataset.vision.colors import (
    AdjustBrightness,
    AdjustContrast,
    AdjustHue,
    AdjustSaturation,
    AdjustSharpness,
)
from graphls.dataset.vision.cropping import CenterCrop, Crop, FiveCrop, RandomCrop, TenCrop
from graphls.dataset.vision.cropping_resized import RandomCropDecodeResize, RandomResizedCrop
from graphls.dataset.vision.decoding import Decode, read_file, read_image
from graphls.dataset.vision.erasing import CutOut, Erase, RandomErasing
from graphls.dataset.vision.flips import HorizontalFlip, RandomHorizontalFlip, RandomVerticalFlip, VerticalFlip
from graphls.dataset.vision.mixing import CutMixBatch, MixUp, MixUpBatch
from graphls.dataset.vision.padding import Pad, PadToSize
from graphls.dataset.vision.patches import SlicePatches
from graphls.dataset.vision.perspective import Perspective, RandomPerspective
from graphls.dataset.vision.random_colors import (
    RandomAdjustSharpness,
    RandomColor,
    RandomColorAdjust,
    RandomLighting,
    RandomSharpness,
)
from graphls.dataset.vision.random_tones import (
    RandomAutoContrast,
    RandomEqualize,
    RandomInvert,
    RandomPosterize,
    RandomSolarize,
)
from graphls.dataset.vision.resizing import RandomResize, Resize, ResizedCrop
from graphls.dataset.vision.rotating import RandomRotation, Rotate
from graphls.dataset.vision.tones import AdjustGamma, AutoContrast, Equalize, Invert, Posterize, Solarize
from graphls.dataset.vision.utils import (
    AutoAugmentPolicy,
    Border,
    ConvertMode,
    ImageBatchFormat,
    ImageReadMode,
    Inter,
    SliceMode,
)
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
)

__all__ = [
    "HWC2CHW",
    "AdjustBrightness",
    "AdjustContrast",
    "AdjustGamma",
    "AdjustHue",
    "AdjustSaturation",
    "AdjustSharpness",
    "Affine",
    "AutoAugment",
    "AutoAugmentPolicy",
    "AutoContrast",
    "Border",
    "CenterCrop",
    "ConvertColor",
    "ConvertMode",
    "Crop",
    "CutMixBatch",
    "CutOut",
    "Decode",
    "Equalize",
    "Erase",
    "FiveCrop",
    "GaussianBlur",
    "Grayscale",
    "HorizontalFlip",
    "HsvToRgb",
    "ImageBatchFormat",
    "ImageReadMode",
    "Inter",
    "Invert",
    "LinearTransformation",
    "MixUp",
    "MixUpBatch",
    "Normalize",
    "NormalizePad",
    "Pad",
    "PadToSize",
    "Perspective",
    "Posterize",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomAutoContrast",
    "RandomColor",
    "RandomColorAdjust",
    "RandomCrop",
    "RandomCropDecodeResize",
    "RandomEqualize",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomInvert",
    "RandomLighting",
    "RandomPerspective",
    "RandomPosterize",
    "RandomResize",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomSelectSubpolicy",
    "RandomSharpness",
    "RandomSolarize",
    "RandomVerticalFlip",
    "Rescale",
    "Resize",
    "ResizedCrop",
    "RgbToHsv",
    "Rotate",
    "SliceMode",
    "SlicePatches",
    "Solarize",
    "TenCrop",
    "ToNumpy",
    "ToPIL",
    "ToTensor",
    "ToType",
    "TrivialAugmentWide",
    "UniformAugment",
    "VerticalFlip",
    "read_file",
    "read_image",
]
