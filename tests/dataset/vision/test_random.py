"""Random operations on images: what they draw from, how often they act, and what stays true whatever they draw."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

import graphls
from graphls.dataset import vision
from graphls.ir.errors import GraphRuntimeError, GraphTypeError, GraphValueError

PIXELS = np.random.default_rng(0).integers(0, 256, (40, 48, 3), np.uint8)
OPERATIONS: dict[str, Callable[[], Any]] = {
    "flip": lambda: vision.RandomHorizontalFlip(),
    "vertical flip": lambda: vision.RandomVerticalFlip(),
    "crop": lambda: vision.RandomCrop((20, 30), 2),
    "resized crop": lambda: vision.RandomResizedCrop(16),
    "rotation": lambda: vision.RandomRotation(30, vision.Inter.BILINEAR),
    "affine": lambda: vision.RandomAffine(20, (-0.1, 0.1, -0.2, 0.2), (0.8, 1.2), 5),
    "color": lambda: vision.RandomColorAdjust(0.4, 0.4, 0.4, 0.1),
    "saturation": lambda: vision.RandomColor(),
    "sharpness": lambda: vision.RandomSharpness(),
    "adjusted sharpness": lambda: vision.RandomAdjustSharpness(2.0),
    "lighting": lambda: vision.RandomLighting(1.0),
    "invert": lambda: vision.RandomInvert(),
    "equalize": lambda: vision.RandomEqualize(),
    "contrast": lambda: vision.RandomAutoContrast(20.0),
    "posterize": lambda: vision.RandomPosterize((1, 8)),
    "solarize": lambda: vision.RandomSolarize(),
    "resize": lambda: vision.RandomResize(20),
    "erasing": lambda: lambda image: vision.RandomErasing(value="random")(image.transpose(2, 0, 1)),
    "cut out": lambda: vision.CutOut(8, 3),
    "uniform": lambda: vision.UniformAugment([vision.Invert(), vision.Equalize(), vision.HorizontalFlip()]),
    "subpolicy": lambda: vision.RandomSelectSubpolicy([[(vision.Invert(), 0.5)], [(vision.HorizontalFlip(), 0.5)]]),
    "auto augment": lambda: vision.AutoAugment(),
    "rand augment": lambda: vision.RandAugment(),
    "trivial augment": lambda: vision.TrivialAugmentWide(),
}
ON_PIL = ["flip", "vertical flip", "crop", "resized crop", "rotation", "affine", "color", "saturation", "sharpness"]


def results(operation: Any, image: Any, seed: int, count: int = 12) -> list[np.ndarray[Any, Any]]:
    graphls.set_seed(seed)
    return [np.asarray(operation(image)) for _ in range(count)]


def same(first: list[np.ndarray[Any, Any]], second: list[np.ndarray[Any, Any]]) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.parametrize(("name", "pil"), [(n, False) for n in OPERATIONS] + [(n, True) for n in ON_PIL])
def test_draws_depend_on_the_seed_alone(name: str, pil: bool) -> None:
    image = Image.fromarray(PIXELS) if pil else PIXELS
    operation = OPERATIONS[name]()
    before = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    first = results(operation, image, 1)
    assert same(first, results(operation, image, 1))
    assert not same(first, results(operation, image, 2))
    assert not same(first[:1] * 11, first[1:])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before  # type: ignore[index, union-attr]
    np.testing.assert_array_equal(np.asarray(image), PIXELS)


@pytest.mark.parametrize("name", ["flip", "vertical flip", "crop", "resized crop", "rotation", "affine"])
def test_several_columns_share_their_draws(name: str) -> None:
    operation = OPERATIONS[name]()
    graphls.set_seed(5)
    for _ in range(5):
        first, second = operation(PIXELS, PIXELS)
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("prob", [0.0, 0.2, 0.7, 1.0])
def test_how_often_an_image_is_flipped(prob: float) -> None:
    image = np.arange(6, dtype=np.uint8).reshape(2, 3)
    graphls.set_seed(0)
    for kind, axis in ((vision.RandomHorizontalFlip, 1), (vision.RandomVerticalFlip, 0)):
        flipped = [np.array_equal(kind(prob)(image), np.flip(image, axis)) for _ in range(1000)]
        assert abs(np.mean(flipped) - prob) <= 4 * np.sqrt(prob * (1 - prob) / 1000)


@pytest.mark.parametrize("pil", [False, True])
def test_crops_are_parts_at_every_place(pil: bool) -> None:
    image = np.arange(20, dtype=np.uint8).reshape(4, 5)
    graphls.set_seed(0)
    operation = vision.RandomCrop((3, 2))
    places = set()
    for _ in range(200):
        part = np.asarray(operation(Image.fromarray(image) if pil else image))
        top, left = divmod(int(part[0, 0]), 5)
        np.testing.assert_array_equal(part, image[top : top + 3, left : left + 2])
        places.add((top, left))
    assert places == {(top, left) for top in range(2) for left in range(4)}


def test_crops_of_images_that_are_too_small() -> None:
    image = np.full((4, 5), 9, np.uint8)
    with pytest.raises(GraphRuntimeError, match="5 x 5"):
        vision.RandomCrop(5)(image)
    with pytest.raises(GraphValueError, match="5 x 5"):
        vision.RandomCrop(5)(Image.fromarray(image))
    for given in (image, Image.fromarray(image)):
        part = np.asarray(vision.RandomCrop((6, 7), pad_if_needed=True, fill_value=1)(given))
        assert part.shape == (6, 7) and (part == 9).sum() == 20 and (part == 1).sum() == 22


def test_images_with_more_axes_are_cropped_at_one_place() -> None:
    images = np.stack([PIXELS, PIXELS])
    cut = vision.RandomCrop(8)(images)
    assert cut.shape == (2, 8, 8, 3)
    np.testing.assert_array_equal(cut[0], cut[1])


def test_the_part_of_a_resized_crop() -> None:
    y, x = np.mgrid[:60, :80].astype(np.float32)
    image = np.stack([y, x, np.ones_like(x)], 2)
    graphls.set_seed(0)
    operation = vision.RandomResizedCrop((30, 30), (0.2, 0.5), (0.5, 2.0), vision.Inter.AREA)
    shares, ratios = [], []
    for _ in range(300):
        part = operation(image)
        height, width = (np.ptp(part[:, :, channel]) * 30 / 29 for channel in range(2))
        shares.append(height * width / 4800)
        ratios.append(width / height)
    assert 0.17 < min(shares) < 0.25 and 0.42 < max(shares) < 0.53
    assert 0.47 < min(ratios) < 0.6 and 1.6 < max(ratios) < 2.1
    assert abs(np.mean(np.log(ratios))) < 0.1


def test_erased_rectangles() -> None:
    image = np.ones((3, 50, 60), np.float32)
    graphls.set_seed(0)
    operation = vision.RandomErasing(0.5, (0.1, 0.3), (0.5, 2.0), (4, 5, 6))
    erased = 0
    for _ in range(200):
        result = operation(image)
        if np.array_equal(result, image):
            continue
        erased += 1
        rows, columns = (np.flatnonzero((result[0] != 1).any(axis)) for axis in (1, 0))
        height, width = np.ptp(rows) + 1, np.ptp(columns) + 1
        assert 0.09 < height * width / 3000 < 0.31 and 0.45 < width / height < 2.2
        box = result[:, rows[0] : rows[0] + height, columns[0] : columns[0] + width]
        assert (box == np.array([4, 5, 6])[:, None, None]).all() and (result[0] == 1).sum() == 3000 - height * width
    assert 70 < erased < 130
    assert image.min() == image.max() == 1
    vision.RandomErasing(1.0, inplace=True)(image)
    assert image.min() == 0
    with pytest.raises(GraphTypeError, match="ToTensor"):
        vision.RandomErasing(1.0)(Image.fromarray(PIXELS))


def test_cut_out_squares() -> None:
    image = np.ones((9, 7, 3), np.uint8)
    graphls.set_seed(0)
    for hwc, given in ((True, image), (False, image.transpose(2, 0, 1))):
        result = vision.CutOut(4, is_hwc=hwc)(given)
        assert result.shape == given.shape and (result == 0).sum() == 4 * 4 * 3
    with pytest.raises(GraphRuntimeError, match="8 x 8"):
        vision.CutOut(8)(image)


def batch() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Images of one value each, so that a mixture of images is that of its labels."""
    values = np.arange(6, dtype=np.float32) * 10
    return np.broadcast_to(values[:, None, None, None], (6, 8, 10, 3)).copy(), np.eye(6, dtype=np.int32)


MIXTURES = ["MixUpBatch", "CutMixBatch", "CutMixBatch NCHW", "MixUp", "MixUp with the one before"]


@pytest.mark.parametrize("kind", MIXTURES)
def test_labels_are_mixed_as_images_are(kind: str) -> None:
    graphls.set_seed(0)
    images, labels = batch()
    images = images.transpose(0, 3, 1, 2).copy() if "NCHW" in kind else images
    operation: Any = {
        "MixUpBatch": vision.MixUpBatch(),
        "CutMixBatch": vision.CutMixBatch(vision.ImageBatchFormat.NHWC),
        "CutMixBatch NCHW": vision.CutMixBatch(vision.ImageBatchFormat.NCHW),
        "MixUp": vision.MixUp(6, 1.0),
        "MixUp with the one before": vision.MixUp(6, 1.0, False),
    }[kind]
    for _ in range(5):
        mixed, shares = operation(images, labels)
        assert mixed.shape == images.shape
        np.testing.assert_allclose(shares.sum(1), 1, atol=1e-5)
        np.testing.assert_allclose(mixed.mean((1, 2, 3)), shares @ (np.arange(6) * 10), atol=1e-3)
        images, labels = (images[::-1], labels[::-1]) if "before" in kind else (images, labels)
    assert 0.01 < shares.max(1).min() < 0.999


def test_batches_that_do_not_fit() -> None:
    images, labels = batch()
    for operation in (vision.MixUpBatch(), vision.CutMixBatch(vision.ImageBatchFormat.NHWC), vision.MixUp(5, 1.0)):
        with pytest.raises(GraphRuntimeError):
            operation(images, labels[:5])
        with pytest.raises(GraphRuntimeError):
            operation(images[0], labels[0])


def test_augmentations_keep_shape_and_refuse_other_images() -> None:
    graphls.set_seed(0)
    kinds: list[Any] = [vision.AutoAugment(policy) for policy in vision.AutoAugmentPolicy]
    for operation in [*kinds, vision.RandAugment(3, 20), vision.TrivialAugmentWide()]:
        for _ in range(40):
            result = operation(PIXELS)
            assert (result.shape, result.dtype) == (PIXELS.shape, np.uint8)
        for wrong in (PIXELS[:, :, 0], PIXELS.astype(np.float32)):
            with pytest.raises(GraphRuntimeError):
                operation(wrong)
    np.testing.assert_array_equal(vision.RandAugment(0)(PIXELS), PIXELS)


def test_an_image_that_is_moved_by_more_than_its_size_is_all_fill() -> None:
    graphls.set_seed(0)
    image = np.full((3, 5, 3), 200, np.uint8)
    moved = [vision.TrivialAugmentWide(fill_value=(1, 2, 3))(image) for _ in range(200)]
    assert {found.shape for found in moved} == {image.shape}
    assert any((found == [1, 2, 3]).all() for found in moved)


def test_random_perspective_moves_corners_inwards() -> None:
    image = Image.fromarray(np.full((20, 30, 3), 200, np.uint8))
    graphls.set_seed(0)
    blacks = [(np.asarray(vision.RandomPerspective(0.5, 1.0)(image)) == 0).mean() for _ in range(20)]
    assert 0.05 < np.mean(blacks) < 0.6
    assert np.asarray(vision.RandomPerspective(0.5, 0.0)(image)).min() == 200
    with pytest.raises(GraphTypeError):
        vision.RandomPerspective()(np.asarray(image))


def test_the_encoded_image_of_a_crop_is_decoded() -> None:
    import io

    file = io.BytesIO()
    Image.fromarray(PIXELS).save(file, "PNG")
    data = np.frombuffer(file.getvalue(), np.uint8)
    graphls.set_seed(3)
    found = vision.RandomCropDecodeResize(10)(data)
    graphls.set_seed(3)
    np.testing.assert_array_equal(found, vision.RandomResizedCrop(10)(PIXELS))
    with pytest.raises(GraphTypeError):
        vision.RandomCropDecodeResize(10)(PIXELS)


@pytest.mark.parametrize("padding", [3, (12, 9, 2, 0), 30])
def test_a_crop_over_the_border_is_one_of_the_padded_image(padding: Any) -> None:
    for seed in range(30):
        for fill in (0, (7, 8, 9)):
            graphls.set_seed(seed)
            found = vision.RandomCrop((4, 5), padding, fill_value=fill)(PIXELS)
            graphls.set_seed(seed)
            np.testing.assert_array_equal(found, vision.RandomCrop((4, 5))(vision.Pad(padding, fill)(PIXELS)))
