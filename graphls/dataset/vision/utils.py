"""Enumerations of options of image operations."""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = ["AutoAugmentPolicy", "Border", "ConvertMode", "ImageBatchFormat", "ImageReadMode", "Inter", "SliceMode"]


class Inter(IntEnum):
    """An interpolation between pixels; ANTIALIAS is for PIL images, AREA and PILCUBIC for arrays only.

    Examples:
        >>> from graphls.dataset import vision
        >>> vision.Inter.BILINEAR
        <Inter.BILINEAR: 2>
    """

    NEAREST = 0
    ANTIALIAS = 1
    BILINEAR = LINEAR = 2
    BICUBIC = CUBIC = 3
    AREA = 4
    PILCUBIC = 5


class Border(str, Enum):
    """The pixels outside of an image: a constant, its edge, or its mirror without or with the edge.

    Examples:
        >>> from graphls.dataset import vision
        >>> vision.Border.REFLECT
        <Border.REFLECT: 'reflect'>
    """

    CONSTANT = "constant"
    EDGE = "edge"
    REFLECT = "reflect"
    SYMMETRIC = "symmetric"


class ImageBatchFormat(IntEnum):
    """The axis of the channels of a batch of images.

    Examples:
        >>> from graphls.dataset import vision
        >>> vision.ImageBatchFormat.NCHW
        <ImageBatchFormat.NCHW: 1>
    """

    NHWC = 0
    NCHW = 1


class SliceMode(IntEnum):
    """The treatment of a remainder that is smaller than a patch: padding, or removal.

    Examples:
        >>> from graphls.dataset import vision
        >>> vision.SliceMode.PAD
        <SliceMode.PAD: 0>
    """

    PAD = 0
    DROP = 1


class ConvertMode(IntEnum):
    """A conversion between orders of color channels.

    Examples:
        >>> from graphls.dataset import vision
        >>> vision.ConvertMode.COLOR_RGB2GRAY
        <ConvertMode.COLOR_RGB2GRAY: 7>
    """

    COLOR_BGR2BGRA = COLOR_RGB2RGBA = 0
    COLOR_BGRA2BGR = COLOR_RGBA2RGB = 1
    COLOR_BGR2RGBA = COLOR_RGB2BGRA = 2
    COLOR_RGBA2BGR = COLOR_BGRA2RGB = 3
    COLOR_BGR2RGB = COLOR_RGB2BGR = 4
    COLOR_BGRA2RGBA = COLOR_RGBA2BGRA = 5
    COLOR_BGR2GRAY = 6
    COLOR_RGB2GRAY = 7
    COLOR_GRAY2BGR = COLOR_GRAY2RGB = 8
    COLOR_GRAY2BGRA = COLOR_GRAY2RGBA = 9
    COLOR_BGRA2GRAY = 10
    COLOR_RGBA2GRAY = 11


class AutoAugmentPolicy(str, Enum):
    """The dataset of a policy of AutoAugment.

    Examples:
        >>> from graphls.dataset import vision
        >>> list(vision.AutoAugmentPolicy)[0]
        <AutoAugmentPolicy.IMAGENET: 'imagenet'>
    """

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


class ImageReadMode(IntEnum):
    """The channels of a read image: its own, one, or three.

    Examples:
        >>> from graphls.dataset import vision
        >>> vision.ImageReadMode.COLOR
        <ImageReadMode.COLOR: 2>
    """

    UNCHANGED = 0
    GRAYSCALE = 1
    COLOR = 2
