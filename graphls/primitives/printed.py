"""Text of arrays in the format of MindSpore's printed graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graphls.ir.types import DType, type_of

Array = np.ndarray[Any, Any]

FULL_ROW, FULL_AXIS, EDGE = 1000, 6, 3
"""The largest size of a vector, and of an axis of other arrays, that is shown in full; else EDGE from each end."""

PER_LINE = {"int": 24, "uint": 24}
"""The number of elements of a vector on a line; of other dtypes 12."""


def show_printed(parts: Sequence[str | None], arrays: Iterable[Array]) -> None:
    """Print texts and, in place of each None, the next array, each on its own lines."""
    values = iter(arrays)
    print("\n".join(printed(next(values)) if part is None else part for part in parts), flush=True)


def printed(array: Array) -> str:
    """The text of an array with its shape and dtype; of an array without axes, the number only."""
    kind = type_of(array)
    if not kind.rank:
        return number_text(float(array) if kind.dtype.is_float or kind.dtype.is_low else int(array))
    head = f"Tensor(shape={list(kind.shape)}, dtype={_name(kind.dtype)}, value="
    text = _element(array)
    if not kind.size:
        return f"{head}{array.tolist()})"
    if kind.rank == 1:
        return f"{head}[{_row(array, text, PER_LINE.get(kind.dtype.kind, 12))}])"
    return f"{head}\n{_block(array, text, 0)})"


def _name(dtype: DType) -> str:
    return repr(dtype).replace("Uint", "UInt").replace("Bfloat", "BFloat")


def number_text(value: float) -> str:
    """The text of a single number or bool."""
    return f"{value:g}" if isinstance(value, float) else str(int(value))


def _element(array: Array) -> Callable[[Any], str]:
    """A formatter of elements with a common width."""
    kind = type_of(array).dtype
    if kind.is_float or kind.is_low:
        return (lambda x: f"{float(x):11.4e}") if kind.is_half or kind.is_low else (lambda x: f"{float(x):15.8e}")
    if kind.kind == "bool":
        return lambda x: f"{bool(x)!s:>5}"
    width = max((len(str(int(x))) for x in _shown(array).reshape(-1)), default=1)
    return lambda x: f"{int(x):{width}}"


def _shown(array: Array) -> Array:
    """The elements that the text shows."""
    for axis in range(array.ndim):
        before, after = _edges(array.shape[axis], array.ndim)
        array = np.take(array, [*before, *after], axis) if after else array
    return array


def _edges(size: int, rank: int) -> tuple[range, range]:
    """The shown indices of an axis, before and after the dots."""
    if size <= (FULL_ROW if rank == 1 else FULL_AXIS):
        return range(size), range(0)
    return range(EDGE), range(size - EDGE, size)


def _row(array: Array, text: Callable[[Any], str], line: int) -> str:
    before, after = _edges(len(array), 1)
    if after:
        return f"{_joined(array, before, text)} ... {_joined(array, after, text)}"
    words = []
    for i in before:
        end = "" if i == len(array) - 1 else " "
        words.append(text(array[i]) + end + ("\n " if (i + 1) % line == 0 else ""))
    return "".join(words)


def _joined(array: Array, indices: range, text: Callable[[Any], str]) -> str:
    return " ".join(text(array[i]) for i in indices)


def _block(array: Array, text: Callable[[Any], str], depth: int) -> str:
    before, after = _edges(len(array), 2)
    if array.ndim == 1:
        dots = f" ... {_joined(array, after, text)}" if after else ""
        return f"[{_joined(array, before, text)}{dots}]"

    def parts() -> Iterator[str]:
        yield from (_block(array[i], text, depth + 1) for i in before)
        if after:
            yield "..."
            yield from (_block(array[i], text, depth + 1) for i in after)

    return "[" + ("\n" + " " * (depth + 1)).join(parts()) + "]"
