"""How OpenCV is called: found or missed, with its settings left alone, in forked processes, for every kind of array."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from typing import Any

import cv2
import numpy as np
import pytest

from graphls.dataset import vision
from graphls.dataset.vision import Inter
from graphls.dataset.vision.opencv import opencv
from graphls.ir.errors import GraphRuntimeError

Array = np.ndarray[Any, Any]
PIXELS = np.random.default_rng(3).integers(0, 256, (13, 17, 3), np.uint8)
LARGE = np.random.default_rng(3).integers(0, 256, (1500, 1500, 3), np.uint8)


def test_an_error_names_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    opencv.cache_clear()
    with monkeypatch.context() as changed:
        changed.setitem(sys.modules, "cv2", None)
        with pytest.raises(GraphRuntimeError, match=r'run pip install "graphls\[train\]"'):
            vision.Resize(5)(PIXELS)
    assert vision.Resize(5)(PIXELS).shape == (5, 6, 3)


@pytest.mark.parametrize("used", [True, False])
def test_settings_of_the_user_stay(used: bool) -> None:
    before = cv2.ipp.useIPP()
    try:
        cv2.ipp.setUseIPP(used)
        wanted = cv2.ipp.useIPP()  # False where this build has none
        vision.Resize(5, Inter.BICUBIC)(PIXELS)
        assert cv2.ipp.useIPP() == wanted
        with pytest.raises(GraphRuntimeError, match="OpenCV refuses the image"):
            vision.Rotate(1.0)(np.zeros((2, 40_000), np.uint8))
        assert cv2.ipp.useIPP() == wanted
    finally:
        cv2.ipp.setUseIPP(before)


def _resize_in_a_child(results: Any) -> None:
    results.send((cv2.getNumThreads(), int(vision.Resize(2000, Inter.BICUBIC)(LARGE).sum())))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_computes_in_one_thread_and_waits_for_none() -> None:
    before = cv2.getNumThreads()
    cv2.setNumThreads(3)
    try:
        wanted = int(vision.Resize(2000, Inter.BICUBIC)(LARGE).sum())  # starts the threads of OpenCV
        context = multiprocessing.get_context("fork")
        ours, theirs = context.Pipe()
        child = context.Process(target=_resize_in_a_child, args=(theirs,), daemon=True)
        child.start()
        assert ours.poll(300), "the child waits for threads that it has not"
        assert ours.recv() == (1, wanted)
        child.join(300)
        assert cv2.getNumThreads() == 3
    finally:
        cv2.setNumThreads(before)


SCRIPT = """
import multiprocessing, cv2, numpy as np

image = np.zeros((1500, 1500, 3), np.uint8)
cv2.setNumThreads(3)
cv2.resize(image, (3000, 3000), interpolation=cv2.INTER_CUBIC)

def child():
    from graphls.dataset import vision
    vision.Resize(2000)(image)

process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join(300)
print(process.exitcode)
process.kill()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux")
def test_a_process_forked_by_one_whose_user_has_called_opencv_waits_for_no_thread() -> None:
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=600)
    assert found.stdout.strip() == "0", found.stderr


DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint64", "float16", "float64", "longdouble"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_pixels_of_every_dtype_are_moved_as_they_are(dtype: str) -> None:
    image = (PIXELS.astype(np.int64) - 100).astype(dtype)
    if dtype == "int64":
        image += 2**60  # no float has these bits
    np.testing.assert_array_equal(vision.Resize((26, 34), Inter.NEAREST)(image), image.repeat(2, 0).repeat(2, 1))
    np.testing.assert_array_equal(vision.Rotate(90, expand=True)(image), np.rot90(image))
    np.testing.assert_array_equal(vision.HorizontalFlip()(image), image[:, ::-1])
    outside = vision.Affine(0, (0.5, 0.5), 1.0, 0, Inter.NEAREST, 7)(image)[0, 0]
    np.testing.assert_array_equal(outside, np.array([7, 7, 7]).astype(dtype))


@pytest.mark.parametrize("dtype", ["int16", "int32", "float16"])
def test_dtypes_that_opencv_does_not_compute_with(dtype: str) -> None:
    image = PIXELS.astype(dtype)
    found = vision.GaussianBlur(3)(image)
    assert found.dtype == image.dtype
    np.testing.assert_allclose(found, vision.GaussianBlur(3)(PIXELS.astype(np.float32)), atol=0.51)


def test_cubic_warps_of_float64_are_right_at_the_border() -> None:
    rotate, image = vision.Rotate(20, Inter.BICUBIC, fill_value=40), PIXELS / 255
    np.testing.assert_allclose(rotate(image), rotate(image.astype(np.float32)), atol=1e-5)


@pytest.mark.parametrize("channels", [1, 2, 4, 6])
def test_any_number_of_channels(channels: int) -> None:
    image = np.random.default_rng(4).integers(0, 256, (13, 17, channels), np.uint8)
    operations = [
        vision.Resize((8, 9)), vision.Resize((8, 9), Inter.AREA), vision.Resize((20, 30), Inter.BICUBIC),
        vision.GaussianBlur(3), vision.Rotate(30, Inter.BILINEAR), vision.Rotate(30, Inter.NEAREST, True),
        vision.AdjustSharpness(0.4), vision.HorizontalFlip(), vision.VerticalFlip(),
    ]  # fmt: skip
    for operation in operations:
        planes = [operation(np.ascontiguousarray(image[:, :, channel])) for channel in range(channels)]
        np.testing.assert_array_equal(operation(image), np.stack(planes, 2))


def test_arrays_in_any_order_of_memory() -> None:
    turned = np.asfortranarray(PIXELS)[::-1, ::2]
    for operation in (vision.Resize((8, 9)), vision.GaussianBlur(3), vision.Rotate(30), vision.HorizontalFlip()):
        np.testing.assert_array_equal(operation(turned), operation(np.ascontiguousarray(turned)))


@pytest.mark.parametrize("shape", [(0, 4, 3), (4, 0, 3), (4, 3, 0)])
def test_an_image_without_pixels_is_refused(shape: tuple[int, int, int]) -> None:
    operations = [
        vision.HorizontalFlip(), vision.Resize(5), vision.GaussianBlur(3), vision.Rotate(30), vision.Solarize(9),
        vision.AdjustBrightness(1.5), vision.AdjustHue(0.1), vision.AdjustSharpness(2.0), vision.AdjustGamma(2.0),
        vision.ConvertColor(vision.ConvertMode.COLOR_RGB2GRAY), vision.Equalize(), vision.RandomHorizontalFlip(1.0),
    ]  # fmt: skip
    for operation in operations:
        with pytest.raises(GraphRuntimeError):
            operation(np.zeros(shape, np.uint8))
