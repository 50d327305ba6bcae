"""Models of scikit-learn in graphls, which has no gradients of its own to compare with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx

import graphls.onnx
from tests.onnx.doubling import doubled

FOLDER = Path(__file__).parent / "files" / "sklearn"
X = np.random.default_rng(1).normal(size=(7, 5)).astype(np.float32)


def scores(name: str, is_double: bool = False) -> Any:
    """The network that gives probabilities, or the value of a regression."""
    model = onnx.load(FOLDER / f"{name}.onnx")
    output = model.graph.output[-1].name
    return graphls.onnx.load(doubled(model) if is_double else model, outputs=[output])
