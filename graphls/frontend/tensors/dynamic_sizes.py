"""Dynamic sizes of inputs, and tensors that only declare a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from graphls.base.checks import boolean, not_negative_int, positive_int
from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.types import DType, Type

ANY_RANK = -2
"""The only size of a tensor that declares no rank."""


class OpenSize:
    """A size of inputs that calls decide, as `mindspore.Symbol`, for `Tensor(shape=[size, 3], dtype=float32)`.

    It is at least `min` and, unless that is 0, at most `max`; divided by `divisor` it leaves `remainder`. A `unique`
    one is the same wherever it stands in the inputs of a call. `Cell.set_inputs` holds calls to that. Raises
    GraphTypeError and GraphValueError for bounds that are no such integers.

    Examples:
        >>> import graphls
        >>> from graphls.frontend.tensors.dynamic_sizes import OpenSize
        >>> rows = OpenSize(max=10)
        >>> rows.fits(8), rows.fits(11)
        (True, False)
        >>> graphls.Tensor(shape=[rows, 3], dtype=graphls.float32).shape
        (-1, 3)
    """

    def __init__(
        self, max: int = 0, min: int = 1, divisor: int = 1, remainder: int = 0, unique: bool = False, **options: object,
    ) -> None:  # fmt: skip
        self.max, self.min = not_negative_int("Symbol", "max", max), positive_int("Symbol", "min", min)
        self.divisor = positive_int("Symbol", "divisor", divisor)
        self.remainder = not_negative_int("Symbol", "remainder", remainder)
        self.unique = boolean("Symbol", "unique", unique)
        if remainder >= divisor:
            text = f"For 'Symbol', the 'remainder' is below the 'divisor' {divisor}, and {remainder} is not."
            raise GraphValueError(text)

    def fits(self, size: int) -> bool:
        """Whether a size satisfies the bounds."""
        return self.min <= size <= (self.max or size) and size % self.divisor == self.remainder

    def to_dict(self) -> dict[str, int]:
        """The bounds other than the defaults, and for a unique size its identity."""
        least = {"max": 0, "min": 1, "divisor": 1, "remainder": 0}
        bounds = {name: vars(self)[name] for name, plain in least.items() if vars(self)[name] != plain}
        return bounds | ({"id": id(self)} if self.unique else {})

    def __repr__(self) -> str:
        return f"Symbol({', '.join(f'{name}={value}' for name, value in self.to_dict().items())})"


Size: TypeAlias = "int | OpenSize | None"
"""A size of a tensor; None and -1 are dynamic, too."""


class Declared:
    """The data of a tensor that only declares a shape."""

    def __init__(self, type: Type, sizes: Sequence[Size]) -> None:
        self.type, self.sizes = type, tuple(sizes)

    def numpy(self) -> np.ndarray[Any, Any]:
        """Raise GraphValueError."""
        text = f"This tensor only declares inputs of the shape {self.type.shape} and has no values."
        raise GraphValueError(text)


def known_sizes(shape: object) -> tuple[tuple[Size, ...], tuple[int, ...]]:
    """The sizes of a `shape`, and the same with -1 for dynamic sizes, and (-2,) for any rank.

    Raises GraphTypeError for objects that are not sizes, GraphValueError for negative ones.
    """
    items = (ANY_RANK,) if shape is None else tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)
    sizes = tuple(_size(item) for item in items)
    if min(sizes, default=0) < -1 and sizes != (ANY_RANK,):
        raise GraphValueError(f"The sizes of a tensor are 0 or more, or None for a dynamic size, not {list(items)}.")
    return items, sizes


def _size(item: Any) -> int:
    if item is None or isinstance(item, OpenSize):
        return -1
    if isinstance(item, (bool, float)) or not hasattr(item, "__index__"):
        raise GraphTypeError(f"The shape of a tensor has integers, None and Symbols, and {item!r} is none of these.")
    return int(item.__index__())


def zeros(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """Zeros of a shape; raises GraphValueError for more than any memory holds."""
    try:
        return np.zeros(shape, dtype.numpy)
    except (ValueError, MemoryError):
        raise GraphValueError(f"A tensor of the shape {shape} has more elements than fit into the memory.") from None
