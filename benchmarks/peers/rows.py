"""The rows of the table: networks, batches and initial values, with the same numbers in every framework."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Row:
    """A network, its batch and its optimizer.

    There is a function of that `name`, which takes `sizes`, among the networks of every framework. `shape` is that
    of the inputs, which are words below `words` where that is not 0, and standard normal numbers elsewhere. There are
    `labels` labels, one for each row of scores.
    """

    name: str
    shape: tuple[int, ...]
    labels: int
    classes: int
    sizes: Mapping[str, int] = field(default_factory=dict)
    words: int = 0
    optimizer: str = "momentum"
    rate: float = 1e-3
    images: bool = False

    def batch(self, draw: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Inputs in float32, or words in int32, and labels in int32; other ones for each `draw`."""
        generator = np.random.default_rng(draw)
        labels = generator.integers(0, self.classes, self.labels).astype(np.int32)
        if self.words:
            return generator.integers(0, self.words, self.shape).astype(np.int32), labels
        return generator.standard_normal(self.shape, np.float32), labels


def first_value(name: str, shape: tuple[int, ...], draw: int = 0) -> np.ndarray:
    """The value with which a parameter of that name, as graphls names it, begins; float32, another for each `draw`.

    Scales of normalisations are ones. Everything else is normal: weights by the numbers that they join (He et al.,
    2015), embeddings and biases with a deviation of 0.02.
    """
    if name.endswith("gamma"):
        return np.ones(shape, np.float32)
    generator = np.random.default_rng(zlib.crc32(name.encode(), draw))
    joined = int(np.prod(shape[1:])) if len(shape) > 1 and "embedding" not in name else 0
    return generator.standard_normal(shape, np.float32) * np.float32((1 / joined) ** 0.5 if joined else 0.02)


def _images(name: str, shape: tuple[int, ...], classes: int, rate: float, **sizes: int) -> Row:
    return Row(name, shape, shape[0], classes, {"classes": classes, **sizes}, rate=rate, images=True)


def _words(name: str, shape: tuple[int, int], vocabulary: int, optimizer: str, **sizes: int) -> Row:
    sizes = {"vocabulary": vocabulary, "length": shape[1], **sizes}
    rate = 1e-4 if optimizer == "adam" else 1e-3
    return Row(name, shape, shape[0] * shape[1], vocabulary, sizes, vocabulary, optimizer, rate)


def _pixels(name: str, shape: tuple[int, int, int, int], classes: int, rate: float, **sizes: int) -> Row:
    sizes = {"inputs": shape[1], "classes": classes, **sizes}
    return Row(name, shape, shape[0] * shape[2] * shape[3], classes, sizes, rate=rate, images=True)


def _bags(name: str, shape: tuple[int, int, int], vocabulary: int, classes: int, **sizes: int) -> Row:
    sizes = {"tables": shape[1], "vocabulary": vocabulary, "classes": classes, **sizes}
    return Row(name, shape, shape[0], classes, sizes, vocabulary, "adam", 1e-3)


def _sequences(name: str, shape: tuple[int, int, int], classes: int, **sizes: int) -> Row:
    sizes = {"inputs": shape[-1], "classes": classes, **sizes}
    return Row(name, shape, shape[0], classes, sizes, optimizer="adam", rate=1e-4)


def _rows(*rows: Row) -> dict[str, Row]:
    return {row.name: row for row in rows}


ROWS = _rows(
    Row("mlp", (64, 784), 64, 10, {"inputs": 784, "hidden": 1024, "classes": 10}),
    _images("lenet", (32, 1, 32, 32), 10, 1e-3),
    _images("resnet18", (16, 3, 32, 32), 10, 1e-4, width=64),
    _images("resnet50", (4, 3, 160, 160), 1000, 1e-7, width=64),
    _words("transformer", (8, 128), 1000, "momentum", width=256, heads=8, layers=4),
    _words("gpt", (1, 256), 8192, "adam", width=768, heads=12, layers=12),
    _sequences("lstm", (32, 64, 256), 10, width=256, layers=2),
    _images("mobilenet", (16, 3, 64, 64), 10, 1e-4, width=16),
    _pixels("unet", (8, 1, 64, 64), 4, 1e-3, width=16),
    _bags("embeddings", (256, 4, 8), 20_000, 10, width=64, hidden=128),
    _sequences("gru_attention", (32, 64, 256), 10, width=256),
)

QUICK_ROWS = _rows(
    Row("mlp", (4, 12), 4, 5, {"inputs": 12, "hidden": 8, "classes": 5}),
    _images("lenet", (2, 1, 32, 32), 10, 1e-3),
    _images("resnet18", (4, 3, 16, 16), 5, 1e-4, width=4),
    _images("resnet50", (4, 3, 64, 64), 5, 1e-7, width=4),
    _words("transformer", (2, 6), 11, "momentum", width=8, heads=2, layers=2),
    _words("gpt", (1, 6), 11, "adam", width=8, heads=2, layers=2),
    _sequences("lstm", (2, 5, 4), 3, width=6, layers=2),
    _images("mobilenet", (4, 3, 16, 16), 5, 1e-4, width=4),
    _pixels("unet", (2, 1, 8, 8), 3, 1e-3, width=4),
    _bags("embeddings", (4, 3, 2), 11, 5, width=4, hidden=6),
    _sequences("gru_attention", (2, 5, 4), 3, width=6),
)
"""The same networks in sizes that take milliseconds."""
