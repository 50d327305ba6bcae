"""Operations on images, for `map`: on arrays of (H, W, C) or PIL images, as MindSpore's `dataset.vision` has them."""

from graphls.dataset.vision import (
    augmentation,
    boxes,
    colors,
    cropping,
    decoding,
    geometry,
    mixing,
    sizes,
    tones,
    utils,
    values,
)  # fmt: skip
from graphls.dataset.vision.augmentation import *  # noqa: F403
from graphls.dataset.vision.boxes import *  # noqa: F403
from graphls.dataset.vision.colors import *  # noqa: F403
from graphls.dataset.vision.cropping import *  # noqa: F403
from graphls.dataset.vision.decoding import *  # noqa: F403
from graphls.dataset.vision.geometry import *  # noqa: F403
from graphls.dataset.vision.mixing import *  # noqa: F403
from graphls.dataset.vision.sizes import *  # noqa: F403
from graphls.dataset.vision.tones import *  # noqa: F403
from graphls.dataset.vision.utils import *  # noqa: F403
from graphls.dataset.vision.values import *  # noqa: F403

__all__ = [
    *augmentation.__all__, *boxes.__all__, *colors.__all__, *cropping.__all__, *decoding.__all__, *geometry.__all__,
    *mixing.__all__, *sizes.__all__, *tones.__all__, *utils.__all__, *values.__all__,
]  # fmt: skip
