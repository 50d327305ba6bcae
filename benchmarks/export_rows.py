"""The exported networks, with inputs of any number of rows."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.rows import Row

_WORDS = {"vocabulary": 1000, "length": 32, "width": 128, "heads": 4, "layers": 2}
ROWS = {
    row.name: row
    for row in (
        Row("lenet", (1, 32, 32), 1, 10, {"classes": 10}),
        Row("resnet18", (3, 32, 32), 1, 10, {"classes": 10, "width": 64}),
        Row("mobilenet_v3", (3, 32, 32), 1, 10, {"classes": 10, "width": 16}),
        Row("transformer", (32,), 1, 1000, _WORDS, 1000),
        Row("gpt", (32,), 1, 1000, _WORDS, 1000),
        Row("lstm", (32, 32), 1, 10, {"inputs": 32, "classes": 10, "width": 64, "layers": 2}),
    )
}
"""Their shapes are those of one row."""


def inputs(row: Row, batch: int) -> np.ndarray:
    """Numbers, or words, for so many rows."""
    generator = np.random.default_rng(batch)
    if row.words:
        return generator.integers(0, row.words, (batch, *row.shape)).astype(np.int32)
    return generator.standard_normal((batch, *row.shape), np.float32)
