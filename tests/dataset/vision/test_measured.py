"""Images against what MindSpore 2.10 gives; `measured.json` has its results for the images of `image`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from graphls.dataset import vision

CASES = json.loads((Path(__file__).parent / "measured.json").read_text(encoding="utf-8"))
NAMES = {name: getattr(vision, name) for name in vision.__all__}
OFF_BY_ONE = ("Inter.BICUBIC", "AdjustSharpness", "AdjustHue", "AutoContrast")


def image(kind: str) -> Any:
    pixels = (np.arange(90) * 37 % 256).astype(np.uint8).reshape(5, 6, 3)
    kinds = {
        "color": pixels, "gray": pixels[:, :, 0].copy(), "float": (pixels / np.float32(255)).astype(np.float32),
        "pil": Image.fromarray(pixels), "pil gray": Image.fromarray(pixels[:, :, 0].copy()),
        "wide": pixels.astype(np.uint16) * 200,
    }  # fmt: skip
    return kinds[kind]


def compare(found: Any, expected: Any, rounding: int) -> None:
    if isinstance(expected, list):
        assert isinstance(found, tuple)
        for one, other in zip(found, expected, strict=True):
            compare(one, other, rounding)
        return
    array = np.asarray(found)
    assert getattr(found, "mode", None) == expected["mode"]
    assert (str(array.dtype), list(array.shape)) == (expected["dtype"], expected["shape"])
    wanted = np.array(expected["values"], np.float64)
    limit = rounding if array.dtype.kind in "iu" else 3e-6 * max(1, abs(wanted).max())
    np.testing.assert_allclose(array.reshape(-1).astype(np.float64), wanted, rtol=0, atol=limit)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['operation']} {case['image']}")
def test_as_measured(case: dict[str, Any]) -> None:
    operation = eval(case["operation"], NAMES)
    rounding = 1 if any(name in case["operation"] for name in OFF_BY_ONE) else 0
    given = image(case["image"])
    compare(operation(given), case["result"], rounding)
    np.testing.assert_array_equal(np.asarray(given), np.asarray(image(case["image"])))
