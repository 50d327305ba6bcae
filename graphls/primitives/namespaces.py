"""The array namespaces in which NumPy rules compute: NumPy itself, or that of another library's arrays.

A rule that calls `namespace(x).exp(x)` in place of `np.exp(x)` is also the rule for arrays that follow the Python array
API standard (data-apis.org, 2022, `__array_namespace__`), such as those that JAX traces into a program of XLA.
Operators and methods of arrays need no namespace, and what is computed from attributes alone stays with NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

IN_BOUNDS = "promise_in_bounds"
"""How JAX takes indices: engines test them, and XLA reads and writes within its arrays in any case."""


def namespace(*arrays: Any) -> Any:
    """NumPy, or the module that has its functions for the first array of another library.

    A rule `numpy` that calls `namespace(x).exp(x)` in place of `np.exp(x)` also runs on arrays that JAX traces into a
    program of XLA; the class then says `is_traceable = True`.

    Examples:
        >>> import numpy as np
        >>> from graphls.primitives import namespace
        >>> x = np.float32([0, 1])
        >>> namespace(x) is np, namespace(x).where(x > 0, x, 5)
        (True, array([5., 1.], dtype=float32))
    """
    for array in arrays:
        if not isinstance(array, (np.ndarray, np.generic)) and hasattr(array, "__array_namespace__"):
            return array.__array_namespace__()
    return np


def is_half(array: Any) -> bool:
    """Whether the elements are 16-bit floats."""
    return array.dtype.name in ("float16", "bfloat16")


def without_halves(array: Any) -> Any:
    """The array, in float32 where its elements are 16-bit floats."""
    return array.astype(np.float32) if is_half(array) else array


def combined_at(array: Any, places: tuple[Any, ...], values: Any, ufunc: np.ufunc) -> Any:
    """The array with values combined into its elements at places, which may repeat, as `ufunc.at` combines them.

    `ufunc` is one of `np.add`, `np.multiply`, `np.maximum` and `np.minimum`, and `np.add` for bools, of which a sum is
    whether any is true; an array of NumPy changes in place.
    """
    if namespace(array, values, *places) is np:
        ufunc.at(array, places, values)
        return array
    xp = namespace(array, values, *places)
    method = "max" if array.dtype == bool else _METHODS[ufunc]
    return getattr(xp.asarray(array).at[places], method)(values, mode=IN_BOUNDS)


_METHODS: dict[Any, str] = {np.add: "add", np.multiply: "multiply", np.maximum: "max", np.minimum: "min"}
