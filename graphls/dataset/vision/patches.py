"""Images cut into patches."""

from __future__ import annotations

from typing import Any

from graphls.dataset.transforms.checks import byte, choice, integer
from graphls.dataset.vision.image import Array, ImageOperation, check_image, wrong_shape
from graphls.dataset.vision.padding import padded
from graphls.dataset.vision.utils import Border, SliceMode


class SlicePatches(ImageOperation):
    """The num_height * num_width equal patches of an image, row by row, as a tuple of arrays (one array if it is one).

    Where the sides do not divide, the image grows at the right and the bottom by `fill_value` (PAD), or the rest is
    left out (DROP). Takes (H, W), (H, W, C) or a PIL image. Raises GraphTypeError, GraphValueError or
    GraphRuntimeError.
    """

    def __init__(
        self, num_height: int = 1, num_width: int = 1, slice_mode: SliceMode = SliceMode.PAD, fill_value: int = 0
    ) -> None:
        self.num_height = integer("num_height", num_height, 1)
        self.num_width = integer("num_width", num_width, 1)
        self.slice_mode = choice("slice_mode", slice_mode, SliceMode)
        self.fill_value = byte("fill_value", fill_value)

    def on_array(self, image: Array) -> Any:
        check_image(self, image)
        if self.num_height > image.shape[0] or self.num_width > image.shape[1]:
            raise wrong_shape(self, image, f"an image of {self.num_height} x {self.num_width} pixels or more")
        if self.slice_mode == SliceMode.PAD:
            rests = -image.shape[1] % self.num_width, -image.shape[0] % self.num_height
            image = padded(self, image, (0, 0, *rests), (self.fill_value,) * 3, Border.CONSTANT)
        height, width = image.shape[0] // self.num_height, image.shape[1] // self.num_width
        corners = [(y * height, x * width) for y in range(self.num_height) for x in range(self.num_width)]
        patches = tuple(image[top : top + height, left : left + width].copy() for top, left in corners)
        return patches if len(patches) > 1 else patches[0]
