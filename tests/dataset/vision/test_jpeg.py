"""JPEG files: the pixels that Pillow finds, whoever decodes them."""

from __future__ import annotations

import io
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from graphls.dataset import vision
from graphls.dataset.vision import decoding
from graphls.dataset.vision.opencv import opencv
from graphls.ir.errors import GraphRuntimeError

Array = np.ndarray[Any, Any]
SMOOTH = np.add.outer(np.arange(37) * 5, np.arange(51) * 2)[..., None] + np.array([0, 30, 60])
PIXELS = (SMOOTH + np.random.default_rng(3).integers(0, 40, SMOOTH.shape)).clip(0, 255).astype(np.uint8)
TURNED = Image.Exif()
TURNED[0x0112] = 6  # orientation: to be turned by 90 degrees


def encoded(image: Image.Image, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", **options)
    return file.getvalue()


def of_pillow(data: bytes) -> Array:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


COLOR, GRAY = Image.fromarray(PIXELS), Image.fromarray(PIXELS[:, :, 0])
USUAL = {
    "color": encoded(COLOR),
    "all colors in full": encoded(COLOR, quality=95, subsampling=0),
    "half of the colors": encoded(COLOR, quality=30, subsampling=1),
    "progressive": encoded(COLOR, progressive=True),
    "restarts": encoded(COLOR, restart_marker_blocks=2),
    "no change of colors": encoded(COLOR, keep_rgb=True),
    "to be turned": encoded(COLOR, exif=TURNED),
    "comment and profile": encoded(COLOR, comment="text", icc_profile=bytes(99)),
    "gray": encoded(GRAY),
    "one pixel": encoded(COLOR.crop((0, 0, 1, 1))),
}
UNUSUAL = {
    "four colors": encoded(COLOR.convert("CMYK")),
    "more behind": USUAL["color"] + b"more",
    "filled markers": USUAL["color"].replace(b"\xff\xdb", b"\xff\xff\xdb", 1),
}


@pytest.mark.parametrize("kind", [*USUAL, *UNUSUAL])
def test_the_pixels_are_those_of_pillow(kind: str) -> None:
    data = (USUAL | UNUSUAL)[kind]
    bytes_of_it = np.frombuffer(data, np.uint8)
    assert (decoding.decoded_jpeg(bytes_of_it) is None) == (kind in UNUSUAL)
    for given in (data, bytes_of_it, bytes_of_it.view(np.int8), bytes_of_it.repeat(2)[::2]):
        found = vision.Decode()(given)
        np.testing.assert_array_equal(found, of_pillow(data))
        assert found.dtype == np.uint8 and found.flags.writeable and found.flags.c_contiguous
    same_size = vision.RandomCropDecodeResize(found.shape[:2], (1, 1), (found.shape[1] / found.shape[0],) * 2)
    np.testing.assert_array_equal(same_size(bytes_of_it), found)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 10, 25, 170, 400])
def test_a_file_that_is_cut_is_refused(length: int) -> None:
    for end in (b"", decoding.END):
        data = USUAL["color"][:length] + end
        assert decoding.decoded_jpeg(np.frombuffer(data, np.uint8)) is None
        with pytest.raises(GraphRuntimeError, match="not an image that can be decoded"):
            vision.Decode()(data)


def test_a_length_of_nothing_ends_the_search_for_the_size() -> None:
    data = decoding.START + b"\xff\xe0\x00\x00" * 9 + bytes(9) + decoding.END
    assert decoding.decoded_jpeg(np.frombuffer(data, np.uint8)) is None


def test_a_very_large_image_is_for_pillow() -> None:
    place = USUAL["color"].index(b"\xff\xc0") + 5  # of the height and the width
    data = USUAL["color"][:place] + b"\xff\xdc" * 2 + USUAL["color"][place + 4 :]
    assert decoding.decoded_jpeg(np.frombuffer(data, np.uint8)) is None
    with pytest.raises(GraphRuntimeError, match="too large"):
        vision.Decode()(data)


def test_without_opencv_pillow_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    opencv.cache_clear()
    with monkeypatch.context() as changed:
        changed.setitem(sys.modules, "cv2", None)
        np.testing.assert_array_equal(vision.Decode()(USUAL["color"]), of_pillow(USUAL["color"]))
