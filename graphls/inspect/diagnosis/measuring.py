"""The figures of a tensor that is rounded to a low dtype, from the arrays of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphls.inspect.diagnosis.rounded import Figures, Window
from graphls.inspect.diagnosis.roundings import Rounding
from graphls.inspect.diagnosis.usual import usual_ratios
from graphls.ir.graph import Value
from graphls.primitives.scaling import Blocks

Array = np.ndarray[Any, Any]

Run = Mapping[Value, Array]
"""The values of one run of a rounding."""

NEAR = np.float32(2.0**-20)
"""The share by which a product with a scale is beyond the largest number because it is rounded itself."""

LARGEST = np.finfo(np.float32).max


class _Arrays(NamedTuple):
    """A tensor in one shape: itself, times its scale, after rounding, and the mean of that; and the scales that matter.

    The mean is that of many stochastic roundings; another rounding is its own mean.
    """

    x: Array
    scaled: Array
    rounded: Array
    mean: Array
    scales: Array


def figures_of(rounding: Rounding, run: Run) -> Figures:
    """The figures of a tensor in one run."""
    operand, format = rounding.maker.inputs[0].type, rounding.maker.output.type.dtype
    block = rounding.block
    count = int(np.prod(operand.shape)) // max(1, int(np.prod(Blocks(operand.shape, block).counts))) if block else None
    usual = usual_ratios(format, *(() if count is None else (count,)), is_stochastic=rounding.is_stochastic)
    return Figures.of(format, *_arrays(rounding, run), usual)


def _arrays(rounding: Rounding, run: Run) -> _Arrays:
    """The arrays; a maker without a scale rounds what is scaled already, and the inverse of the scale tells by what."""
    operand, rounded = run[rounding.maker.inputs[0]], run[rounding.reader.output]
    if rounding.scale is None:
        scaled = _moved(rounding, operand.astype(np.float32))
        return _Arrays(scaled, scaled, rounded, rounded, np.ones(1, np.float32))
    scale = run[rounding.scale].astype(np.float32)
    with np.errstate(all="ignore"):
        if rounding.scaled:
            scale = spread(scale, operand.shape, rounding.block)
            scaled = operand.astype(np.float32) * scale
            moved = _moved(rounding, operand), _moved(rounding, scaled)
            return _Arrays(*moved, rounded, rounded, _used(scale, operand))
        scaled = _moved(rounding, operand.astype(np.float32))
        inverse = spread(scale, scaled.shape, rounding.block)
        x = scaled * inverse
        if rounding.plain is not None:  # where the inverse is 0, the product says nothing of what was scaled
            x = _moved(rounding, run[rounding.plain].astype(np.float32).reshape(operand.shape))
        mean = rounded
        if rounding.is_stochastic:
            most = np.float32(Window.of(rounding.maker.output.type.dtype).largest)
            is_beyond = np.abs(scaled) > most * (1 + NEAR)
            mean = np.where(is_beyond, np.copysign(most, scaled) * inverse, np.where(inverse, x, inverse))
        return _Arrays(x, scaled, rounded, mean, np.minimum(1 / _used(inverse, x), LARGEST))


def _used(scale: Array, x: Array) -> Array:
    """The scales of numbers that are not 0; of zeros alone, all of them. A block of zeros has any scale."""
    used = np.broadcast_to(scale, x.shape)[x != 0]
    return used if used.size else scale


def _moved(rounding: Rounding, array: Array) -> Array:
    """An array of the shape of the maker in that of the reader."""
    for node in rounding.moves:
        primitive: Any = node.primitive
        array = primitive.numpy(array, **node.attrs)
    return array


def spread(scale: Array, shape: Sequence[int], block: Sequence[int]) -> Array:
    """Scales of blocks, repeated so that they broadcast over an array of the shape."""
    for axis, (size, length) in enumerate(zip(block, shape, strict=True)):
        if size > 1 and scale.shape[axis] > 1:
            scale = np.repeat(scale, size, axis)[(slice(None),) * axis + (slice(length),)]
    return scale
