"""Functions of `mindspore.numpy` that NumPy computes at once: of settings alone, or of a size that the numbers decide.

They take numbers that are there, so nothing that a graph computes, and have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphls.base.reporting import guarded
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.types import as_dtype

_NAMES = """
bartlett bincount blackman diag_indices digitize geomspace hamming hanning histogram histogram2d histogram_bin_edges
histogramdd indices intersect1d ix_ logspace setdiff1d tri tril_indices tril_indices_from triu_indices triu_indices_from
unique unravel_index vander
"""
NAMES = _NAMES.split()
"""Functions that NumPy computes."""
NARROW = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.int64): np.dtype(np.int32)}
"""What NumPy makes by default, and what MindSpore makes in its place."""


def by_numpy(name: str) -> Callable[..., Any]:
    """A function of NumPy that takes and gives tensors, of 32 bits where none of 64 went in."""
    function = getattr(np, name)

    def computed(*arguments: Any, **options: Any) -> Any:
        dtype = options.pop("dtype", None)
        tensors = [each for each in (*arguments, *options.values()) if isinstance(each, Tensor)]
        narrow = not any(each.dtype.numpy in NARROW for each in tensors)
        result = function(*map(_array, arguments), **{option: _array(value) for option, value in options.items()})
        return _tensors(result, lambda array: _in_dtype(array, dtype, narrow))

    computed.__name__ = name
    computed.__doc__ = f"What `numpy.{name}` gives, as tensors."
    return guarded(computed)


def _array(item: Any) -> Any:
    """A tensor as an array, also in lists and tuples."""
    if isinstance(item, (list, tuple)):
        return type(item)(map(_array, item))
    return item.asnumpy() if isinstance(item, Tensor) else item


def _in_dtype(array: Any, dtype: Any, narrow: bool) -> Any:
    wanted = as_dtype(dtype).numpy if dtype is not None else NARROW.get(array.dtype) if narrow else None
    return array if wanted is None else array.astype(wanted)


def _tensors(result: Any, cast: Callable[[Any], Any]) -> Any:
    if isinstance(result, (list, tuple)):
        return tuple(_tensors(each, cast) for each in result)
    return Tensor(cast(np.asarray(result)))
