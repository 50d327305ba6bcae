"""The kernels of a layer of LSTM: forward, and backward on the workspace that the forward leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.runtime.onednn.binding import DATA_TYPES, F32, Descriptor, Primitive, Role, row_major
from graphls.runtime.onednn.elementwise.algorithms import ADD
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import Call, View
from graphls.runtime.onednn.program.program import Program

TRAINING, BACKWARD = 64, 128
LEFT_TO_RIGHT, RIGHT_TO_LEFT = 1, 2
OVERWRITE = 1
"""The flag by which gradients of weights are not added to what their memory holds."""


@dataclass(eq=False)
class Forward:
    """A layer: `x` are the inputs of all iterations, `first` the states before, `results` all that it gives."""

    node: Node
    x: Value
    w: Value
    r: Value
    biases: Sequence[Value]
    first: Sequence[Value]
    results: Sequence[Value]

    def __post_init__(self) -> None:
        self.length, self.batch, self.width = self.x.type.shape
        self.hidden = self.first[0].type.shape[-1]
        self.dtype = DATA_TYPES[self.x.type.dtype]
        self.state = Descriptor.plain((1, 1, self.batch, self.hidden), self.dtype)
        self.cell = Descriptor.plain((1, 1, self.batch, self.hidden))
        self.stack = Descriptor.plain((self.length, self.batch, self.hidden), self.dtype)
        self.bias = Descriptor.plain((1, 1, 4, self.hidden))

    @property
    def direction(self) -> int:
        """The order of the iterations."""
        return RIGHT_TO_LEFT if self.node.attrs.get("reverse") else LEFT_TO_RIGHT

    def weights_shape(self, width: int) -> tuple[int, ...]:
        """The shape of the weights of one operand as oneDNN takes them: layers, directions, inputs, gates, outputs."""
        return 1, 1, width, 4, self.hidden

    def descriptors(self, weights_dtype: int | None = None) -> tuple[Descriptor | None, ...]:
        """The descriptors of the forward, those of weights in any layout, as both directions take them."""
        dtype = weights_dtype or self.dtype
        w, r = (Descriptor.any(self.weights_shape(width), dtype) for width in (self.width, self.hidden))
        return (
            Descriptor.of(self.x.type), self.state, self.cell, w, r, None, None, self.bias, self.stack, self.state,
            self.cell,
        )  # fmt: skip

    def primitive(self) -> Primitive:
        """The kernel."""
        return Primitive("LSTM", "lstm_forward", library().engine, TRAINING, self.direction, *self.descriptors(), 0,
                         None)  # fmt: skip

    def operands(self, program: Program, kernel: Primitive) -> dict[int, View]:
        """The views that both directions read."""
        views: dict[int, View] = {
            Role.SOURCE: program.plain(self.x),
            Role.BIAS: self.bias_view,
            Role.SOURCE_1: program.reshaped(self.first[0], self.state),
            Role.SOURCE_2: program.reshaped(self.first[1], self.cell),
        }
        for role, value, width in ((Role.WEIGHTS, self.w, self.width), (Role.WEIGHTS_1, self.r, self.hidden)):
            rows = (4 * self.hidden * width,) * 2
            plain = Descriptor.strided(self.weights_shape(width), (*rows, 1, self.hidden * width, width), self.dtype)
            views[role] = program.converted(program.reshaped(value, plain), kernel.layout_of(role))
        return views

    def emit(self, program: Program) -> None:
        """Append the kernel, and before it the sum of the biases."""
        kernel = self.primitive()
        self.bias_view = self._bias(program, self.bias)
        self.workspace = program.scratch(kernel.layout_of(Role.WORKSPACE))
        self.stacked, *states = map(program.scratch, (self.stack, self.state, self.cell))
        self.states = states
        program.run(kernel, {
            **self.operands(program, kernel), Role.WORKSPACE: self.workspace, Role.RESULT: self.stacked,
            Role.RESULT_1: states[0], Role.RESULT_2: states[1],
        })  # fmt: skip
        for value in self.results:
            program.alias(value, self.stacked)
        for value, view in zip(self.node.outputs, states, strict=False):
            program.alias(value, View(view.buffer, Descriptor.plain(value.type.shape, view.layout.dtype)))

    def _bias(self, program: Program, layout: Descriptor) -> View:
        """The sum of the biases; the kernel asks for one also where there are none."""
        if not self.biases:
            return program.fixed(np.zeros(layout.size, np.uint8), layout)
        first, *others = (program.reshaped(value, layout) for value in self.biases)
        for other in others:
            total = program.scratch(layout)
            kernel = Primitive("elementwise", "binary", library().engine, ADD, layout, layout, layout, None)
            program.run(kernel, {Role.SOURCE: first, Role.SOURCE_1: other, Role.RESULT: total})
            first = total
        return first


@dataclass(eq=False)
class Backward:
    """The gradients of a layer; `g` are those of all that it gives, None where there are none."""

    node: Node
    forward: Forward
    g: Value | None
    x_gradients: list[Value] = field(default_factory=list)
    w_gradients: list[Value] = field(default_factory=list)
    r_gradients: list[Value] = field(default_factory=list)
    b_gradients: list[Value] = field(default_factory=list)

    @property
    def outputs(self) -> list[Value]:
        """The values that the kernel gives."""
        weights = (*self.w_gradients, *self.r_gradients, *self.b_gradients)
        return [*self.node.outputs[:2], *self.x_gradients, *weights]

    def emit(self, program: Program) -> None:
        """Append the kernel."""
        layer = self.forward
        kernel = self._primitive()
        views = {
            **layer.operands(program, kernel), Role.WORKSPACE: layer.workspace, Role.RESULT: layer.stacked,
            Role.RESULT_1: layer.states[0], Role.RESULT_2: layer.states[1],
            Role.RESULT_GRADIENT: self._stacked_gradient(program),
        }  # fmt: skip
        for number, value in enumerate(self.node.inputs[:2]):
            views[Role.RESULT_GRADIENT + 1 + number] = program.reshaped(value, layer.cell)
        roles = [Role.SOURCE_GRADIENT + number for number in range(3)]
        roles += [Role.WEIGHTS_GRADIENT, Role.WEIGHTS_GRADIENT + 1, Role.BIAS_GRADIENT]
        results = {role: program.scratch(kernel.layout_of(role)) for role in roles}
        if layer.dtype != F32:
            for role in roles[3:]:
                self._clear(program, results[role])
        program.append(Call(kernel, {**views, **results}, program.node, [view.buffer for view in results.values()]))
        x, h, c, w, r, b = results.values()
        self._alias(program, x, self.x_gradients)
        for view, value in zip((h, c), self.node.outputs, strict=False):
            self._alias(program, view, [value])
        self._alias(program, self._matrix(program, w, layer.width), self.w_gradients)
        self._alias(program, self._matrix(program, r, layer.hidden), self.r_gradients)
        self._alias(program, b, self.b_gradients)

    def _primitive(self) -> Primitive:
        """The kernel; that for bfloat16 gives float32, and is the slow one if it does not add to what is there."""
        layer = self.forward
        gradients = [None if each is None else each.with_dtype(F32) for each in layer.descriptors(F32)]
        return Primitive(
            "LSTM, gradients", "lstm_backward", library().engine, BACKWARD, layer.direction, *layer.descriptors(),
            *gradients, OVERWRITE if layer.dtype == F32 else 0, layer.primitive(), None,
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
        """The gradient of weights as a matrix, whose rows are columns in the memory."""
        layer, rows = self.forward, 4 * self.forward.hidden
        shape = layer.weights_shape(width)
        plain = program.converted(view, Descriptor.strided(shape, row_major(shape)))
        return View(plain.buffer, Descriptor.strided((rows, width), (1, rows)), False)

    @staticmethod
    def _alias(program: Program, view: View, values: Sequence[Value]) -> None:
        for value in values:
            is_matrix = not view.is_for_kernels
            plain = Descriptor.plain(value.type.shape)
            program.alias(value, view if is_matrix else View(view.buffer, plain))
