"""Operations on images and their boxes: those of MindSpore 2.10, and that boxes stay around their pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphls
import graphls.dataset as ds
from graphls.dataset import vision
from graphls.dataset.vision.boxes import WithBoxes, cropped

F32 = np.float32
BOXES = np.array([[1, 2, 3, 4], [6, 5, 4, 3], [0, 0, 2, 2]], F32)
OPERATIONS: list[WithBoxes] = [
    vision.RandomCropWithBBox((7, 8), padding=[1, 2, 0, 3]),
    vision.RandomCropWithBBox((14, 16), pad_if_needed=True),
    vision.RandomCropWithBBox((9, 9), padding=[1, 2, 0, 3], padding_mode=vision.Border.EDGE),
    vision.RandomResizedCropWithBBox((20, 24), (0.3, 0.6), (1, 1), vision.Inter.NEAREST),
    vision.RandomHorizontalFlipWithBBox(1.0),
    vision.RandomVerticalFlipWithBBox(1.0),
    vision.ResizeWithBBox((20, 24), vision.Inter.NEAREST),
]


def places(height: int, width: int) -> Any:
    """An image whose pixels tell their row and column, from 1."""
    rows, columns = np.mgrid[1 : height + 1, 1 : width + 1]
    return np.stack([rows, columns, rows * 0], 2).astype(np.uint8)


# Crops of MindSpore 2.10, at the place that its pixels told: the boxes before, top, left, size, and the boxes after.
CROPS: list[Any] = [
    ([[11, 9, 2, 1], [9, 10, 2, 1], [13, 16, 1, 2]], 2, 2, (14, 11), [[9, 7, 2, 1], [7, 8, 2, 1], [11, 14, 0, 0]]),
    ([[9, 1, 2, 3], [7, 7, 5, 6], [8, 0, 5, 4], [2, 7, 1, 1]], 11, 3, (3, 6), [[4, 0, 2, 2]]),
    ([[1, 2, 4, 1], [7, 1, 1, 2], [7, 1, 4, 3], [3, 5, 2, 3]], 4, 7, (4, 5), [[0, 0, 4, 0]]),
    ([[8, 5, 4, 1], [2, 11, 6, 4], [1, 0, 6, 3]], 1, 8, (12, 6), [[0, 4, 4, 1], [0, 10, 0, 2]]),
    ([[6, 1, 5, 1], [12, 6, 1, 3], [4, 0, 3, 4]], 10, 1, (3, 12), np.zeros((0, 4))),
]


@pytest.mark.parametrize(("boxes", "top", "left", "size", "expected"), CROPS)
def test_boxes_of_parts(boxes: Any, top: int, left: int, size: tuple[int, int], expected: Any) -> None:
    np.testing.assert_array_equal(cropped(np.array(boxes, F32), top, left, size), np.array(expected, F32))


def test_resized_and_flipped_boxes_are_those_of_mindspore() -> None:
    image = places(10, 12)
    _, smaller = vision.ResizeWithBBox((5, 6))(image, BOXES)
    np.testing.assert_array_equal(smaller, [[0.5, 1, 1.5, 2], [3, 2.5, 2, 1.5], [0, 0, 1, 1]])
    result, larger = vision.ResizeWithBBox(20)(image, BOXES)
    assert result.shape == (20, 24, 3)
    np.testing.assert_array_equal(larger, BOXES * 2)
    np.testing.assert_array_equal(vision.RandomResizeWithBBox((5, 6))(image, BOXES)[1], smaller)
    result, flipped = vision.RandomHorizontalFlipWithBBox(1.0)(image, np.array([[1, 1, 2, 2, 9, 8]], F32))
    np.testing.assert_array_equal(flipped, [[9, 1, 2, 2, 9, 8]])
    np.testing.assert_array_equal(result, image[:, ::-1])
    same, boxes = vision.RandomVerticalFlipWithBBox(0.0)(image, BOXES)
    np.testing.assert_array_equal(same, image)
    np.testing.assert_array_equal(boxes, BOXES)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: type(operation).__name__)
def test_boxes_stay_around_their_pixels(operation: WithBoxes) -> None:
    """A box after the operation holds exactly those pixels of the result that were in the box before."""
    image, before = places(10, 12), BOXES.copy()
    for seed in range(8):
        graphls.set_seed(seed)
        for number in range(len(BOXES)):
            left, top, width, height = BOXES[number].astype(int)
            marked = image.copy()
            marked[top : top + height, left : left + width, 2] = 200
            graphls.set_seed(seed)
            result, boxes = operation(marked, BOXES[number : number + 1])
            expected = np.zeros(result.shape[:2], bool)
            for x, y, across, down in np.rint(boxes).astype(int):
                expected[y : y + down, x : x + across] = True
            if operation.__class__ is not vision.RandomResizedCropWithBBox and "EDGE" not in str(vars(operation)):
                np.testing.assert_array_equal(result[..., 2] == 200, expected)
            else:  # the border repeats pixels, and sides of parts are not whole numbers
                assert (result[..., 2] == 200)[expected].mean() > 0.8 if expected.any() else True
    np.testing.assert_array_equal(BOXES, before)


def test_the_image_is_that_of_the_operation_without_boxes() -> None:
    image = places(10, 12)
    for with_boxes, alone in [
        (vision.RandomCropWithBBox((4, 5), 2), vision.RandomCrop((4, 5), 2)),
        (vision.RandomResizedCropWithBBox((4, 5)), vision.RandomResizedCrop((4, 5))),
        (vision.RandomResizeWithBBox(7), vision.RandomResize(7)),
    ]:
        graphls.set_seed(3)
        expected = alone(image)
        graphls.set_seed(3)
        np.testing.assert_array_equal(with_boxes(image, BOXES)[0], expected)


def test_an_operation_in_some_of_the_boxes() -> None:
    image = places(10, 12)
    changed, boxes = vision.BoundingBoxAugment(vision.Invert(), 0.7)(image, BOXES)
    np.testing.assert_array_equal(boxes, BOXES)
    inside = [changed[int(y) : int(y + h), int(x) : int(x + w)] for x, y, w, h in BOXES]
    parts = [image[int(y) : int(y + h), int(x) : int(x + w)] for x, y, w, h in BOXES]
    inverted = [np.array_equal(new, 255 - old) for new, old in zip(inside, parts, strict=True)]
    assert sum(inverted) == 2 and (changed != image).any(2).sum() == sum(
        part.shape[0] * part.shape[1] for part, is_changed in zip(parts, inverted, strict=True) if is_changed
    )
    resized, _ = vision.BoundingBoxAugment(vision.Resize((3, 3)), 1.0)(image, BOXES)
    assert resized.shape == image.shape
    for wrong in ((abs, 0.5), (vision.Invert(), "x")):
        with pytest.raises(TypeError):
            vision.BoundingBoxAugment(*wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="ratio"):
        vision.BoundingBoxAugment(vision.Invert(), 1.5)


@pytest.mark.parametrize(
    "boxes",
    [BOXES[:, :3], BOXES[0], BOXES.astype(np.int32), BOXES.astype(np.float64), BOXES + 10, -BOXES],
)
def test_boxes_that_are_none_are_errors(boxes: Any) -> None:
    with pytest.raises(RuntimeError, match="boxes"):
        vision.RandomHorizontalFlipWithBBox(1.0)(places(10, 12), boxes)


def test_rows_of_a_pipeline() -> None:
    with pytest.raises(TypeError, match="an image and its boxes, not 1 columns"):
        vision.ResizeWithBBox(3)(places(10, 12))
    rows = ds.GeneratorDataset([(places(8, 8), np.array([[0, 0, 2, 2]], F32))], ["image", "bbox"])
    resized = rows.map(vision.ResizeWithBBox(4), ["image", "bbox"])
    assert [[column.shape for column in row] for row in resized] == [[(4, 4, 3), (1, 4)]]
