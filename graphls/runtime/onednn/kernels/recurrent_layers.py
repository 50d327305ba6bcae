"""The kernels of a recurrent layer: forward, and backward on the workspace that the forward leaves."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.runtime.onednn.binding import DATA_TYPES, F32, Descriptor, Primitive, Role, floats
from graphls.runtime.onednn.elementwise.algorithms import ADD
from graphls.runtime.onednn.kernels.recurrent_units import Unit
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.calls import Call, View
from graphls.runtime.onednn.program.iterations import Loop
from graphls.runtime.onednn.program.program import Program

TRAINING, BACKWARD = 64, 128
LEFT_TO_RIGHT, RIGHT_TO_LEFT = 1, 2
OVERWRITE = 1
"""The flag by which gradients of weights are not added to what their memory holds."""


class Blocks(NamedTuple):
    """Parts of a buffer in one layout, one behind the other."""

    buffer: Buffer
    layout: Descriptor

    def part(self, number: int) -> View:
        """One of them."""
        size = self.layout.size
        return View(Buffer(size, within=self.buffer, begin=size * number), self.layout)


def joined(program: Program, moves: Sequence[tuple[View, View]], target: Buffer) -> Buffer:
    """The buffer that copies of views to its parts fill, which are one call."""
    program.append(Loop([program.reorder(source, part) for source, part in moves], program.node))
    return target


@dataclass(eq=False)
class Forward:
    """A layer: `x` are the inputs of all iterations, `first` the states before, `results` all that it gives.

    `places` are the positions of the gates, in the order of oneDNN, among the rows of the weights. The biases are those
    of the inputs and of the states, None where there is none.
    """

    node: Node
    unit: Unit
    places: Sequence[int]
    x: Value
    w: Value
    r: Value
    biases: tuple[Value | None, Value | None]
    first: Sequence[Value]
    results: Sequence[Value]

    def __post_init__(self) -> None:
        self.length, self.batch, self.width = self.x.type.shape
        self.hidden = self.first[0].type.shape[-1]
        self.gates = len(self.places)
        self.dtype = DATA_TYPES[self.x.type.dtype]
        self.cells = len(self.first) - 1
        self.state = Descriptor.plain((1, 1, self.batch, self.hidden), self.dtype)
        self.cell = Descriptor.plain((1, 1, self.batch, self.hidden))
        self.stack = Descriptor.plain((self.length, self.batch, self.hidden), self.dtype)
        self.bias = Descriptor.plain((1, 1, self.gates + (not self.unit.joint), self.hidden))

    @property
    def operands(self) -> list[Value]:
        """The values that both directions read."""
        return [self.x, self.w, self.r, *(b for b in self.biases if b is not None), *self.first]

    @property
    def states(self) -> Sequence[Descriptor]:
        """The layouts of the states; that of a cell is of float32."""
        return [self.state, *[self.cell] * self.cells]

    @property
    def options(self) -> tuple[list[object], list[object]]:
        """What the kernel of this unit takes before the direction, and behind the flags."""
        if self.unit.activation is None:
            return [], []
        return [c_int(self.unit.activation)], [*floats(0.0, 0.0)]

    @property
    def direction(self) -> int:
        """The order of the iterations."""
        return RIGHT_TO_LEFT if self.node.attrs.get("reverse") else LEFT_TO_RIGHT

    def weights_shape(self, width: int) -> tuple[int, ...]:
        """The shape of the weights of one operand as oneDNN takes them: layers, directions, inputs, gates, outputs."""
        return 1, 1, width, self.gates, self.hidden

    def matrix(self, width: int, dtype: int) -> Descriptor:
        """The weights of one operand in the layout of the graph, a matrix with rows for the outputs of each gate."""
        size = self.hidden * width
        return Descriptor.strided(self.weights_shape(width), (*(self.gates * size,) * 2, 1, size, width), dtype)

    def descriptors(self, weights_dtype: int | None = None) -> tuple[Descriptor | None, ...]:
        """The descriptors of the forward, those of weights in any layout, as both directions take them."""
        dtype = weights_dtype or self.dtype
        w, r = (Descriptor.any(self.weights_shape(width), dtype) for width in (self.width, self.hidden))
        more = (None, None) if self.cells else ()
        return Descriptor.of(self.x.type), *self.states, w, r, *more, self.bias, self.stack, *self.states

    def primitive(self) -> Primitive:
        """The kernel."""
        before, behind = self.options
        return Primitive(
            self.unit.name, f"{self.unit.kernel}_forward", library().engine, TRAINING, *before, self.direction,
            *self.descriptors(), 0, *behind, None,
        )  # fmt: skip

    def views(self, program: Program, kernel: Primitive) -> dict[int, View]:
        """The views of the operands for the kernel of a direction."""
        views: dict[int, View] = {Role.SOURCE: program.plain(self.x), Role.BIAS: self.bias_view}
        for number, (value, layout) in enumerate(zip(self.first, self.states, strict=True)):
            views[Role.SOURCE_1 + number] = program.reshaped(value, layout)
        for role, value, width in ((Role.WEIGHTS, self.w, self.width), (Role.WEIGHTS_1, self.r, self.hidden)):
            view = View(self._in_order(program, value, width), self.matrix(width, self.dtype))
            views[role] = program.converted(view, kernel.layout_of(role))
        return views

    def _in_order(self, program: Program, value: Value, width: int) -> Buffer:
        """The rows of weights with those of each gate where oneDNN has them, copied once for both directions."""
        if value not in self.weights:
            plain = program.reshaped(value, Descriptor.plain(value.type.shape, self.dtype)).buffer
            block = Descriptor.plain((self.hidden * width,), self.dtype)
            sources = Blocks(plain, block)
            target = Blocks(Buffer(block.size * self.gates), block)
            moves = [(sources.part(place), target.part(number)) for number, place in enumerate(self.places)]
            self.weights[value] = plain if self.is_in_order else joined(program, moves, target.buffer)
        return self.weights[value]

    @property
    def is_in_order(self) -> bool:
        """Whether the gates have the order of oneDNN."""
        return [*self.places] == [*range(self.gates)]

    def emit(self, program: Program) -> None:
        """Append the kernel, and before it the sum of the biases."""
        self.weights: dict[Value, Buffer] = {}
        kernel = self.primitive()
        self.bias_view = View(self._bias(program), self.bias)
        self.workspace = program.scratch(kernel.layout_of(Role.WORKSPACE))
        self.stacked, *self.last = map(program.scratch, (self.stack, *self.states))
        views = {**self.views(program, kernel), Role.WORKSPACE: self.workspace, Role.RESULT: self.stacked}
        views.update((Role.RESULT_1 + number, view) for number, view in enumerate(self.last))
        program.run(kernel, views)
        for value in self.results:
            program.alias(value, self.stacked)
        for value, view in zip(self.node.outputs, self.last, strict=False):
            program.alias(value, View(view.buffer, Descriptor.plain(value.type.shape, view.layout.dtype)))

    def _bias(self, program: Program) -> Buffer:
        """The sums of the biases in the order of oneDNN; the kernel asks for some also where there are none."""
        rows = Descriptor.plain((self.gates * self.hidden,))
        views = [program.reshaped(value, rows) for value in self.biases if value is not None]
        if not views:
            return program.fixed(np.zeros(self.bias.size, np.uint8), self.bias).buffer
        sums = self._sum(program, rows, views)
        if self.unit.joint and self.is_in_order:
            return sums.buffer
        zeros = program.fixed(np.zeros(rows.size, np.uint8), rows)
        block = Descriptor.plain((self.hidden,))
        apart = [zeros if value is None else program.reshaped(value, rows) for value in self.biases]
        *places, last = self.places
        lasts = [sums] if self.unit.joint else apart
        sources = [Blocks(sums.buffer, block).part(place) for place in places]
        sources += [Blocks(view.buffer, block).part(last) for view in lasts]
        target = Blocks(Buffer(self.bias.size), block)
        return joined(program, [(view, target.part(number)) for number, view in enumerate(sources)], target.buffer)

    @staticmethod
    def _sum(program: Program, layout: Descriptor, views: Sequence[View]) -> View:
        total, *others = views
        for other in others:
            result = program.scratch(layout)
            kernel = Primitive("elementwise", "binary", library().engine, ADD, layout, layout, layout, None)
            program.run(kernel, {Role.SOURCE: total, Role.SOURCE_1: other, Role.RESULT: result})
            total = result
        return total


@dataclass(eq=False)
class Backward:
    """The gradients of a layer; `g` are those of all that it gives, None where there are none.

    The gradients of the biases are those of the inputs' and of the states', which are equal where biases are joint.
    """

    node: Node
    forward: Forward
    g: Value | None
    x_gradients: list[Value] = field(default_factory=list)
    w_gradients: list[Value] = field(default_factory=list)
    r_gradients: list[Value] = field(default_factory=list)
    b_gradients: tuple[list[Value], list[Value]] = field(default_factory=lambda: ([], []))

    @property
    def outputs(self) -> list[Value]:
        """The values that the kernel gives."""
        weights = (*self.w_gradients, *self.r_gradients, *chain(*self.b_gradients))
        return [*self._states, *self.x_gradients, *weights]

    @property
    def _states(self) -> Sequence[Value]:
        return self.node.outputs[: len(self.forward.first)]

    def emit(self, program: Program) -> None:
        """Append the kernel."""
        layer = self.forward
        kernel = self._primitive()
        views = {
            **layer.views(program, kernel), Role.WORKSPACE: layer.workspace, Role.RESULT: layer.stacked,
            Role.RESULT_GRADIENT: self._stacked_gradient(program),
        }  # fmt: skip
        for number, (view, value) in enumerate(zip(layer.last, self.node.inputs, strict=False)):
            views[Role.RESULT_1 + number] = view
            views[Role.RESULT_GRADIENT + 1 + number] = program.reshaped(value, layer.cell)
        weights = [Role.WEIGHTS_GRADIENT, Role.WEIGHTS_GRADIENT + 1, Role.BIAS_GRADIENT]
        roles = [*(Role.SOURCE_GRADIENT + number for number in range(1 + len(layer.first))), *weights]
        results = {role: program.scratch(kernel.layout_of(role)) for role in roles}
        if layer.dtype != F32:
            for role in weights:
                self._clear(program, results[role])
        program.append(Call(kernel, {**views, **results}, program.node, [view.buffer for view in results.values()]))
        x, *states, w, r, b = results.values()
        self._alias(program, x, self.x_gradients)
        for view, value in zip(states, self._states, strict=True):
            self._alias(program, view, [value])
        for view, width, values in ((w, layer.width, self.w_gradients), (r, layer.hidden, self.r_gradients)):
            if values:
                self._alias(program, self._matrix(program, view, width), values)
        for number, values in enumerate(self.b_gradients):
            if values:
                self._alias(program, self._bias(program, b, number), values)

    def _primitive(self) -> Primitive:
        """The kernel; that for bfloat16 gives float32, and is the slow one if it does not add to what is there."""
        layer = self.forward
        gradients = [None if each is None else each.with_dtype(F32) for each in layer.descriptors(F32)]
        before, behind = layer.options
        return Primitive(
            f"{layer.unit.name}, gradients", f"{layer.unit.kernel}_backward", library().engine, BACKWARD, *before,
            layer.direction, *layer.descriptors(), *gradients, OVERWRITE if layer.dtype == F32 else 0, *behind,
            layer.primitive(), None,
        )  # fmt: skip

    @staticmethod
    def _clear(program: Program, view: View) -> None:
        """Append a kernel that fills a view with zeros."""
        rank = len(view.layout.shape)
        zeros = program.repeated(program.number(0.0, rank), view.layout.shape)
        program.append(program.reorder(zeros, view))

    def _stacked_gradient(self, program: Program) -> View:
        """The gradient of all that the layer gives; zeros where only its last states are read."""
        layout = self.forward.stack.with_dtype(F32)
        if self.g is not None:
            return program.reshaped(self.g, layout)
        return program.fixed(np.zeros(layout.size, np.uint8), layout)

    def _matrix(self, program: Program, view: View, width: int) -> View:
        """The gradient of weights as a matrix."""
        layer = self.forward
        matrix = program.converted(view, layer.matrix(width, F32))
        block = Descriptor.plain((layer.hidden * width,))
        return matrix if layer.is_in_order else self._by_places(program, matrix, block, [*range(layer.gates)])

    def _bias(self, program: Program, view: View, number: int) -> View:
        """The gradient of the inputs' biases or of the states'."""
        layer = self.forward
        if layer.unit.joint and layer.is_in_order:
            return view
        gates = [*range(layer.gates - 1), layer.gates - 1 + (number and not layer.unit.joint)]
        return self._by_places(program, view, Descriptor.plain((layer.hidden,)), gates)

    def _by_places(self, program: Program, view: View, block: Descriptor, gates: Sequence[int]) -> View:
        """The gradients of gates where the graph has them."""
        sources = Blocks(view.buffer, block)
        target = Blocks(Buffer(block.size * len(gates)), block)
        pairs = zip(gates, self.forward.places, strict=True)
        moves = [(sources.part(gate), target.part(place)) for gate, place in pairs]
        return View(joined(program, moves, target.buffer), Descriptor.plain((block.size * len(gates) // 4,)))

    @staticmethod
    def _alias(program: Program, view: View, values: Sequence[Value]) -> None:
        for value in values:
            program.alias(value, View(view.buffer, Descriptor.plain(value.type.shape)))
