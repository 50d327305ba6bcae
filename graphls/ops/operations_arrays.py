"""Operator classes that move, select, join and draw elements (see `operations`)."""

from __future__ import annotations

from typing import Any

from graphls.ir.errors import GraphValueError
from graphls.ir.types import int32, int64
from graphls.ops import arrangement, movement, random, ranges, selection
from graphls.ops.elementwise import cast
from graphls.ops.record import operator_class


@operator_class("Unpack Unstack", "axis num")
def _unstack(x: Any, axis: int = 0, num: int | None = None) -> Any:
    """The slices along an axis; raises GraphValueError where there are not `num` of them."""
    slices = arrangement.unstack(x, axis)
    if num is not None and num != len(slices):
        raise GraphValueError(f"Unstack finds {len(slices)} slices, not {num}.")
    return slices


@operator_class("Range", "maxlen")
def _range(start: Any, limit: Any, delta: Any, maxlen: int = 1000000) -> Any:
    """The numbers from `start` up to `limit`; raises GraphValueError for more than `maxlen`."""
    numbers = ranges.range(start, limit, delta)
    if numbers.size > maxlen:
        raise GraphValueError(f"Range has {numbers.size} numbers, more than its maxlen of {maxlen}.")
    return numbers


@operator_class("Meshgrid", "indexing", like=arrangement.meshgrid)
def _meshgrid(inputs: Any, indexing: str = "xy") -> Any:
    return arrangement.meshgrid(*inputs, indexing=indexing)


@operator_class("Roll", "shift axis", like=movement.roll)
def _roll(x: Any, shift: Any, axis: Any) -> Any:
    return movement.roll(x, shift, axis)


@operator_class("SearchSorted", "dtype right", like=selection.searchsorted)
def _search_sorted(sorted_sequence: Any, values: Any, dtype: Any = int64, right: bool = False) -> Any:
    return cast(selection.searchsorted(sorted_sequence, values, right=right), dtype)


def _seed(seed: int, seed2: int) -> int | None:
    """Two seeds as one; none where both are 0."""
    return (seed * 2**32 + seed2) or None


@operator_class("StandardNormal", "seed seed2", like=random.standard_normal)
def _standard_normal(shape: Any, seed: int = 0, seed2: int = 0) -> Any:
    return random.standard_normal(shape, _seed(seed, seed2))


@operator_class("UniformReal", "seed seed2", like=random.rand)
def _uniform_real(shape: Any, seed: int = 0, seed2: int = 0) -> Any:
    return random.rand(shape, seed=_seed(seed, seed2))


@operator_class("UniformInt", "seed seed2", like=random.randint)
def _uniform_int(shape: Any, minval: Any, maxval: Any, seed: int = 0, seed2: int = 0) -> Any:
    return random.randint(int(minval), int(maxval), shape, _seed(seed, seed2), dtype=int32)


@operator_class("Multinomial", "seed seed2 dtype", like=random.multinomial)
def _multinomial(x: Any, num_samples: int, seed: int = 0, seed2: int = 0, dtype: Any = int32) -> Any:
    return cast(random.multinomial(x, num_samples, seed=_seed(seed, seed2)), dtype)
