"""Comparison of two arrays, bit for bit or within a tolerance, with their difference in words."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def same_bits(first: Array, second: Array) -> bool:
    """Whether two arrays have the same dtype, shape and bits; every nan counts as the same.

    Examples:
        >>> import numpy as np
        >>> from graphls.testing import same_bits
        >>> same_bits(np.float32([0.0, np.nan]), np.float32([0.0, np.nan]))
        True
        >>> same_bits(np.float32([0.0]), np.float32([-0.0]))
        False
    """
    return _is_alike(first, second) and not _other_bits(first, second).any()


def differing(first: Array, second: Array, tolerance: float) -> Array:
    """A mask of the elements of two arrays of one dtype and shape that do not agree.

    Floats may differ by `tolerance`, relatively or absolutely; integers and bools, and all without one, have the same
    bits. Every nan counts as the same.
    """
    if not tolerance or first.dtype.kind in "iub":
        return _other_bits(first, second)
    a, b = first.astype(np.float64), second.astype(np.float64)
    return np.asarray(~np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def disagreement(first: Array, second: Array, tolerance: float) -> str:
    """The disagreement of two arrays in words: where it is largest, by how much, and the tolerance; "" if none."""
    if not _is_alike(first, second):
        return f"{first.dtype} of shape {first.shape} before, {second.dtype} of shape {second.shape} after"
    wrong = differing(first, second, tolerance)
    if not wrong.any():
        return ""
    a, b = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(all="ignore"):
        absolute = np.where(wrong, np.nan_to_num(np.abs(a - b), nan=np.inf), -1.0)
        relative = np.nan_to_num(np.abs(a - b) / np.abs(b), nan=np.inf)
    at = np.unravel_index(int(absolute.argmax()), absolute.shape)
    place = f"[{', '.join(map(str, at))}]" if at else "its only element"
    return (
        f"at {place} it is {first[at]} before and {second[at]} after; "
        f"{int(wrong.sum())} of {wrong.size} elements differ, "
        f"by at most {absolute[at]:.3g} (relatively {relative[wrong].max():.3g}), and {_allowed(first, tolerance)}"
    )


def _is_alike(first: Array, second: Array) -> bool:
    return (first.dtype, first.shape) == (second.dtype, second.shape)


def _other_bits(first: Array, second: Array) -> Array:
    """A mask of the elements that have other bits and are not both nan."""
    size = (*first.shape, first.dtype.itemsize)
    a, b = (np.frombuffer(array.tobytes(), np.uint8).reshape(size) for array in (first, second))
    return np.asarray((a != b).any(-1) & ~((first != first) & (second != second)))


def _allowed(array: Array, tolerance: float) -> str:
    if tolerance and array.dtype.kind not in "iub":
        return f"{tolerance:g} is allowed, relatively and absolutely"
    return "every bit must be the same" + (f" for {array.dtype}" if tolerance else "")
