"""The random Hadamard transform of an axis of any size, as nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.registry import lookup
from graphls.primitives.hadamard import SIZE


def transformed(e: Builder, x: Value, axis: int) -> Value:
    """x with each 16 numbers along an axis transformed; those behind the last 16 stay as they are."""
    size = x.shape[axis]
    end = size - size % SIZE
    if not end:
        return x
    head = _part(e, x, axis, 0, end) if size % SIZE else x
    y = e.hadamard_transform(head, axis=axis)
    return e.concat(y, _part(e, x, axis, end, size), axis=axis) if size % SIZE else y  # type: ignore[no-any-return]


def restored(y: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """The float64 array of which `transformed` gives y."""
    end = y.shape[axis] - y.shape[axis] % SIZE
    head, rest = np.split(y.astype(np.float64), [end], axis)
    head = lookup("hadamard_transform").numpy(head, axis=axis, is_inverse=True) if end else head  # type: ignore[attr-defined]
    return np.concatenate([head, rest], axis)


def _part(e: Builder, x: Value, axis: int, start: int, stop: int) -> Value:
    """The elements from `start` to before `stop` along an axis."""
    starts, stops = [0] * x.rank, list(x.shape)
    starts[axis], stops[axis] = start, stop
    return e.slice(x, starts=tuple(starts), stops=tuple(stops), steps=(1,) * x.rank)  # type: ignore[no-any-return]
