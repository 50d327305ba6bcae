"""Images against what MindSpore 2.10 gives.

`measured.json` has its results for the images of `image`, and `bits.json` digests of those for images of `noise`.
"""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from graphls.dataset import vision

BITS = json.loads((Path(__file__).parent / "bits.json").read_text(encoding="utf-8"))
OF_OPENCV_5 = ("AdjustHue(0.3) | color", "AdjustSaturation", "ConvertColor(ConvertMode.COLOR_RGB2GRAY) | float")
CASES = json.loads((Path(__file__).parent / "measured.json").read_text(encoding="utf-8"))
NAMES = {name: getattr(vision, name) for name in vision.__all__}


def image(kind: str) -> Any:
    pixels = (np.arange(90) * 37 % 256).astype(np.uint8).reshape(5, 6, 3)
    kinds = {
        "color": pixels, "gray": pixels[:, :, 0].copy(), "float": (pixels / np.float32(255)).astype(np.float32),
        "pil": Image.fromarray(pixels), "pil gray": Image.fromarray(pixels[:, :, 0].copy()),
        "wide": pixels.astype(np.uint16) * 200,
    }  # fmt: skip
    return kinds[kind]


def compare(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert isinstance(found, tuple)
        for one, other in zip(found, expected, strict=True):
            compare(one, other)
        return
    array = np.asarray(found)
    assert getattr(found, "mode", None) == expected["mode"]
    assert (str(array.dtype), list(array.shape)) == (expected["dtype"], expected["shape"])
    wanted = np.array(expected["values"], np.float64)
    limit = 0 if array.dtype.kind in "iu" else 3e-6 * max(1, abs(wanted).max())
    np.testing.assert_allclose(array.reshape(-1).astype(np.float64), wanted, rtol=0, atol=limit)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['operation']} {case['image']}")
def test_as_measured(case: dict[str, Any]) -> None:
    operation = eval(case["operation"], NAMES)
    given = image(case["image"])
    compare(operation(given), case["result"])
    np.testing.assert_array_equal(np.asarray(given), np.asarray(image(case["image"])))


def noise(kind: str) -> Any:
    numbers = np.arange(75 * 100 * 3, dtype=np.int64)
    pixels = ((numbers * numbers * 7919 + numbers * 104729 >> 3) % 256).astype(np.uint8).reshape(75, 100, 3)
    kinds = {"color": pixels, "gray": pixels[:, :, 0].copy(), "float": (pixels / np.float32(255)).astype(np.float32)}
    return kinds[kind]


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="other processors round otherwise")
@pytest.mark.parametrize("case", BITS)
def test_the_same_bits(case: str) -> None:
    if case.startswith(OF_OPENCV_5) and int(cv2.__version__.split(".")[0]) < 5:
        pytest.skip("OpenCV 4 computes other grays of floats and hues than that of MindSpore")
    operation, kind = case.split(" | ")
    result = np.ascontiguousarray(eval(operation, NAMES)(noise(kind)))
    described = f"{result.dtype} {result.shape} ".encode() + result.tobytes()
    assert hashlib.sha256(described).hexdigest()[:16] == BITS[case]
