"""Arrays of libraries that are not there: one that hands over its memory, and one that gives an array."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class Handed:
    """An array that has `__dlpack__` only."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class Given:
    """An array that has `__array__` only."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.array


class Elsewhere:
    """An array on a device that NumPy cannot read, such as one of torch."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
