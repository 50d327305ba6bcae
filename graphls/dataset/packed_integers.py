"""Integers in as few bytes as each needs, as MindRecord files keep arrays of them.

They are: how many (uint32, big endian), the power of two of each size (four in a byte), then they themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SIZES = (1, 2, 4, 8)


def compressed(values: Array) -> bytes:
    """The integers of an array in its order."""
    flat = values.reshape(-1).astype(np.int64)
    padded = np.zeros(-(-flat.size // 4) * 4, np.uint8)
    for size in _SIZES[:-1]:
        padded[: flat.size] += (flat < -(1 << 8 * size - 1)) | (flat >= 1 << 8 * size - 1)
    quads = padded.reshape(-1, 4) << np.array([6, 4, 2, 0], np.uint8)
    bytes_of = flat.astype("<i8").view(np.uint8).reshape(-1, 8)
    is_kept = np.arange(8) < (1 << padded[: flat.size, None])
    parts = flat.size.to_bytes(4, "big"), quads.sum(1).astype(np.uint8).tobytes(), bytes_of[is_kept].tobytes()
    return b"".join(parts)


def decompressed(content: bytes, dtype: np.dtype[Any]) -> Array:
    """The integers of these bytes; raises ValueError where the bytes are more or fewer."""
    count = int.from_bytes(content[:4], "big")
    start = 4 + (count + 3) // 4
    if start > len(content):
        raise ValueError(f"{count} integers in {len(content)} bytes")
    codes = np.frombuffer(content[4:start], np.uint8)[:, None] >> np.array([6, 4, 2, 0], np.uint8) & 3
    sizes = 1 << codes.reshape(-1)[:count].astype(np.int64)
    places = start + np.cumsum(sizes) - sizes
    if start + sizes.sum() != len(content) or sizes.max(initial=0) > dtype.itemsize:
        raise ValueError(f"{count} integers in {len(content)} bytes")
    values, data = np.zeros(count, dtype), np.frombuffer(content, np.uint8)
    for size in _SIZES:
        found = np.flatnonzero(sizes == size)
        values[found] = data[places[found, None] + np.arange(size)].view(f"<i{size}").reshape(-1)
    return values
