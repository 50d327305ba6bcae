"""Operations on images against plain programs: loops, Pillow, SciPy, the standard library."""

from __future__ import annotations

import colorsys
import io
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps
from scipy import ndimage

import graphls
from graphls.dataset import vision
from graphls.dataset.vision import Border, Inter, c_transforms, py_transforms
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError

Array = np.ndarray[Any, Any]
PIXELS = np.random.default_rng(3).integers(0, 256, (13, 17, 3), np.uint8)


def linear(values: Array, place: float) -> Any:
    left = math.floor(place)
    share = place - left
    first, second = (values[min(max(i, 0), len(values) - 1)] for i in (left, left + 1))
    return first * (1 - share) + second * share


def cubic(values: Array, place: float) -> Any:
    left, total = math.floor(place), 0.0
    for i in range(left - 1, left + 3):
        x, a = abs(place - i), -0.75
        weight = (a + 2) * x**3 - (a + 3) * x**2 + 1 if x <= 1 else a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a
        total = total + weight * values[min(max(i, 0), len(values) - 1)]
    return total


def resized(image: Array, size: tuple[int, int], kernel: Any) -> Array:
    for axis, new in enumerate(size):
        lines, scale = np.moveaxis(image, axis, 0), image.shape[axis] / new
        image = np.moveaxis(np.stack([kernel(lines, (i + 0.5) * scale - 0.5) for i in range(new)]), 0, axis)
    return image


@pytest.mark.parametrize("size", [(5, 9), (26, 40), (13, 8), (1, 1), (30, 5)])
@pytest.mark.parametrize(("interpolation", "kernel"), [(Inter.BILINEAR, linear), (Inter.BICUBIC, cubic)])
def test_resize_by_loops(size: tuple[int, int], interpolation: Inter, kernel: Any) -> None:
    wanted = resized(PIXELS.astype(np.float64), size, kernel)
    operation = vision.Resize(size, interpolation)
    np.testing.assert_allclose(operation(PIXELS), np.clip(wanted, 0, 255), atol=1.01)
    np.testing.assert_allclose(operation(PIXELS.astype(np.float32)), wanted, atol=1e-3)
    np.testing.assert_allclose(operation(PIXELS[:, :, 0].astype(np.float64)), wanted[:, :, 0], atol=1e-3)
    np.testing.assert_array_equal(operation(np.stack([PIXELS] * 2))[1], operation(PIXELS))


def test_resize_by_areas() -> None:
    image = PIXELS[:12, :15].astype(np.float32)
    means = image.reshape(4, 3, 5, 3, 3).mean((1, 3))
    np.testing.assert_allclose(vision.Resize((4, 5), Inter.AREA)(image), means, atol=1e-3)
    fine = np.repeat(np.repeat(image, 4, 0), 2, 1)  # 48 x 30 pixels, of which 5 x 4 make one of 9.6 x 7.5
    wanted = np.repeat(np.repeat(fine, 5, 0), 4, 1).reshape(5, 48, 4, 30, 3).mean((1, 3))
    np.testing.assert_allclose(vision.Resize((5, 4), Inter.AREA)(fine), wanted, atol=1e-3)


@pytest.mark.parametrize("interpolation", [Inter.NEAREST, Inter.BILINEAR, Inter.BICUBIC, Inter.ANTIALIAS])
def test_pil_images_are_resized_by_pillow(interpolation: Inter) -> None:
    image = Image.fromarray(PIXELS)
    method = Image.Resampling(int(interpolation))
    found = vision.Resize((7, 30), interpolation)(image)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(image.resize((30, 7), method)))
    assert vision.Resize(26, interpolation)(image).size == (34, 26)
    assert vision.Resize(13, interpolation)(image) is image


def test_interpolations_for_one_kind_of_image_only() -> None:
    image = Image.fromarray(PIXELS)
    for interpolation in (Inter.AREA, Inter.PILCUBIC):
        with pytest.raises(GraphTypeError, match="for arrays"):
            vision.Resize(5, interpolation)(image)
    with pytest.raises(GraphTypeError, match="for PIL images only"):
        vision.Resize(5, Inter.ANTIALIAS)(PIXELS)
    with pytest.raises(GraphRuntimeError, match="PILCUBIC"):
        vision.Resize(5, Inter.PILCUBIC)(PIXELS[:, :, 0])
    with pytest.raises(GraphRuntimeError, match=r"except for Inter\.NEAREST"):
        vision.Resize(5)(PIXELS.astype(np.int32))


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("interpolation", [Inter.NEAREST, Inter.BILINEAR, Inter.BICUBIC])
def test_right_angles(turns: int, interpolation: Inter) -> None:
    for image in (PIXELS, PIXELS[:, :, 0], PIXELS.astype(np.float32)):
        found = vision.Rotate(90 * turns, interpolation, expand=True)(image)
        np.testing.assert_array_equal(found, np.rot90(image, turns))


@pytest.mark.parametrize(("interpolation", "order"), [(Inter.NEAREST, 0), (Inter.BILINEAR, 1)])
def test_affine_maps_against_scipy(interpolation: Inter, order: int) -> None:
    y, x = np.mgrid[:40, :50]
    image = (100 + 50 * np.sin(x / 9) + 40 * np.cos(y / 7)).astype(np.float32)
    angle, scale, shear = math.radians(25), 1.1, math.radians(8)
    turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    matrix = scale * turn @ np.array([[1, -math.tan(shear)], [0, 1]])
    inverse = np.linalg.inv(matrix)[::-1, ::-1]  # of (y, x)
    center = np.array([19.5, 24.5])
    offset = center - inverse @ (center + np.array([0.1 * 40, -0.05 * 50]))
    wanted = ndimage.affine_transform(image, inverse, offset, order=order, cval=7.0)
    found = vision.Affine(25, (-0.05, 0.1), scale, 8, interpolation, 7)(image)
    inside = ndimage.minimum_filter(np.abs(wanted - 7) > 1, 3)
    assert inside.sum() > 800
    np.testing.assert_allclose(found[inside], wanted[inside], atol=8.0 if order == 0 else 0.5)
    assert np.mean(found == 7) > 0.05


def test_random_affine_of_one_value_is_affine() -> None:
    fixed = vision.RandomAffine((25, 25), (0.1, 0.1, -0.2, -0.2), (0.9, 0.9), (4, 4, 3, 3), Inter.BILINEAR)(PIXELS)
    wanted = vision.Affine(25, (0.1, -0.2), 0.9, (4, 3), Inter.BILINEAR)(PIXELS)
    np.testing.assert_array_equal(fixed, wanted)
    on_pil = np.asarray(vision.RandomAffine((25, 25), None, (0.9, 0.9))(Image.fromarray(PIXELS)))
    on_array = vision.RandomAffine((25, 25), None, (0.9, 0.9))(PIXELS)
    assert (on_pil == on_array).mean() > 0.9


def test_perspective_brings_points_to_points() -> None:
    image = np.zeros((20, 30), np.float32)
    old = [[4, 3], [25, 5], [22, 16], [6, 15]]
    for x, y in old:
        image[y, x] = 100
    new = [[2, 2], [27, 1], [24, 17], [3, 18]]
    found = vision.Perspective(old, new, Inter.BILINEAR)(image)
    assert all(found[y, x] == 100 for x, y in new)
    with pytest.raises(GraphValueError, match="on one line"):
        vision.Perspective([[0, 0], [1, 1], [2, 2], [3, 3]], new)(image)
    same = vision.Perspective(old, old)(Image.fromarray(PIXELS))
    np.testing.assert_allclose(np.asarray(same).astype(int), PIXELS, atol=1)


MODES: list[tuple[Border, Any]] = [
    (Border.EDGE, "edge"),
    (Border.REFLECT, "reflect"),
    (Border.SYMMETRIC, "symmetric"),
]


@pytest.mark.parametrize(("mode", "numpy_mode"), MODES)
def test_borders(mode: Border, numpy_mode: Any) -> None:
    wanted = np.pad(PIXELS, ((2, 4), (1, 3), (0, 0)), numpy_mode)
    operation = vision.Pad((1, 2, 3, 4), padding_mode=mode)
    np.testing.assert_array_equal(operation(PIXELS), wanted)
    np.testing.assert_array_equal(np.asarray(operation(Image.fromarray(PIXELS))), wanted)


def test_colors_of_pil_images_are_changed_by_pillow() -> None:
    image = Image.fromarray(PIXELS)
    pairs = [
        (vision.AdjustBrightness(1.3), ImageEnhance.Brightness(image).enhance(1.3)),
        (vision.AdjustContrast(0.6), ImageEnhance.Contrast(image).enhance(0.6)),
        (vision.AdjustSaturation(2.0), ImageEnhance.Color(image).enhance(2.0)),
        (vision.RandomSharpness((1.7, 1.7)), ImageEnhance.Sharpness(image).enhance(1.7)),
        (vision.AutoContrast(5.0), ImageOps.autocontrast(image, 5.0)),
        (vision.Equalize(), ImageOps.equalize(image)),
        (vision.Invert(), ImageOps.invert(image)),
        (vision.RandomRotation((33, 33), Inter.BICUBIC, True, None, (1, 2, 3)),
         image.rotate(33, Image.Resampling.BICUBIC, True, fillcolor=(1, 2, 3))),
    ]  # fmt: skip
    for operation, wanted in pairs:
        np.testing.assert_array_equal(np.asarray(operation(image)), np.asarray(wanted))


def test_neutral_factors_change_nothing() -> None:
    kinds = [vision.AdjustBrightness, vision.AdjustContrast, vision.AdjustSaturation, vision.AdjustSharpness]
    for image in (PIXELS, PIXELS / np.float32(255)):
        for kind in kinds:
            np.testing.assert_allclose(kind(1.0)(image), image, atol=1e-6)
        np.testing.assert_array_equal(vision.RandomColorAdjust()(image), image)
    np.testing.assert_allclose(vision.AdjustHue(0.0)(PIXELS).astype(int), PIXELS, atol=6)


@pytest.mark.parametrize("factor", [-0.5, -0.2, 0.1, 0.4])
def test_hue_by_the_standard_library(factor: float) -> None:
    found = vision.AdjustHue(factor)(PIXELS).reshape(-1, 3) / 255
    for pixel, result in zip(PIXELS.reshape(-1, 3) / 255, found, strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        wanted = colorsys.hsv_to_rgb((hue + factor) % 1, saturation, value)
        np.testing.assert_allclose(result, wanted, atol=0.05)


def test_hsv_by_the_standard_library() -> None:
    image = PIXELS / np.float64(255)
    wanted = np.array([colorsys.rgb_to_hsv(*pixel) for pixel in image.reshape(-1, 3)]).reshape(image.shape)
    found = vision.RgbToHsv(is_hwc=True)(image)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
    np.testing.assert_allclose(vision.HsvToRgb(is_hwc=True)(found), image, atol=1e-12)
    planes = np.stack([image.transpose(2, 0, 1)] * 2).astype(np.float32)
    turned = vision.RgbToHsv()(planes)
    assert turned.dtype == np.float32
    np.testing.assert_allclose(turned[1].transpose(1, 2, 0), wanted, atol=1e-6)
    for wrong in (PIXELS, image[:, :, 0]):
        with pytest.raises(GraphTypeError, match="three channels"):
            vision.RgbToHsv()(wrong)


@pytest.mark.parametrize(("size", "sigma"), [(3, 0.9), ((5, 3), (0.8, 1.4)), (7, 2.0), (1, 1.0)])
def test_blur_against_scipy(size: Any, sigma: Any) -> None:
    sizes = size if isinstance(size, tuple) else (size, size)
    sigmas = sigma if isinstance(sigma, tuple) else (sigma, sigma)
    wanted = PIXELS.astype(np.float64)
    for axis, length, width in zip((1, 0), sizes, sigmas, strict=True):
        wanted = ndimage.gaussian_filter1d(wanted, width, axis, mode="mirror", radius=length // 2)
    np.testing.assert_allclose(vision.GaussianBlur(size, sigma)(PIXELS.astype(np.float32)), wanted, atol=1e-3)
    np.testing.assert_allclose(vision.GaussianBlur(size, sigma)(PIXELS), wanted, atol=1.6)


def test_numbers() -> None:
    mean, std = [120.0, 110.0, 100.0], [70.0, 60.0, 50.0]
    wanted = (PIXELS - np.array(mean)) / std
    for given in (PIXELS, PIXELS.astype(np.float64), Image.fromarray(PIXELS)):
        result = vision.Normalize(mean, std)(given)
        assert result.dtype == np.float32
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
    planes = PIXELS.transpose(2, 0, 1)
    np.testing.assert_allclose(vision.Normalize(mean, std, is_hwc=False)(planes), wanted.transpose(2, 0, 1), atol=1e-5)
    np.testing.assert_allclose(vision.Normalize([9.0], [3.0])(PIXELS), (PIXELS - 9.0) / 3, rtol=1e-5)
    padded = vision.NormalizePad(mean, std, "float16")(PIXELS)
    assert padded.dtype == np.float16 and padded.shape == (13, 17, 4) and not padded[:, :, 3].any()
    np.testing.assert_allclose(padded[:, :, :3], wanted, atol=2e-3)
    half = vision.ToTensor(graphls.float16)(PIXELS)
    assert half.dtype == np.float16 and half.shape == (3, 13, 17)
    with pytest.raises(GraphRuntimeError, match="3 channels"):
        vision.Normalize(mean, std)(PIXELS[:, :, :1])


def test_linear_transformation() -> None:
    image = np.arange(6, dtype=np.float64).reshape(1, 2, 3)
    matrix, mean = np.random.default_rng(0).normal(size=(6, 6)), np.arange(6) * 0.5
    found = vision.LinearTransformation(matrix, mean)(image)
    np.testing.assert_allclose(found.reshape(-1), (image.reshape(-1) - mean) @ matrix)
    with pytest.raises(GraphValueError, match="6 elements"):
        vision.LinearTransformation(matrix, mean)(image[:, :1])


def encoded(image: Any, kind: str) -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def test_decode(tmp_path: Path) -> None:
    image = Image.fromarray(PIXELS)
    for kind in ("PNG", "BMP", "GIF", "JPEG"):
        data = encoded(image, kind)
        wanted = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        for given in (data, np.frombuffer(data, np.uint8)):
            np.testing.assert_array_equal(vision.Decode()(given), wanted)
        assert vision.Decode(to_pil=True)(data).mode == "RGB"
        assert vision.Decode()(data).flags.writeable
    gray = np.frombuffer(encoded(image.convert("L"), "PNG"), np.uint8)
    assert vision.Decode()(gray).shape == (13, 17, 3)
    path = tmp_path / "gray.png"
    path.write_bytes(gray.tobytes())
    shapes = {mode: vision.read_image(str(path), mode).shape[2] for mode in vision.ImageReadMode}
    assert list(shapes.values()) == [1, 1, 3]
    eps = encoded(image, "EPS")  # which Pillow would hand to another program
    for wrong in (data[:100], b"no image", b"", eps):
        with pytest.raises(GraphRuntimeError, match="not an image that can be decoded"):
            vision.Decode()(wrong)
    for kind_of_wrong in (PIXELS, image, "text", np.array([1.5])):
        with pytest.raises(GraphTypeError):
            vision.Decode()(kind_of_wrong)


def test_damaged_bytes_are_an_image_or_an_error() -> None:
    draw = np.random.default_rng(0)
    for kind in ("PNG", "JPEG", "GIF", "BMP", "PPM"):
        whole = np.frombuffer(encoded(Image.fromarray(PIXELS), kind), np.uint8)
        for _ in range(60):
            data = whole[: draw.integers(1, len(whole) + 1)].copy()
            data[draw.integers(len(data), size=3)] = draw.integers(0, 256, 3)
            try:
                assert vision.Decode()(data).ndim == 3
            except GraphRuntimeError as error:
                assert "image" in str(error)


def test_a_header_of_a_huge_image_is_refused() -> None:
    header = b"IHDR" + struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + header + struct.pack(">I", zlib.crc32(header))
    data += struct.pack(">I", 0) + b"IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    with pytest.raises(GraphRuntimeError, match="too large"):
        vision.Decode()(data)


def test_other_kinds_of_images_are_refused() -> None:
    operations = [vision.Resize(3), vision.HWC2CHW(), vision.Invert(), vision.Rescale(1.0, 0.0), vision.ToTensor()]
    for operation in operations:
        for wrong in ([[1, 2], [3, 4]], "text", np.array(["a"])):
            with pytest.raises(GraphTypeError, match="PIL image"):
                operation(wrong)
    for operation in (vision.Grayscale(), vision.FiveCrop(3), vision.RandomGrayscale()):
        with pytest.raises(GraphTypeError, match="takes a PIL image"):
            operation(PIXELS)
    for operation in (vision.HWC2CHW(), vision.Pad(1), vision.Crop((0, 0), 1), vision.Erase(0, 0, 1, 1)):
        with pytest.raises(GraphRuntimeError):
            operation(np.zeros((2, 3, 4, 3), np.uint8))
    with pytest.raises(GraphValueError):
        vision.ToPIL()(np.zeros((2, 3, 5), np.uint8))
    with pytest.raises(GraphTypeError):
        vision.ToPIL()(np.zeros((2, 3, 3), np.float32))


def test_an_array_that_cannot_be_written_is_left_alone() -> None:
    image = PIXELS.copy()
    image.flags.writeable = False
    for kind in (vision.Erase(1, 1, 3, 3, 5, inplace=True), vision.CutOut(3), vision.RandomErasing(1.0, inplace=True)):
        kind(image)
    np.testing.assert_array_equal(image, PIXELS)


def test_old_paths() -> None:
    assert c_transforms.Resize is vision.Resize and py_transforms.ToTensor is vision.ToTensor
    planes = PIXELS.transpose(2, 0, 1).astype(np.float32)
    found = py_transforms.Normalize([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])(planes)
    np.testing.assert_array_equal(found, vision.Normalize([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], False)(planes))
    assert py_transforms.Decode()(encoded(Image.fromarray(PIXELS), "PNG")).size == (17, 13)
    assert (py_transforms.Cutout(4)(planes + 1) == 0).sum() == 48
    for module in (vision, c_transforms, py_transforms):
        assert all(hasattr(module, name) for name in module.__all__)
