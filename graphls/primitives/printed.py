"""Arrays as MindSpore's graphs print them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graphls.ir.types import DType, type_of

Array = np.ndarray[Any, Any]

WHOLE_ROW, WHOLE_AXIS, EDGE = 1000, 6, 3
"""Up to how many elements a row alone is shown whole, and an axis of others; else this many from each end."""

A_LINE = {"int": 24, "uint": 24}
"""How many elements of a row alone stand on a line; of other dtypes 12."""


def show_printed(parts: Sequence[str | None], arrays: Iterable[Array]) -> None:
    """Print texts and, in place of each None, the next array, each on lines of its own."""
    values = iter(arrays)
    print("\n".join(printed(next(values)) if part is None else part for part in parts), flush=True)


def printed(array: Array) -> str:
    """An array with its shape and dtype; one without axes is its number alone."""
    kind = type_of(array)
    if not kind.rank:
        return number_text(float(array) if kind.dtype.is_float else int(array))
    head = f"Tensor(shape={list(kind.shape)}, dtype={_name(kind.dtype)}, value="
    text = _element(array)
    if not kind.size:
        return f"{head}{array.tolist()})"
    if kind.rank == 1:
        return f"{head}[{_row(array, text, A_LINE.get(kind.dtype.kind, 12))}])"
    return f"{head}\n{_block(array, text, 0)})"


def _name(dtype: DType) -> str:
    return repr(dtype).replace("Uint", "UInt").replace("Bfloat", "BFloat")


def number_text(value: float) -> str:
    """A number alone; a bool is one as well."""
    return f"{value:g}" if isinstance(value, float) else str(int(value))


def _element(array: Array) -> Callable[[Any], str]:
    """What writes an element in the width that all have."""
    kind = type_of(array).dtype
    if kind.is_float:
        return (lambda x: f"{float(x):11.4e}") if kind.is_half else (lambda x: f"{float(x):15.8e}")
    if kind.kind == "bool":
        return lambda x: f"{bool(x)!s:>5}"
    width = max((len(str(int(x))) for x in _shown(array).reshape(-1)), default=1)
    return lambda x: f"{int(x):{width}}"


def _shown(array: Array) -> Array:
    """The elements that are shown."""
    for axis in range(array.ndim):
        before, after = _edges(array.shape[axis], array.ndim)
        array = np.take(array, [*before, *after], axis) if after else array
    return array


def _edges(size: int, rank: int) -> tuple[range, range]:
    """The indices that are shown of an axis, before and behind the dots."""
    if size <= (WHOLE_ROW if rank == 1 else WHOLE_AXIS):
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
