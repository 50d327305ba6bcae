"""Rounding to low dtypes, whose numbers are held in float32, in the arithmetic of bfloat16 and float32."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import DType, Type, bfloat16, float32
from graphls.passes.rewriter import users
from graphls.primitives.low_precision import DIGITS, FORMATS
from graphls.primitives.scaling import Blocks
from graphls.runtime.onednn.binding import DATA_TYPES, F32, Attributes, Descriptor, Primitive, Role
from graphls.runtime.onednn.elementwise.algorithms import ABS, ADD, CLIP, DIV, LINEAR, MUL, ROUND, SUB
from graphls.runtime.onednn.elementwise.chain import compute, merged_axes
from graphls.runtime.onednn.elementwise.expressions import Expression, Scale, Step, Term
from graphls.runtime.onednn.kernels.block_maxima import has_nan, numbers, total, wide
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.numpy_nodes import Arrays, OnArrays
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.calls import Array, View
from graphls.runtime.onednn.program.program import Group, Program
from graphls.runtime.onednn.registry import rule
from graphls.runtime.onednn.scales import emit_numpy
from graphls.runtime.signs_of_zeros import signs_matter

_HUGE = 2.0**100
MOST_SCALED = 3
"""Axes up to which a reorder takes scales along some of them."""
LEAST_SCALE = 2.0**-125
"""The scale above which half of it is exact, too."""
MOST_CAST = 1 << 20
"""Elements up to which NumPy rounds to dtypes without a kernel."""


def _clip(least: float, most: float) -> Step:
    return Step(CLIP, (least, most))


_ARE_POSITIVE = Step(LINEAR, (_HUGE, 0.0)), _clip(0.0, 1.0)
"""1 for differences above 0, and 0: comparisons with an array have no kernel for sizes that 16 does not divide."""


def rounds(dtype: DType) -> bool:
    """Whether kernels round to a low dtype."""
    return library().has_bfloat16 and FORMATS[dtype].is_signed


@rule("quantize", where=lambda node: rounds(node.output.type.dtype))
def _quantize(program: Program, node: Node) -> None:
    x, scale = node.inputs
    _give(program, node, rounded(program, (node,), x, scale))


@rule("dequantize")
def _dequantize(program: Program, node: Node) -> None:
    parts = Parts(program, Blocks(node.output.type.shape, node.attrs["block"]))
    _give(program, node, parts.times(parts.own(wide(program, node.inputs[0])), parts.scale(node.inputs[1])))


@rule("shared_power", where=lambda node: node.output.type.size <= MOST_CAST)
def _shared_power(program: Program, node: Node) -> None:
    emit_numpy((node,), node.outputs, program)


def cast_to_low(program: Program, node: Node) -> None:
    """Append a rounding without a scale."""
    if rounds(node.output.type.dtype) and node.attrs.get("saturate", True):
        _give(program, node, rounded(program, (node,), node.inputs[0]))
    else:
        emit_numpy((node,), node.outputs, program)


def roundings(nodes: Sequence[Node], results: Collection[Value], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of nodes that quantize, and of those that alone read that and dequantize it."""
    if not any(node.primitive.name == "quantize" for node in nodes):
        return
    leaving, readers = {*results}, users(nodes)
    for node in nodes:
        if node.primitive.name != "dequantize":
            continue
        (low, inverse), maker = node.inputs, definer.get(node.inputs[0])
        is_alone = len(readers[low]) == 1 and low not in leaving and rounds(low.type.dtype)
        if maker is not None and maker.primitive.name == "quantize" and is_alone and _block(maker) == _block(node):
            emit = partial(_there_and_back, (maker, node), signs_matter(node.output, readers, leaving))
            yield Group((maker, node), (*maker.inputs, inverse), node.outputs, emit)


def _block(node: Node) -> Any:
    return node.attrs["block"]


def _there_and_back(nodes: tuple[Node, Node], has_signs: bool, program: Program) -> None:
    (x, scale), (_, inverse) = (node.inputs for node in nodes)
    _give(program, nodes[-1], rounded(program, nodes, x, scale, inverse, has_signs))


def _give(program: Program, node: Node, result: View) -> None:
    """Let a float32 array in row-major order be the result of a node, rounded once more where that is a bfloat16."""
    view = View(result.buffer, Descriptor.plain(node.output.type.shape))
    dtype = DATA_TYPES[node.output.type.dtype]
    program.alias(node.output, program.converted(view, view.layout.with_dtype(dtype)))


def rounded(
    program: Program, nodes: tuple[Node, ...], x: Value, scale: Value | None = None, inverse: Value | None = None,
    has_signs: bool = True,
) -> View:  # fmt: skip
    """x * scale rounded to a low dtype, times an inverse scale; `nodes` compute it where something is not finite.

    With d, a magnitude of few digits that is shifted by those which are to go, x + d - d rounds x to the last place of
    d, as in `primitives.low_precision`. Numbers of 8 digits, which bfloat16 has, are enough. Where `has_signs`, zeros
    have theirs.
    """
    node = nodes[0]
    form, kind = FORMATS[node.output.type.dtype], x.type
    parts = Parts(program, Blocks(kind.shape, node.attrs.get("block", (1,) * kind.rank)))
    source = wide(program, x)
    own, factor = parts.own(source), None if scale is None else parts.scale(scale)
    shift = 2.0 ** (DIGITS[float32] - form.mantissa)
    near = parts.narrow(own, factor)
    digits = parts.computed(
        Expression(Term(near, Scale(shift)), steps=[Step(ABS), _clip(shift * 1.5 * form.least, shift * form.most)]),
        bfloat16,
    )
    expression = Expression(Term(own)) if factor is None else Expression(Term(own), MUL, Term(factor))
    to_places = [_clip(-form.most, form.most), Step(ADD, operand=digits), Step(SUB, operand=digits)]
    if has_signs and form.has_negative_zero:
        expression.steps = [Step(ABS), *to_places, Step(MUL, operand=parts.signs(near))]
    else:
        expression.steps = to_places
    back = None if inverse is None else parts.scale(inverse)
    if back is not None:
        expression.operate(MUL, back)
    result = program.first(parts.computed(expression))
    operands = {v: wide(program, v).buffer for v in (x, scale, inverse) if v is not None}
    program.append(Exact(nodes, operands, () if scale is None else (scale,), total(program, source), result))
    return result


@rule("round_stochastically", where=lambda node: rounds(node.output.type.dtype))
def _round_stochastically(program: Program, node: Node) -> None:
    """The rule of the primitive: in units of its last place a number and a random one, rounded to an integer.

    For the power of two of the first digit see `first_place` in `primitives.low_precision`.
    """
    form, kind = FORMATS[node.output.type.dtype], node.output.type
    parts = Parts(program, Blocks(kind.shape, (1,) * kind.rank))
    source, random = (wide(program, v) for v in node.inputs)
    x, drawn = parts.own(source), parts.own(random)
    digits = DIGITS[float32]
    shifted = parts.computed(Expression(Term(x), steps=[
        Step(ABS), _clip(form.least, form.most), Step(MUL, operand=2.0**digits + 1),
    ]))  # fmt: skip
    unit = parts.computed(Expression(Term(shifted, Scale(1 - 2.0 ** (-digits - 1))), steps=[
        Step(SUB, operand=shifted), Step(MUL, operand=-(2.0**-form.mantissa)),
    ]))  # fmt: skip
    result = program.first(parts.computed(Expression(Term(x), steps=[
        _clip(-form.most, form.most), Step(DIV, operand=unit), Step(ADD, operand=drawn), Step(ROUND),
        Step(MUL, operand=unit), Step(LINEAR, (1.0, 0.0)),
    ])))  # fmt: skip
    operands = {v: view.buffer for v, view in zip(node.inputs, (source, random), strict=True)}
    program.append(Exact((node,), operands, (), total(program, source), result))
    _give(program, node, result)


class Parts:
    """The blocks of an array, and the shapes in which scales broadcast to them.

    One axis with several blocks becomes two. Along others with several blocks of several elements, and along one whose
    last block is smaller, scales are repeated.
    """

    def __init__(self, program: Program, blocks: Blocks) -> None:
        self.program, self.blocks = program, blocks
        axes = [*zip(blocks.shape, blocks.counts, blocks.block, strict=True)]
        split = [axis for axis, (_, count, size) in enumerate(axes) if count > 1 and size > 1]
        apart = [axis for axis in split if blocks.shape[axis] % blocks.block[axis] == 0][:1]
        self.repeated = [axis for axis in split if axis not in apart]
        self.sizes = tuple(n if i in self.repeated else k for i, (n, k, _) in enumerate(axes))
        self.shape, self.scales = list(blocks.shape) or [1], list(self.sizes) or [1]
        for axis in apart:
            self.shape[axis : axis + 1] = blocks.counts[axis], blocks.block[axis]
            self.scales[axis : axis + 1] = blocks.counts[axis], 1

    def own(self, view: View) -> Value:
        """A row-major float32 array in parts."""
        return self.value(view, self.shape)

    def scale(self, scale: Value) -> Value:
        """A scale as it broadcasts to the parts."""
        view = wide(self.program, scale)
        if self.repeated:
            view = self.program.once(("repeated", view.buffer, self.sizes), partial(self._repeat, view))
        return self.value(view, self.scales)

    def _repeat(self, view: View) -> View:
        result = self.program.scratch(Descriptor.plain(self.sizes))
        assert self.program.node is not None, "Scales are of nodes."
        self.program.append(Repeat(self.program.node, self.blocks, self.repeated, view, result))
        return result

    def value(self, view: View, shape: Sequence[int], dtype: DType = float32) -> Value:
        """A view in row-major order as a value of a shape."""
        value = Value("part", Type(dtype, tuple(shape)))
        self.program.alias(value, View(view.buffer, Descriptor.plain(value.type.shape, DATA_TYPES[dtype])))
        return value

    def narrow(self, x: Value, scale: Value | None, dtype: DType = bfloat16) -> Value:
        """x * scale in a dtype, by one reorder, or two kernels where that would take a scale for another (oneDNN 3.2).

        It does so where axes with scales lie on both sides of others, twice.
        """
        program, sizes = self.program, [1] * len(self.shape) if scale is None else scale.type.shape
        axes = merged_axes(self.shape, [sizes])
        if len(axes) > MOST_SCALED:
            assert scale is not None, "Without a scale there is one axis."
            x, scale, axes = self.computed(Expression(Term(x), MUL, Term(scale))), None, [[*range(len(self.shape))]]
        merged = Descriptor.plain([prod(self.shape[i] for i in group) for group in axes])
        view, target = program.first(x), program.scratch(merged.with_dtype(DATA_TYPES[dtype]))
        source = View(view.buffer, merged.with_dtype(view.layout.dtype))
        attributes, views = Attributes(), dict[int, View]({Role.SOURCE: source, Role.RESULT: target})
        if scale is not None:
            attributes.scale(Role.SOURCE, [i for i, group in enumerate(axes) if any(sizes[k] > 1 for k in group)])
            views[Role.SCALES | Role.SOURCE] = View(program.first(scale).buffer, Descriptor.plain((scale.type.size,)))
        engine = library().engine
        kernel = Primitive("reorder", "reorder", source.layout, engine, target.layout, engine, attributes)
        program.run(kernel, views)
        return self.value(target, self.shape, dtype)

    def signs(self, near: Value) -> Value:
        """1 or -1, or a zero for a zero, with the signs of numbers in bfloat16."""
        return self.computed(Expression(Term(near, Scale(_HUGE)), steps=[_clip(-1.0, 1.0)]), bfloat16)

    def computed(self, expression: Expression, dtype: DType = float32) -> Value:
        """The value of an expression, with all elements."""
        value = Value("part", Type(dtype, tuple(self.shape)))
        compute(self.program, expression, value)
        return value

    def times(self, x: Value, scale: Value) -> View:
        """The product with a scale."""
        return self.program.first(self.computed(Expression(Term(x), MUL, Term(scale))))


@dataclass(eq=False)
class Repeat(OnArrays):
    """Scales of blocks, repeated along some axes."""

    node: Node
    blocks: Blocks
    axes: Sequence[int]
    source: View
    target: View
    kind = "scales, repeated"

    def __post_init__(self) -> None:
        self.reads, self.writes = (self.source.buffer,), (self.target.buffer,)

    def bound(self, binding: Arrays) -> partial[Any]:
        """The call on the arrays of a binding."""
        return partial(self._repeat, numbers(binding, self.source), numbers(binding, self.target))

    def _repeat(self, source: Array, target: Array) -> None:
        *first, last = self.axes
        for axis in first:
            length = self.blocks.shape[axis]
            source = np.repeat(source, self.blocks.block[axis], axis).take(range(length), axis)
        size, before = self.blocks.block[last], target.shape[:last]
        count, source = target.shape[last] // size, source.reshape(*before, -1, *target.shape[last + 1 :])
        full, rest = np.split(target, (count * size,), last)
        scales, last_ones = np.split(source, (count,), last)
        np.copyto(full.reshape(*before, count, size, *target.shape[last + 1 :]), np.expand_dims(scales, last + 1))
        np.copyto(rest, last_ones)


@dataclass(eq=False)
class Exact(OnArrays):
    """Computes nodes by NumPy where there may be a nan, or a scale that is not above 0, in what kernels have rounded.

    `sums` are nan where an element is. `operands` are what the nodes read, of low dtypes in float32, and `scales` some
    of them.
    """

    nodes: Sequence[Node]
    operands: Mapping[Value, Buffer]
    scales: Sequence[Value]
    sums: View
    result: View
    kind = "nan of roundings"

    def __post_init__(self) -> None:
        self.node = self.nodes[-1]
        self.reads = (*dict.fromkeys((*self.operands.values(), self.sums.buffer)),)
        self.writes = (self.result.buffer,)

    def bound(self, binding: Arrays) -> partial[Any]:
        """The call on the arrays of a binding."""
        arrays = {v: binding.array(buffer, stored(v.type)) for v, buffer in self.operands.items()}
        kind = self.node.output.type
        result = binding.array(self.result.buffer, kind if self.result.layout.dtype != F32 else stored(kind))
        return partial(self._check, arrays, numbers(binding, self.sums), result)

    def _check(self, arrays: Mapping[Value, Array], sums: Array, result: Array) -> None:
        scales = (arrays[v] for v in self.scales)
        if has_nan(sums) or not all(scale.min() > LEAST_SCALE and scale.max() < np.inf for scale in scales):
            values = dict(arrays)
            for node in self.nodes:
                operands = tuple(values[v] for v in node.inputs)
                with np.errstate(all="ignore"):
                    (values[node.output],) = node.primitive.evaluate(operands, node.attrs, (node.output.type,))
            np.copyto(result, values[self.node.output], casting="unsafe")


def stored(kind: Type) -> Type:
    """The type of the arrays in which kernels read floats."""
    return kind.with_dtype(float32) if kind.dtype.is_float or kind.dtype.is_low else kind
