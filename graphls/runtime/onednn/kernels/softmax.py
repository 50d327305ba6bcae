"""Softmax, its logarithm and their gradients, as one kernel of oneDNN each, with nan as NumPy has it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphls.ir.graph import Node, Value
from graphls.ir.types import Type
from graphls.passes.patterns.matching import Match, matches
from graphls.primitives.primitive import normalise_axes
from graphls.runtime.onednn.binding import DATA_TYPES, Attributes, Descriptor, Primitive, Role
from graphls.runtime.onednn.elementwise.algorithms import EXP, SUB
from graphls.runtime.onednn.kernels.reductions import REDUCE_MAX, REDUCE_SUM, by_row
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.arena import Buffer
from graphls.runtime.onednn.program.bound import Binding
from graphls.runtime.onednn.program.calls import PythonCall, View
from graphls.runtime.onednn.program.program import COMPUTED, Group, Program
from graphls.runtime.onednn.registry import rule

TRAINING = 64
ALGORITHMS: Mapping[str, int] = {"softmax": 0x30000, "log_softmax": 0x30001}

_TOTAL = "sum(mul(g, y), axis=AXES, keepdims=True)"
_TOTAL_OF_LOGARITHM = "sum(g, axis=AXES, keepdims=True)"
_GRADIENTS = {
    f"sub(mul(g, y), mul(y, {_TOTAL}))": "softmax",
    f"sub(g, mul(exp(y), {_TOTAL_OF_LOGARITHM}))": "log_softmax",
}


@rule("softmax")
def _softmax(program: Program, node: Node) -> None:
    rows = _Rows(node.output.type, node.attrs["axis"])
    source, result = rows.read(program, node.inputs[0]), program.scratch(rows.layout)
    program.run(rows.forward("softmax"), {Role.SOURCE: source, Role.RESULT: result})
    totals = by_row(program, result, REDUCE_SUM, rows.layout.dtype)
    program.append(NanRows(result.buffer, rows.type, totals.buffer, 1, node))
    rows.write(program, node.output, result)


@rule("log_softmax")
def _log_softmax(program: Program, node: Node) -> None:
    """(x - m) - log(sum(exp(x - m))); the logarithm of oneDNN, which its own kernel takes, errs in the sixth digit."""
    rows = _Rows(node.output.type, node.attrs["axis"])
    x = rows.read(program, node.inputs[0])
    powers, result = program.scratch(rows.layout), program.scratch(rows.layout)
    greatest = by_row(program, x, REDUCE_MAX, rows.layout.dtype)
    exponential = Attributes()
    exponential.function(EXP, 0.0, 0.0)
    rows.subtract(program, x, greatest, powers, exponential)
    totals = by_row(program, powers, REDUCE_SUM, rows.layout.dtype)
    program.append(Logarithms(totals.buffer, rows.type.with_shape((rows.type.shape[0],)), node))
    rows.subtract(program, x, greatest, result)
    rows.subtract(program, result, totals, result)  # behind the other one it would be slow
    rows.write(program, node.output, result)


class _Rows:
    """Values of a type as a matrix, the rows of which lie along an axis; only for these oneDNN has fast kernels."""

    def __init__(self, kind: Type, axis: int) -> None:
        axis %= kind.rank
        self.order = (*(i for i in range(kind.rank) if i != axis), axis)
        self.is_last = axis == kind.rank - 1
        size, dtype = kind.shape[axis], DATA_TYPES[kind.dtype]
        self.type = kind.with_shape((kind.size // size, size))
        self.layout = Descriptor.of(self.type)
        self._moved = Descriptor.plain([kind.shape[i] for i in self.order], dtype)

    def read(self, program: Program, value: Value) -> View:
        """A value as these rows."""
        if self.is_last:
            return program.reshaped(value, self.layout)
        first = program.first(value)
        moved = program.converted(View(first.buffer, first.layout.permuted(self.order)), self._moved)
        return View(moved.buffer, self.layout)

    def write(self, program: Program, value: Value, rows: View) -> None:
        """Let a value lie in rows."""
        inverse = [self.order.index(i) for i in range(len(self.order))]
        program.alias(value, View(rows.buffer, self._moved.permuted(inverse), self.is_last))

    def forward(self, name: str) -> Primitive:
        """The kernel of softmax or of its logarithm."""
        return Primitive(name.replace("_", " "), "softmax_forward", library().engine, TRAINING, ALGORITHMS[name],
                         self.layout, self.layout, 1, None)  # fmt: skip

    def subtract(
        self, program: Program, x: View, column: View, result: View, attributes: Attributes | None = None
    ) -> None:  # fmt: skip
        """Append x minus a number for each row, with a function behind it."""
        kernel = Primitive("elementwise", "binary", library().engine, SUB, self.layout, column.layout, self.layout,
                           attributes)  # fmt: skip
        program.run(kernel, {Role.SOURCE: x, Role.SOURCE_1: column, Role.RESULT: result})


@dataclass(eq=False)
class Logarithms(PythonCall):
    """Replaces the sum of each row by its logarithm, or by nan for rows with nan or inf, whose sum is no number.

    Powers are 1 at most, so that sums of them are finite; oneDNN has inf as the power of nan.
    """

    sums: Buffer
    type: Type
    node: Node
    kind = "logarithms"

    @property
    def reads(self) -> Sequence[Buffer]:
        """The buffer that it reads."""
        return (self.sums,)

    @property
    def writes(self) -> Sequence[Buffer]:
        """The buffer that it writes."""
        return (self.sums,)

    def run(self, binding: Binding) -> int:
        """Replace the sums."""
        sums = binding.array(self.sums, self.type)
        np.log(sums, out=sums)
        sums[np.isinf(sums)] = np.nan
        return 0


@dataclass(eq=False)
class NanRows(PythonCall):
    """Lets those rows of a result be nan for which another matrix, of which it reads the first column, has nan.

    The kernels of oneDNN leave nan in its own element, and infinities in theirs; sums of rows tell where.
    """

    result: Buffer
    type: Type
    signs: Buffer
    stride: int
    node: Node
    kind = "nan of rows"

    @property
    def reads(self) -> Sequence[Buffer]:
        """The buffer that it reads."""
        return (self.signs,)

    @property
    def writes(self) -> Sequence[Buffer]:
        """The buffer that it writes."""
        return (self.result,)

    def run(self, binding: Binding) -> int:
        """Replace the rows."""
        signs = binding.array(self.signs, self.type.with_shape((self.type.shape[0], self.stride)))
        is_nan = np.isnan(signs[:, 0])
        if is_nan.any():
            binding.array(self.result, self.type)[is_nan] = np.nan
        return 0


def softmax_gradients(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of the gradients of softmaxes, and of their logarithms, in a graph."""
    for node in nodes:
        if node.primitive.name == "sub" and node.output.type.dtype in COMPUTED:
            for text, name in _GRADIENTS.items():
                match = matches(text, node, definer)
                if match is not None and _is_gradient(node, match, name, definer):
                    yield Gradient(node, match, name).group()


def _is_gradient(node: Node, match: Match, name: str, definer: Mapping[Value, Node]) -> bool:
    """Whether all are whole, and rows along one axis; in those of a logarithm all elements must be nan, or none."""
    g, y, kind = match["g"], match["y"], node.output.type
    if not g.type == y.type == kind or kind.size == 0 or kind.stacked:
        return False
    axes, maker = normalise_axes(match["AXES"], kind.rank), definer.get(y)
    is_along = maker is not None and maker.primitive.name == name and (maker.attrs["axis"] % kind.rank,) == axes
    return len(axes) == 1 and (is_along or name == "softmax")


class Gradient:
    """The gradient of a softmax, or of its logarithm, whose result is y."""

    def __init__(self, node: Node, match: Match, name: str) -> None:
        self.node, self.name, self.g, self.y = node, name, match["g"], match["y"]
        (self.axis,) = normalise_axes(match["AXES"], node.output.type.rank)

    def group(self) -> Group:
        """The group of the kernel."""
        return Group((self.node,), (self.g, self.y), (self.node.output,), self.emit)

    def emit(self, program: Program) -> None:
        """Append the kernel."""
        rows = _Rows(self.node.output.type, self.axis)
        layout, y = rows.layout, rows.read(program, self.y)
        forward = rows.forward(self.name)
        kernel = Primitive(f"{forward.kind}, gradient", "softmax_backward", library().engine, ALGORITHMS[self.name],
                           layout, layout, layout, 1, forward, None)  # fmt: skip
        result = program.scratch(layout)
        program.run(kernel, {
            Role.RESULT_GRADIENT: rows.read(program, self.g), Role.RESULT: y, Role.SOURCE_GRADIENT: result,
        })  # fmt: skip
        if self.name == "log_softmax":
            program.append(NanRows(result.buffer, rows.type, y.buffer, rows.type.shape[1], self.node))
        rows.write(program, self.node.output, result)
