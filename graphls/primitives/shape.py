"""Primitives that move elements: reshape, broadcast, concat and slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from math import prod
from typing import Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Value
from graphls.ir.types import Type, bool_, broadcast_shapes, float32, int32
from graphls.primitives.emitter import Emitter
from graphls.primitives.namespaces import namespace
from graphls.primitives.primitive import Array, Primitive, f32, normalise_axis, of, same_dtype, sample

Shape = tuple[int, ...]

MOST_PARTS = 32
"""The most operands of a Concat while the runtime records a CUDA graph."""


class Reshape(Primitive):
    """The same elements in row-major order in another shape, of which one size may be -1."""

    half = "exact"
    flops_per_element = 0
    is_view = True
    integer_gradient = "whole"
    samples = (
        sample(f32(2, 6), shape=(3, 4)),
        sample(f32(2, 6), shape=(-1, 3)),
        sample(f32(1, 1), shape=()),
        sample(f32(0, 3), shape=(3, 0)),
        sample(of(int32, 4), shape=(2, 1, 2)),
    )

    def infer(self, x: Type, shape: Shape) -> Type:
        return x.with_shape(_completed(x, shape))

    def numpy(self, x: Array, shape: Shape) -> Array:
        return x.reshape(shape)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, shape: Shape) -> Any:
        return e.reshape(g, shape=x.type.shape)

    def onnx(self, e: Emitter, x: str, shape: Shape) -> str:
        return reshaped(e, x, e.out_types[0].shape)


def _completed(x: Type, shape: Shape) -> Shape:
    known = prod(n for n in shape if n != -1)
    if shape.count(-1) == 1 and known and x.size % known == 0:
        shape = tuple(x.size // known if n == -1 else n for n in shape)
    if min(shape, default=0) < 0 or prod(shape) != x.size:
        raise GraphValueError(f"{x} with {x.size} elements cannot have the shape {shape}.")
    return shape


def reshaped(e: Emitter, x: str, shape: Sequence[int]) -> str:
    """The ONNX tensor in another shape, in which a size of 0 is a size."""
    zeros = {"allowzero": 1} if 0 in shape else {}
    return e.Reshape(x, e.ints(shape), **zeros)


SHORT, MANY = 64, 1 << 14
"""The longest rows, and the fewest elements, along which the runtime multiplies by one number a row slowly."""


def has_short_rows(e: Emitter, kind: Type, size: int, elements: int) -> bool:
    """Whether an operand with an axis of size 1 at its end is better repeated along it, to `size` (`repeated_rows`).

    ONNX Runtime on a CPU calls a function for each row: with rows of 16 numbers a product takes 0.47 ns for each, with
    as many numbers in both operands 0.25, and their repetition 0.08.
    """
    is_short = kind.shape[-1:] == (1,) and 1 < size <= SHORT and elements >= MANY <= kind.size * SHORT
    return is_short and e.runs_as_written and kind.dtype is float32


def repeated_rows(e: Emitter, x: str, count: int, size: int) -> str:
    """A tensor of `count` numbers as rows of `size` equal ones, by a product with a row of ones: -0 becomes 0."""
    return e.MatMul(reshaped(e, x, (count, 1)), e.const(np.ones((1, size)), float32))


class BroadcastTo(Primitive):
    """The operand repeated to a wider shape, by NumPy's rules."""

    half = "exact"
    flops_per_element = 0
    moves = True
    integer_gradient = "whole"
    samples = (
        sample(f32(3), shape=(2, 3)),
        sample(f32(2, 1), shape=(4, 2, 3)),
        sample(f32(), shape=(2,)),
        sample(f32(1, 3), shape=(0, 3)),
        sample(of(bool_, 1), shape=(4,)),
    )

    def infer(self, x: Type, shape: Shape) -> Type:
        if min(shape, default=0) < 0 or broadcast_shapes(x.shape, shape) != tuple(shape):
            raise GraphValueError(f"{x} does not broadcast to the shape {shape}.")
        return x.with_shape(shape)

    def numpy(self, x: Array, shape: Shape) -> Any:
        return namespace(x).broadcast_to(x, shape)

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, shape: Shape) -> Any:
        return g

    def onnx(self, e: Emitter, x: str, shape: Shape) -> str:
        return e.Expand(x, e.ints(shape))


class Concat(Primitive):
    """One or more arrays of one dtype joined along an axis; their other sizes are equal."""

    half = "exact"
    flops_per_element = 0
    integer_gradient = "whole"
    samples = (
        sample(f32(2, 3), f32(2, 1), axis=1),
        sample(f32(2, 3), f32(0, 3), f32(4, 3), axis=-2),
        sample(f32(3), axis=0),
        sample(of(int32, 2), of(int32, 3), axis=0),
    )

    def infer(self, *arrays: Type, axis: int) -> Type:
        if not arrays:
            raise GraphTypeError("concat takes one array or more.")
        dtype = same_dtype(self.name, *arrays)
        along = normalise_axis(axis, arrays[0].rank)
        others = {(*t.shape[:along], *t.shape[along + 1 :]) for t in arrays}
        if len(others) > 1 or len({t.rank for t in arrays}) > 1:
            listed = " and ".join(map(str, arrays))
            raise GraphValueError(f"concat cannot join {listed} along axis {axis}: the other sizes differ.")
        shape = list(arrays[0].shape)
        shape[along] = sum(t.shape[along] for t in arrays)
        return Type(dtype, tuple(shape))

    def numpy(self, *arrays: Array, axis: int) -> Any:
        return namespace(*arrays).concatenate(arrays, axis)

    def vjp(self, e: Builder, g: Value, *values: Value, axis: int) -> Any:
        arrays, shape = values[:-1], g.type.shape
        along = normalise_axis(axis, len(shape))
        ends = list(accumulate(v.type.shape[along] for v in arrays))
        pieces = []
        for start, end in zip([0, *ends], ends, strict=False):
            starts = tuple(start if i == along else 0 for i in range(len(shape)))
            stops = tuple(end if i == along else n for i, n in enumerate(shape))
            pieces.append(e.slice(g, starts=starts, stops=stops, steps=(1,) * len(shape)))
        return tuple(pieces)

    def onnx(self, e: Emitter, *arrays: str, axis: int) -> str:
        return joined(e, zip(arrays, (t.size for t in e.in_types), strict=True), axis)


def joined(e: Emitter, parts: Iterable[tuple[str, int]], axis: int) -> str:
    """The concatenation of ONNX tensors, given with their numbers of elements, along an axis, without empty ones.

    Optimizers of ONNX Runtime divide by the size of a constant part, so an empty one crashes the process.
    """
    names = [name for name, size in parts if size]
    return concatenated(e, names, axis) if len(names) > 1 else e.Identity(names[0])


def concatenated(e: Emitter, names: Sequence[str], axis: int) -> str:
    """The concatenation of tensors; on a GPU no operator takes more of them than a CUDA graph allows."""
    while e.is_gpu and len(names) > MOST_PARTS:
        names = [_in_one(e, names[i : i + MOST_PARTS], axis) for i in range(0, len(names), MOST_PARTS)]
    return _in_one(e, names, axis)


def _in_one(e: Emitter, names: Sequence[str], axis: int) -> str:
    return e.Concat(*names, axis=axis) if len(names) > 1 else names[0]


def by_halves(e: Emitter, combine: Callable[[str, str], str], x: str, count: int) -> str:
    """Reduces each row of `count` elements: combines the first half with the second until one element is left."""
    while count > 1:
        half = count // 2
        ends = (0, half), (half, 2 * half), (2 * half, count)
        first, second, odd = (e.Slice(x, e.ints([a]), e.ints([b]), e.ints([-1])) if a < b else "" for a, b in ends)
        x = joined(e, ((combine(first, second), half), (odd, count % 2)), axis=-1)
        count -= half
    return x


def cut(shape: Shape, starts: Shape, stops: Shape, steps: Shape) -> list[range]:
    """The positions of `x[start:stop:step]` along each axis, by Python's rules.

    Raises GraphValueError unless there is one of each for each axis and every step is positive.
    """
    if not len(shape) == len(starts) == len(stops) == len(steps):
        raise GraphValueError(f"slice takes a start, a stop and a step for each of the {len(shape)} axes.")
    if any(step < 1 for step in steps):
        raise GraphValueError(f"slice takes steps of 1 or more, not {steps}.")
    bounds = zip(shape, starts, stops, steps, strict=True)
    return [range(*slice(start, stop, step).indices(n)) for n, start, stop, step in bounds]


_ALL: dict[str, Any] = {"starts": (0, 0), "stops": (4, 5), "steps": (1, 1)}
_NEGATIVE: dict[str, Any] = {"starts": (-3, 1), "stops": (99, -1), "steps": (1, 1)}
_STRIDED: dict[str, Any] = {"starts": (1, 0), "stops": (4, 5), "steps": (2, 3)}
_NOTHING: dict[str, Any] = {"starts": (3, 0), "stops": (1, 5), "steps": (1, 1)}


class Slice(Primitive):
    """The elements x[start:stop:step] along every axis, by Python's rules, with positive steps."""

    half = "exact"
    flops_per_element = 0
    selects = True
    integer_gradient = "whole"
    samples = (
        sample(f32(4, 5), **_ALL),
        sample(f32(4, 5), **_NEGATIVE),
        sample(f32(4, 5), **_STRIDED),
        sample(f32(4, 5), **_NOTHING),
        sample(f32(), starts=(), stops=(), steps=()),
        sample(of(int32, 4, 5), **_STRIDED),
    )

    def infer(self, x: Type, starts: Shape, stops: Shape, steps: Shape) -> Type:
        return x.with_shape(tuple(map(len, cut(x.shape, starts, stops, steps))))

    def numpy(self, x: Array, starts: Shape, stops: Shape, steps: Shape) -> Array:
        return x[_index(x.shape, starts, stops, steps)]

    def vjp(self, e: Builder, g: Value, x: Value, y: Value, starts: Shape, stops: Shape, steps: Shape) -> Any:
        return e.slice_gradient(g, shape=x.type.shape, starts=starts, stops=stops, steps=steps)

    def onnx(self, e: Emitter, x: str, starts: Shape, stops: Shape, steps: Shape) -> str:
        shape = e.in_types[0].shape
        positions = cut(shape, starts, stops, steps)
        axes = [i for i, n in enumerate(shape) if len(positions[i]) < n]
        if not axes:
            return e.Identity(x)
        bounds = zip(*((positions[i].start, positions[i].stop) for i in axes), strict=True)
        return e.Slice(x, *map(e.ints, bounds), e.ints(axes), e.ints(positions[i].step for i in axes))


def _index(shape: Shape, starts: Shape, stops: Shape, steps: Shape) -> tuple[slice, ...]:
    return tuple(slice(r.start, r.stop, r.step) for r in cut(shape, starts, stops, steps))


class SliceGradient(Primitive):
    """The adjoint of `slice`: zeros of a shape with g at the positions of the slice."""

    half = "exact"
    flops_per_element = 0
    integer_gradient = "whole"
    samples = (
        sample(f32(4, 5), shape=(4, 5), **_ALL),
        sample(f32(3, 3), shape=(4, 5), **_NEGATIVE),
        sample(f32(2, 2), shape=(4, 5), **_STRIDED),
        sample(f32(0, 5), shape=(4, 5), **_NOTHING),
        sample(f32(), shape=(), starts=(), stops=(), steps=()),
        sample(of(int32, 2, 2), shape=(4, 5), **_STRIDED),
    )

    def infer(self, g: Type, shape: Shape, starts: Shape, stops: Shape, steps: Shape) -> Type:
        sliced = tuple(map(len, cut(shape, starts, stops, steps)))
        if g.shape != sliced:
            raise GraphValueError(f"The slice of the shape {shape} has the shape {sliced}, not that of {g}.")
        return g.with_shape(shape)

    def numpy(self, g: Array, shape: Shape, starts: Shape, stops: Shape, steps: Shape) -> Array:
        result = np.zeros(shape, g.dtype)
        result[_index(shape, starts, stops, steps)] = g
        return result

    def xla(self, jax: Any, g: Array, shape: Shape, starts: Shape, stops: Shape, steps: Shape) -> Any:
        positions = cut(shape, starts, stops, steps)
        bounds = [(r[0], n - 1 - r[-1], r.step - 1) if r else (n, 0, 0) for n, r in zip(shape, positions, strict=True)]
        return jax.lax.pad(g, np.zeros((), g.dtype), bounds)

    def vjp(
        self, e: Builder, gg: Value, g: Value, y: Value, shape: Shape, starts: Shape, stops: Shape, steps: Shape
    ) -> Any:
        return e.slice(gg, starts=starts, stops=stops, steps=steps)

    def onnx(self, e: Emitter, g: str, shape: Shape, starts: Shape, stops: Shape, steps: Shape) -> str:
        positions = cut(shape, starts, stops, steps)
        strides = [r.step if len(r) > 1 else 1 for r in positions]
        g = _spread(e, g, strides)
        before = [r.start for r in positions]
        after = [n - r.start - len(r) * s for n, r, s in zip(shape, positions, strides, strict=True)]
        wide = [n * s for n, s in zip(e.in_types[0].shape, strides, strict=True)]
        return _framed(e, g, wide, before, after) if any(before) or any(after) else e.Identity(g)


def _spread(e: Emitter, g: str, strides: Sequence[int]) -> str:
    """The elements with stride - 1 zeros after each, along every axis."""
    shape = e.in_types[0].shape
    if max(strides, default=1) == 1:
        return g
    g = reshaped(e, g, [*chain.from_iterable((n, 1) for n in shape)])
    after = [*chain.from_iterable((0, s - 1) for s in strides)]
    g = _framed(e, g, [*chain.from_iterable((n, 1) for n in shape)], [0] * len(after), after)
    return reshaped(e, g, [n * s for n, s in zip(shape, strides, strict=True)])


def _framed(e: Emitter, x: str, shape: Sequence[int], before: Sequence[int], after: Sequence[int]) -> str:
    """Pads with zeros before and after each axis; a negative number after it removes elements.

    A GPU has no Pad for integers: there each axis gets its zeros by Concat.
    """
    if e.has_kernel("Pad"):
        return e.Pad(x, e.ints([*before, *after]))
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        if last < 0:
            x = e.Slice(x, e.ints([0]), e.ints([shape[axis] + last]), e.ints([axis]))
        zeros = [e.Expand(e.scalar(0), e.ints(_with_size(shape, axis, n))) if n > 0 else "" for n in (first, last)]
        x = joined(e, ((zeros[0], first), (x, 1), (zeros[1], max(last, 0))), axis=axis)
        shape = _with_size(shape, axis, shape[axis] + first + last)
    return x


def _with_size(shape: Sequence[int], axis: int, size: int) -> list[int]:
    """A shape with another size along an axis."""
    return [size if i == axis else n for i, n in enumerate(shape)]
