"""`ROIAlign` against the formula in float64, ONNX's reference and what MindSpore 2.10 gave."""

from __future__ import annotations

from math import floor
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import graphls
from graphls import ops
from tests.ops.agree import agree

FEATURES = (np.arange(40).reshape(2, 1, 4, 5) ** 1.5 % 7).astype(np.float32)
REGIONS = np.array(
    [[0, 1.3, 0.7, 6.2, 5.9], [1, -3, -2, 20, 20], [0, 3, 3, 3, 3], [1, 4, 5, 2, 1]], np.float32
)
SETTINGS = [(2, 3, 0.5, 2, 1), (2, 3, 0.5, 2, 0), (1, 1, 1.0, 3, 1), (3, 2, 0.25, 1, 0)]


def between(image: Any, y: float, x: float) -> Any:
    """Channels of an image (C, H, W) at a point, by the four around it; 0 more than one pixel outside."""
    sizes = image.shape[1:]
    if not (-1 <= y <= sizes[0] and -1 <= x <= sizes[1]):
        return 0.0
    (y, x) = (min(max(place, 0.0), size - 1.0) for place, size in zip((y, x), sizes, strict=True))
    low = floor(y), floor(x)
    total = 0.0
    for i, share_y in ((low[0], 1 - (y - low[0])), (min(low[0] + 1, sizes[0] - 1), y - low[0])):
        for j, share_x in ((low[1], 1 - (x - low[1])), (min(low[1] + 1, sizes[1] - 1), x - low[1])):
            total = total + share_y * share_x * image[:, i, j]
    return total


def aligned(features: Any, regions: Any, height: int, width: int, scale: float, samples: int, mode: int) -> Any:
    features, regions = features.astype(np.float64), regions.astype(np.float64)
    found = np.zeros((len(regions), features.shape[1], height, width))
    for k, (image, x0, y0, x1, y1) in enumerate(regions):
        x0, y0, x1, y1 = x0 * scale, y0 * scale, (x1 + mode) * scale, (y1 + mode) * scale
        bins = ((y1 - y0) / height, (x1 - x0) / width) if mode else (max(y1 - y0, 1) / height, max(x1 - x0, 1) / width)
        for i, j in np.ndindex(height, width):
            for row, column in np.ndindex(samples, samples):
                y = y0 + bins[0] * (i + (row + 0.5) / samples)
                x = x0 + bins[1] * (j + (column + 0.5) / samples)
                found[k, :, i, j] += between(features[int(image)], y, x) / samples**2
    return found


@pytest.mark.parametrize("settings", SETTINGS)
def test_formula(settings: Any) -> None:
    features = np.concatenate([FEATURES, 10 - FEATURES**2], 1)
    agree(ops.ROIAlign(*settings), aligned(features, REGIONS, *settings), features, REGIONS, rtol=1e-4, atol=1e-4)


def test_mindspore() -> None:
    found = ops.ROIAlign(2, 3, 0.5)(FEATURES, REGIONS).asnumpy()
    expected = [
        [[1.8237049579620361, 4.236979961395264, 3.3668010234832764],
         [1.486358642578125, 2.9626963138580322, 5.442211627960205]],
        [[4.428728103637695, 2.0475165843963623, 0.0], [0.0, 0.0, 0.0]],
        [[3.8788957595825195, 4.64768123626709, 5.416467189788818],
         [4.259570598602295, 5.080982208251953, 5.9023942947387695]],
        [[5.050525188446045, 5.019705772399902, 4.988885879516602],
         [2.724989891052246, 3.2903237342834473, 3.855658531188965]],
    ]  # fmt: skip
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-6)


def test_onnx() -> None:
    """Its reference has the older half of the modes."""
    attributes = {"output_height": 2, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5}
    node = helper.make_node("RoiAlign", ["x", "boxes", "numbers"], ["y"],
                            coordinate_transformation_mode="output_half_pixel", **attributes)  # fmt: skip
    kinds = {"x": TensorProto.FLOAT, "boxes": TensorProto.FLOAT, "numbers": TensorProto.INT64}
    inputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(helper.make_graph([node], "roi", inputs, outputs))
    feeds = {"x": FEATURES, "boxes": REGIONS[:, 1:], "numbers": REGIONS[:, 0].astype(np.int64)}
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    found = ops.ROIAlign(2, 3, 0.5, 2, 0)(FEATURES, REGIONS).asnumpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_gradients() -> None:
    """By the features; the operator is linear in them, and regions have none."""
    weights = np.random.default_rng(2).normal(size=(4, 1, 2, 3)).astype(np.float32)

    def total(x: Any, regions: Any) -> Any:
        return (ops.ROIAlign(2, 3, 0.5)(x, regions) * graphls.Tensor(weights)).sum()

    step = graphls.compile(lambda x, regions: graphls.grad(total, (0, 1))(x, regions), FEATURES, REGIONS)
    by_features, by_regions = (t.asnumpy() for t in step(FEATURES, REGIONS))
    units = np.eye(40).reshape(40, 1, 2, 1, 4, 5)
    expected = [(aligned(unit[0], REGIONS, 2, 3, 0.5, 2, 1) * weights).sum() for unit in units]
    np.testing.assert_allclose(by_features.reshape(-1), expected, rtol=1e-4, atol=1e-5)
    assert not by_regions.any()


def test_16_bit_floats_are_computed_in_float32() -> None:
    found = ops.ROIAlign(2, 3, 0.5)(FEATURES.astype(np.float16), REGIONS)
    assert found.dtype is graphls.float16
    np.testing.assert_allclose(found.asnumpy(), aligned(FEATURES, REGIONS, 2, 3, 0.5, 2, 1), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(
    ("settings", "inputs", "error", "message"),
    [
        ((2, 2, 0.5), (FEATURES[0], REGIONS), ValueError, r"takes features \(N, C, H, W\)"),
        ((2, 2, 0.5), (FEATURES, REGIONS[:, :4]), ValueError, r"regions \(K, 5\)"),
        ((0, 2, 0.5), (FEATURES, REGIONS), ValueError, "pooled_height"),
        ((2, 2, 0.5, 0), (FEATURES, REGIONS), ValueError, "sample_num"),
        ((2, 2, 0.5, 2, 2), (FEATURES, REGIONS), ValueError, "'roi_end_mode' of ROIAlign is 0 or 1"),
        ((2, 2, "a"), (FEATURES, REGIONS), TypeError, "spatial_scale"),
        ((2, 2, 0.5), (FEATURES, REGIONS + 2), IndexError, "out of range"),
    ],
)
def test_wrong_uses(settings: Any, inputs: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        ops.ROIAlign(*settings)(*map(graphls.Tensor, inputs))
    assert isinstance(caught.value, graphls.GraphlsError)
