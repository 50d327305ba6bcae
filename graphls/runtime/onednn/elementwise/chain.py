"""An expression as one call of a binary kernel with operations behind it, or as a few where that would be slow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from graphls.ir.graph import Value
from graphls.runtime.onednn.binding import DATA_TYPES, Attributes, Descriptor, Primitive, Role
from graphls.runtime.onednn.elementwise.algorithms import ADD, EQUAL, MUL, POW
from graphls.runtime.onednn.elementwise.expressions import ONE, Expression, Scale, Step, Term
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Program


def compute(program: Program, expression: Expression, value: Value) -> None:
    """Append the calls that compute an expression, whose result is a value."""
    chain = _Chain(program, value, _with_stored_first(program, expression, value))
    chain.run(program.written(value, chain.layout), expression.steps)


def _with_stored_first(program: Program, expression: Expression, value: Value) -> Expression:
    """The expression with the operand first that is stored in the dtype of the result, as that of kernels must be."""
    first, second = expression.first, expression.second
    if expression.algorithm not in (ADD, MUL) or second is None or first.value is None or second.value is None:
        return expression
    are_whole = first.value.type.shape == second.value.type.shape == value.type.shape
    dtypes = [program.stored(v).layout.dtype for v in (first.value, second.value)] if are_whole else []
    is_other = dtypes[1:] == [DATA_TYPES[value.type.dtype]] != dtypes[:1]
    return replace(expression, first=second, second=first) if is_other else expression


class _Operand(NamedTuple):
    """An operand: its sizes, with as many axes as the result, and where it lies; in row-major order if it is broadcast,
    else in the layout of the result, whatever its dtype is."""

    sizes: tuple[int, ...]
    view: View


class _Chain:
    """The calls of an expression, in the layout of its first operand."""

    def __init__(self, program: Program, value: Value, expression: Expression) -> None:
        self.program, self.kind, self.shape = program, value.type, value.type.shape or (1,)
        first = expression.first.value
        self.first = self._zeros() if first is None else self._first(first, value, expression)
        self.layout = self.first.layout
        self.algorithm = expression.algorithm
        self.scales: dict[int, View] = {}
        self._set_second(expression)
        if expression.is_guarded:
            self._guard()

    def _is_whole(self, expression: Expression) -> bool:
        """Whether the second operand, and that of each step, has all elements."""
        second = expression.second
        operands = [None if second is None else second.value, *(s.operand for s in expression.steps if s.operand)]
        are_whole = (isinstance(v, Value) and (v.type.shape or (1,)) == self.shape for v in operands)
        return not expression.is_guarded and all(are_whole)

    def _is_of_one_axis(self, layout: Descriptor, expression: Expression) -> bool:
        """Whether all operands can have one axis: those with all elements, in a layout without padding, and numbers."""
        second = expression.second
        operands = (None if second is None else second.value, *(step.operand for step in expression.steps))
        sizes = (v.type.shape or (1,) for v in operands if isinstance(v, Value))
        return layout.is_dense and all(_is_whole_or_number(each, self.shape) for each in sizes)

    def _first(self, operand: Value, result: Value, expression: Expression) -> View:
        """The first operand in the dtype in which the result is stored, in the layout that it shares with states, or in
        one that has a fast kernel."""
        program, stored = self.program, self.program.stored(operand)
        shared = program.shared_layout(operand)
        if shared is not None and not shared.with_dtype(stored.layout.dtype).equals(stored.layout):
            return program.read(operand, shared)
        is_narrow = stored.layout.dtype == program.kernel_dtype(result, operand)
        view = stored if is_narrow else program.read(operand)
        has_kernel = self._is_whole(expression) or self._is_of_one_axis(view.layout, expression)
        if has_kernel or not view.layout.is_slow:
            return view
        return program.converted(view, Descriptor.common(self.shape, view.layout.dtype), operand)

    def _zeros(self) -> View:
        return self.program.fixed(np.full(self.shape, -0.0, self.kind.dtype.numpy), Descriptor.of(self.kind))

    def _set_second(self, expression: Expression) -> None:
        scale, second = expression.first.scale, expression.second
        if second is None:
            is_value = len(scale.values) == 1 and scale.number == 1
            self.second = self._operand(scale.values[0]) if is_value else self._factor(scale)
            return
        assert second.value is not None, "Zeros are the first operand."
        self.second = self._operand(second.value)
        if expression.algorithm == MUL and second.value is not expression.first.value:
            scale, second = scale.times(second.scale), Term(second.value)
        for role, factor in ((Role.SOURCE, scale), (Role.SOURCE_1, second.scale)):
            if factor != ONE:
                self.scales[role] = self._scalar(factor)

    def _factor(self, scale: Scale) -> _Operand:
        rank = len(self.shape)
        return _Operand((1,) * rank, View(self._scalar(scale).buffer, Descriptor.plain((1,) * rank)))

    def _scalar(self, scale: Scale) -> View:
        """A factor as one number in memory."""
        return self.program.product(scale.number, scale.values)

    def _operand(self, operand: Value | float) -> _Operand:
        rank = len(self.shape)
        if isinstance(operand, float):
            return _Operand((1,) * rank, self.program.number(operand, rank))
        sizes = (*(1,) * (rank - operand.type.rank), *operand.type.shape)
        if sizes != self.shape:
            return _Operand(sizes, self.program.plain(operand))
        stored, own = self.program.stored(operand), self.layout.with_dtype(DATA_TYPES[operand.type.dtype])
        if operand.type.rank == rank:
            has_layout = self.layout.with_dtype(stored.layout.dtype).equals(stored.layout)
            return _Operand(sizes, stored if has_layout else self.program.read(operand, own))
        wide = self.program.reshaped(operand, Descriptor.plain(self.shape, own.dtype))
        return _Operand(sizes, self.program.converted(wide, own))

    def _guard(self) -> None:
        """Let the second operand be nan where the first one is: 1 / (x == x) * -0.0 is nan there and -0.0 elsewhere."""
        first, algorithm, second = self.first, self.algorithm, self.second
        steps = [(Step(POW, (1.0, -1.0)), None), (Step(MUL), self._operand(-0.0)), (Step(ADD), second)]
        guarded = self.program.scratch(self.layout)
        self.algorithm, self.second = EQUAL, _Operand(self.shape, first)
        self._run(guarded, steps)
        self.first, self.algorithm, self.second = first, algorithm, _Operand(self.shape, guarded)

    def run(self, result: View, steps: Sequence[Step]) -> None:
        """Append the calls, the last of which writes the result."""
        self._run(result, [(step, None if step.operand is None else self._operand(step.operand)) for step in steps])

    def _run(self, result: View, steps: Sequence[tuple[Step, _Operand | None]]) -> None:
        """Append calls; where oneDNN has only its slow reference for all steps, such as for a sum by rows behind a
        product of blocks, the last broadcast operand is the second one of a kernel of its own.

        It has others for rows that are channels of one image.
        """
        call = _Call(self, steps)
        broadcast = [i for i, (_, operand) in enumerate(steps) if operand is not None and operand.sizes != self.shape]
        if call.kernel.is_reference and broadcast and call.layouts.has_rows:
            call = _Call(self, steps, is_image=True)
        if not call.kernel.is_reference or not broadcast:
            call.run(result)
            return
        place = broadcast[-1]
        between = self.program.scratch(self.layout)
        self._run(between, steps[:place])
        step, operand = steps[place]
        assert operand is not None, "A step that is broadcast has an operand."
        self.first, self.algorithm, self.second, self.scales = between, step.algorithm, operand, {}
        _Call(self, steps[place + 1 :]).run(result)


class _Call:
    """A kernel on the two operands of a chain, with steps behind it."""

    def __init__(self, chain: _Chain, steps: Sequence[tuple[Step, _Operand | None]], is_image: bool = False) -> None:
        self.chain, self.scales = chain, dict(chain.scales)
        self.operands = [chain.second, *(operand for _, operand in steps if operand is not None)]
        self.first = chain.first
        self.layouts = _Layouts(chain.layout, chain.shape, [operand.sizes for operand in self.operands], is_image)
        attributes = Attributes()
        for role in self.scales:
            attributes.scale(role)
        self.roles: list[int] = [Role.SOURCE_1]
        for step, operand in steps:
            if operand is None:
                attributes.function(step.algorithm, *step.numbers)
            else:
                self.roles.append(attributes.binary(step.algorithm, self.layouts.wished(operand)))
        first = self.layouts.first
        self.kernel = Primitive("elementwise", "binary", library().engine, chain.algorithm, first,
                                self.layouts.wished(chain.second), first, attributes)  # fmt: skip

    def run(self, result: View) -> None:
        """Append the call."""
        layouts, program = self.layouts, self.chain.program
        views: dict[int, View] = {Role.SOURCE: View(self.first.buffer, layouts.first)}
        for role, operand in zip(self.roles, self.operands, strict=True):
            buffer = operand.view.buffer
            if operand.sizes == self.chain.shape:
                views[role] = View(buffer, layouts.wished(operand))
            else:
                views[role] = program.converted(View(buffer, layouts.plain(operand)), self.kernel.layout_of(role))
        views.update({Role.SCALES | role: view for role, view in self.scales.items()})
        program.run(self.kernel, {**views, Role.RESULT: View(result.buffer, layouts.first)})


class _Layouts:
    """The layouts of the operands of a kernel, over as few axes as in row-major order say the same.

    Neighbouring axes along which all operands are whole, or broadcast, are one: 8 x 8 x 128 x 128 and 8 x 8 x 128 x 1
    are 8192 x 128 and 8192 x 1, for which there is a fast kernel. Axes of size 1 are none. Blocks without padding are
    one axis where operands are whole or single numbers. Of an image there is an axis of size 1 before them.
    """

    def __init__(
        self, first: Descriptor, shape: Sequence[int], operands: Sequence[Sequence[int]], is_image: bool = False
    ) -> None:  # fmt: skip
        self.shape = tuple(shape)
        is_dense = first.is_plain or (first.is_dense and all(_is_whole_or_number(sizes, shape) for sizes in operands))
        self.chooses = not is_dense
        self.groups = [[axis] for axis in range(len(shape))] if self.chooses else merged_axes(shape, operands)
        self.groups = [[], *self.groups] if is_image else self.groups
        self.first = first if self.chooses else self._merged(shape, first.dtype)

    @property
    def has_rows(self) -> bool:
        """Whether there are two axes, of rows and of what is in each of them."""
        return not self.chooses and len(self.groups) == 2

    def _merged(self, sizes: Sequence[int], dtype: int) -> Descriptor:
        return Descriptor.plain([prod(sizes[axis] for axis in group) for group in self.groups], dtype)

    def plain(self, operand: _Operand) -> Descriptor:
        """Row-major order over the axes that are left."""
        return self._merged(operand.sizes, operand.view.layout.dtype)

    def wished(self, operand: _Operand) -> Descriptor:
        """The layout to ask with: of a broadcast operand of blocks the kernel chooses it."""
        if operand.sizes == self.shape and self.chooses:
            return operand.view.layout
        plain = self.plain(operand)
        return Descriptor.any(plain.shape, plain.dtype) if self.chooses else plain


def _is_whole_or_number(sizes: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether an operand has all elements, or one."""
    return tuple(sizes) == tuple(shape) or prod(sizes) == 1


def merged_axes(shape: Sequence[int], operands: Sequence[Sequence[int]]) -> list[list[int]]:
    """Axes in groups along which every operand is whole, or every one of them has size 1."""
    groups: list[list[int]] = []
    last: tuple[bool, ...] | None = None
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        are_whole = tuple(sizes[axis] == size for sizes in operands)
        if are_whole == last:
            groups[-1].append(axis)
        else:
            groups.append([axis])
        last = are_whole
    return groups or [[0]]
