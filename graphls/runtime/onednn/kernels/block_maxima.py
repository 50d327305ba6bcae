"""Absolute maxima of blocks: poolings and reductions of oneDNN, and NumPy where there is a nan."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import gcd, prod
from typing import Any

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import Type, float32
from graphls.primitives.scaling import Blocks
from graphls.runtime.onednn.binding import F32, Descriptor, Primitive, Role, dims
from graphls.runtime.onednn.elementwise.algorithms import ABS
from graphls.runtime.onednn.elementwise.chain import compute
from graphls.runtime.onednn.elementwise.expressions import Expression, Step, Term
from graphls.runtime.onednn.kernels.max_pooling import MAXIMUM
from graphls.runtime.onednn.kernels.reductions import REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, by_row, in_rows
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.numpy_nodes import Arrays, OnArrays
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.calls import Array, View
from graphls.runtime.onednn.program.program import Group, Program
from graphls.runtime.onednn.registry import rule

INFERENCE = 96
FEW = 4096
"""Elements up to which NumPy is faster."""
CACHED = 1 << 13
"""Numbers of a channel up to which a kernel that looks at 16 of them at a time finds them in the cache."""
FEWER = 8
"""Elements of a block from which on the maxima of blocks are read for that of all."""
CHANNELS = 16
"""Channels of images that poolings take, or a multiple of these."""
MANY = 1 << 11
"""Blocks of one row from which on rows of images are as many as their channels."""
LONG = 512
"""Numbers of a row from which on a reduction is faster than a pooling."""


def wide(program: Program, value: Value) -> View:
    """A value in float32, in row-major order."""
    if value.type.dtype is float32 or value.type.dtype.is_low:
        return program.plain(value)

    def converted() -> View:
        own = Value(value.name, value.type.with_dtype(float32))
        program.alias(own, program.stored(value))
        return program.plain(own)

    return program.once(("wide", value), converted)


def total(program: Program, source: View) -> View:
    """Sums of the elements of a row-major float32 array, one of which is nan where one of these is."""
    rows = View(source.buffer, in_rows(source.layout))
    return program.once(("total", source.buffer), lambda: by_row(program, rows, REDUCE_SUM, F32))


@rule("absolute_maximum")
def _absolute_maximum(program: Program, node: Node) -> None:
    x = node.inputs[0]
    if x.type.size <= FEW:
        program.interpret(node)
        return
    source, blocks = wide(program, x), Blocks(x.type.shape, node.attrs["block"])
    sums, result = total(program, source), Buffer(node.output.type.nbytes)
    if prod(blocks.counts) == 1:
        rows = View(source.buffer, in_rows(source.layout))
        ends = tuple(by_row(program, rows, algorithm, F32) for algorithm in (REDUCE_MAX, REDUCE_MIN))
        program.place(node.output, result)
        program.append(TensorMaximum(node, source.buffer, sums, ends, result))
        return
    pooled = _pooled(program, _magnitudes(program, source), blocks)
    program.alias(node.output, View(pooled.buffer, Descriptor.of(node.output.type)))
    program.append(Mended(node, source.buffer, sums, pooled.buffer))


def maxima_of_maxima(nodes: Sequence[Node]) -> Iterator[Group]:
    """The groups of maxima of arrays of which there are those of blocks, too: the greatest of them, by NumPy."""
    blocks: dict[Value, Node] = {}
    for node in nodes:
        if node.primitive.name == "absolute_maximum" and node.output.type.size > 1:
            blocks.setdefault(node.inputs[0], node)
    for node in nodes:
        is_one = node.primitive.name == "absolute_maximum" and node.output.type.size == 1
        own = blocks.get(node.inputs[0]) if is_one else None
        if own is not None and own.output.type.size * FEWER <= node.inputs[0].type.size:
            yield Group((node,), own.outputs, node.outputs, partial(_of_blocks, node, own.output))


def _of_blocks(node: Node, maxima: Value, program: Program) -> None:
    """Append the same maximum, of maxima."""
    block = {"block": (0,) * maxima.type.rank}
    program.interpret(replace(node, inputs=(maxima,), attrs=block))


def _magnitudes(program: Program, source: View) -> View:
    def absolute() -> View:
        kind = Type(float32, source.layout.shape)
        x, result = Value("x", kind), Value("magnitude", kind)
        program.alias(x, source)
        compute(program, Expression(Term(x), steps=[Step(ABS)]), result)
        return program.first(result)

    return program.once(("magnitudes", source.buffer), absolute)


def _pooled(program: Program, source: View, blocks: Blocks) -> View:
    """The greatest numbers of blocks, along one axis after the other; neighbouring axes of one block are one."""
    sizes = zip(blocks.shape, blocks.counts, blocks.block, strict=True)
    axes = [(n, n if count == 1 else size) for n, count, size in sizes]
    merged: list[tuple[int, int]] = []
    for n, size in axes:
        if merged and ((size == n and merged[-1][0] == merged[-1][1]) or (size == 1 and merged[-1][1] == 1)):
            length, last = merged.pop()
            merged.append((length * n, last * size))
        else:
            merged.append((n, size))
    shape = [n for n, _ in merged]
    for axis, (_, size) in enumerate(merged):
        if size > 1:
            source = _along(program, source, shape, axis, size)
            shape[axis] = -(-shape[axis] // size)
    return source


def _along(program: Program, source: View, shape: Sequence[int], axis: int, size: int) -> View:
    """The greatest of each so many numbers along an axis, the last of which may be fewer."""
    before, n, after = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    count = -(-n // size)
    if after == 1 and size == n >= LONG:
        return by_row(program, View(source.buffer, Descriptor.plain((before, n))), REDUCE_MAX, F32)
    if after == before == 1 and count > CHANNELS and n % (CHANNELS * size):
        return _of_a_row(program, source, n, size)
    if after == 1:  # rows as channels and as rows of images
        if count * size == n:
            before, n, count = before * count, size, 1
        channels = gcd(before, CHANNELS)
        height = gcd(before // channels, max(CACHED // n, 1))
        images = before // channels // height
        layouts = [Descriptor.plain((images, channels, height, width)) for width in (n, count)]
        window, padding = (1, size), (0, count * size - n)
    else:  # the axis as that of rows of images, whose channels are all elements behind it
        layouts = [
            Descriptor.strided((before, after, height, 1), (height * after, 1, after, after)) for height in (n, count)
        ]
        window, padding = (size, 1), (count * size - n, 0)
    none = dims((0, 0))
    kernel = Primitive("maxima of blocks", "pooling_forward", library().engine, INFERENCE, MAXIMUM, *layouts,
                       dims(window), dims(window), none, none, dims(padding), None)  # fmt: skip
    result = program.scratch(layouts[1])
    program.run(kernel, {Role.SOURCE: View(source.buffer, layouts[0]), Role.RESULT: result})
    return result


def _of_a_row(program: Program, source: View, n: int, size: int) -> View:
    """The greatest numbers of the blocks of one row: of a multiple of what a fast kernel takes, and of the rest."""
    several = CHANNELS if n < MANY * size else CHANNELS**2
    count = n // (several * size) * several
    first = _along(program, View(source.buffer, Descriptor.plain((count * size,))), (count * size,), 0, size)
    result = program.scratch(Descriptor.plain((-(-n // size),)))
    assert program.node is not None, "Maxima are of nodes."
    first = View(first.buffer, Descriptor.plain((count,)))
    program.append(WithRest(program.node, source.buffer, first, n, size, result))
    return result


def numbers(binding: Arrays, view: View) -> Array:
    """The float32 array of a view in row-major order."""
    return binding.array(view.buffer, Type(float32, view.layout.shape))


@dataclass(eq=False)
class TensorMaximum(OnArrays):
    """The absolute maximum of an array, from the greatest and least numbers of its rows."""

    node: Node
    source: Buffer
    sums: View
    ends: tuple[View, ...]
    result: Buffer
    kind = "absolute maximum"

    def __post_init__(self) -> None:
        self.reads = (self.source, self.sums.buffer, *(view.buffer for view in self.ends))
        self.writes = (self.result,)

    def bound(self, binding: Arrays) -> partial[Any]:
        """The call on the arrays of a binding."""
        x = binding.array(self.source, Type(float32, self.node.inputs[0].type.shape))
        greatest, least = (numbers(binding, view) for view in self.ends)
        result = binding.array(self.result, self.node.output.type)
        return partial(_greatest, x, numbers(binding, self.sums), greatest, least, result)


def _greatest(x: Array, sums: Array, greatest: Array, least: Array, result: Array) -> None:
    result.fill(np.abs(x).max() if has_nan(sums) else abs(max(greatest.max(), -least.min())))


def has_nan(sums: Array) -> bool:
    """Whether a sum is nan, as it is of infinities of both signs, too."""
    with np.errstate(all="ignore"):
        return bool(np.isnan(sums.sum()))


@dataclass(eq=False)
class Mended(OnArrays):
    """Corrects maxima by NumPy where there is a nan, which oneDNN leaves out."""

    node: Node
    source: Buffer
    sums: View
    result: Buffer
    kind = "nan of maxima"

    def __post_init__(self) -> None:
        self.reads, self.writes = (self.source, self.sums.buffer), (self.result,)

    def bound(self, binding: Arrays) -> partial[Any]:
        """The call on the arrays of a binding."""
        x = binding.array(self.source, Type(float32, self.node.inputs[0].type.shape))
        result = binding.array(self.result, self.node.output.type)
        return partial(self._check, x, numbers(binding, self.sums), result)

    def _check(self, x: Array, sums: Array, result: Array) -> None:
        if has_nan(sums):
            np.copyto(result, self.node.primitive.evaluate((x,), self.node.attrs, (self.node.output.type,))[0])


@dataclass(eq=False)
class WithRest(OnArrays):
    """The greatest numbers of the first blocks of a row, and those of the rest, by NumPy."""

    node: Node
    source: Buffer
    first: View
    length: int
    size: int
    result: View
    kind = "maxima of the last blocks"

    def __post_init__(self) -> None:
        self.reads, self.writes = (self.source, self.first.buffer), (self.result.buffer,)

    def bound(self, binding: Arrays) -> partial[Any]:
        """The call on the arrays of a binding."""
        x, first = binding.array(self.source, Type(float32, (self.length,))), numbers(binding, self.first)
        return partial(self._fill, numbers(binding, self.result), first, x[first.size * self.size :])

    def _fill(self, result: Array, first: Array, rest: Array) -> None:
        np.copyto(result[: first.size], first)
        np.maximum.reduceat(rest, range(0, rest.size, self.size), out=result[first.size :])
