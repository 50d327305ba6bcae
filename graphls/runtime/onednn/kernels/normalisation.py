"""Batch normalisation in training, forward and backward, as one kernel of oneDNN each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphls.ir.graph import Node, Value
from graphls.ir.types import float32
from graphls.passes.patterns.matching import Match, matches
from graphls.passes.rewriter import users
from graphls.primitives.primitive import normalise_axes
from graphls.runtime.onednn.binding import Descriptor, Primitive, Query, Role, floats
from graphls.runtime.onednn.kernels.convolution_shapes import images, own, result
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Group, Program

USE_SCALE, USE_SHIFT = 2, 4
TRAINING, BACKWARD = 64, 128

_CENTRED = "sub(sub(x, m), mean(sub(x, m), axis=AXES, keepdims=True))"
_VARIANCE = f"mean(square({_CENTRED}), axis=AXES, keepdims=True)"
_FORWARD = f"add(mul({_CENTRED}, mul(rsqrt(add({_VARIANCE}, EPSILON)), gamma)), beta)"

_ROOT = "rsqrt(add(variance, EPSILON))"
_TOTAL = "reshape(sum(mul(g, xc), ..., axis=AXES), ...)"
_SLOPE = f"mul(mul(mul(mul(mul({_TOTAL}, gamma), -0.5), mul({_ROOT}, square({_ROOT}))), SHARE), 2.0)"
_SUM = f"add(mul(g, mul({_ROOT}, gamma)), mul({_SLOPE}, xc))"
_BACKWARD = f"add({_SUM}, mul(reshape(neg(sum({_SUM}, ..., axis=AXES)), ...), SHARE))"


def normalisations(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of the batch normalisations of a graph: each forward, and its backward where that is whole."""
    forwards: dict[Value, Forward] = {}
    for node in nodes:
        if node.primitive.name == "add":
            match = matches(_FORWARD, node, definer)
            if match is not None and _is_by_channel(node, match, definer):
                forward = Forward(node, match, definer)
                forwards[forward.centred] = forward
                yield forward.group()
    if forwards:
        readers = users(nodes)
        for node in nodes:
            match = matches(_BACKWARD, node, definer) if node.primitive.name == "add" else None
            if match is not None and match["xc"] in forwards:
                yield from Backward(node, match, forwards[match["xc"]], readers).groups()


def _is_by_channel(node: Node, match: Match, definer: Mapping[Value, Node]) -> bool:
    """Whether each channel is normalised over all other axes, by its own mean, with a factor and a sum by channel."""
    x, mean = match["x"], definer.get(match["m"])
    rank = x.type.rank
    axes = (0, *range(2, rank))
    channels = (1, x.type.shape[1], *(1,) * (rank - 2)) if rank > 1 else ()
    if mean is None or mean.primitive.name != "mean" or mean.inputs != (x,) or not mean.attrs.get("keepdims"):
        return False
    means = (match["AXES"], mean.attrs.get("axis"))
    is_wide = node.output.type == x.type and x.type.dtype is float32
    fits = rank in (2, 3, 4, 5) and is_wide and all(normalise_axes(a, rank) == axes for a in means)
    return fits and match["gamma"].type.shape == match["beta"].type.shape == channels


class Forward:
    """A batch normalisation: its operands, and the values that its kernel gives."""

    def __init__(self, node: Node, match: Match, definer: Mapping[Value, Node]) -> None:
        self.node, self.x, self.mean = node, match["x"], match["m"]
        self.gamma, self.beta, self.epsilon = match["gamma"], match["beta"], match["EPSILON"]
        square = next(n for n in match.nodes if n.primitive.name == "square")
        self.centred = square.inputs[0]
        means = [n for n in match.nodes if n.primitive.name == "mean"]
        self.variance = next(n.output for n in means if definer.get(n.inputs[0]) is square)

    def group(self) -> Group:
        """The group of the forward."""
        inputs = self.x, self.gamma, self.beta
        return Group((self.node,), inputs, (self.mean, self.variance, self.node.output), self.emit)

    def primitive(self, layout: Descriptor) -> Primitive:
        """The forward kernel."""
        return Primitive("batch normalisation", "batch_normalization_forward", library().engine, TRAINING, layout,
                         layout, *floats(self.epsilon), USE_SCALE | USE_SHIFT, None)  # fmt: skip

    def layout(self, program: Program, dtype: int) -> Descriptor:
        """The layout of the images, or the common one where there is no fast kernel for that.

        Those of one axis have another of size 1, as there are fast kernels for two and three axes only.
        """
        shape = (*self.x.type.shape, 1) if self.x.type.rank == 3 else self.x.type.shape
        layout = program.stored(self.x).layout.with_dtype(dtype).reshaped(shape)
        if layout is None or self.primitive(layout).is_reference:
            return Descriptor.common(shape, dtype)
        return layout

    def emit(self, program: Program) -> None:
        """Append the forward kernel."""
        layout = self.layout(program, program.kernel_dtype(self.node.output, self.x))
        source = images(program, self.x, layout)
        by_channel = Descriptor.plain((self.x.type.shape[1],))
        mean, variance = program.scratch(by_channel), program.scratch(by_channel)
        program.run(self.primitive(source.layout), {
            Role.SOURCE: source, Role.SCALE: program.reshaped(self.gamma, by_channel),
            Role.SHIFT: program.reshaped(self.beta, by_channel), Role.MEAN: mean, Role.VARIANCE: variance,
            Role.RESULT: result(program, self.node.output, source.layout),
        })  # fmt: skip
        for value, view in ((self.mean, mean), (self.variance, variance)):
            program.alias(value, view._replace(layout=Descriptor.plain(value.type.shape)))


class Backward:
    """The gradients of a batch normalisation: of its images, its factors and its sums."""

    def __init__(self, node: Node, match: Match, forward: Forward, readers: Mapping[Value, list[Node]]) -> None:
        self.node, self.forward, self.g = node, forward, match["g"]
        root = next(n.output for n in match.nodes if n.primitive.name == "rsqrt")
        total = next(n.output for n in match.nodes if _is_total(n, match))
        self.scales = [n.output for n in readers.get(total, ()) if _is_product(n, root)]
        axes = normalise_axes(match["AXES"], self.g.type.rank)
        self.shifts = [n.output for n in readers.get(self.g, ()) if _is_sum(n, axes)]
        self.fits = match["gamma"] is forward.gamma and match["variance"] is forward.variance

    def groups(self) -> Iterator[Group]:
        """The group of the backward, where it belongs to the forward."""
        if self.fits:
            inputs = self.g, self.forward.x, self.forward.mean, self.forward.variance, self.forward.gamma
            yield Group((self.node,), inputs, (self.node.output, *self.scales, *self.shifts), self.emit)

    def emit(self, program: Program) -> None:
        """Append the backward kernel."""
        forward = self.forward
        dtype = program.kernel_dtype(self.node.output, forward.x, self.g)
        layout, engine = forward.layout(program, dtype), library().engine
        source = images(program, forward.x, layout)
        kernel = Primitive(
            "batch normalisation, gradients", "batch_normalization_backward", engine, BACKWARD, layout, layout, layout,
            *floats(forward.epsilon), USE_SCALE | USE_SHIFT, forward.primitive(layout), None,
        )  # fmt: skip
        by_channel = Descriptor.plain((forward.x.type.shape[1],))
        scale, shift = program.scratch(by_channel), program.scratch(by_channel)
        g = images(program, self.g, layout) if self.g.type == forward.x.type else self._repeated(program, layout)
        program.run(kernel, {
            Role.SOURCE: source, Role.RESULT_GRADIENT: g,
            Role.MEAN: program.reshaped(forward.mean, by_channel),
            Role.VARIANCE: program.reshaped(forward.variance, by_channel),
            Role.SCALE: program.reshaped(forward.gamma, by_channel), Role.SCALE_GRADIENT: scale,
            Role.SHIFT_GRADIENT: shift,
            Role.SOURCE_GRADIENT: result(program, self.node.output, kernel.layout(Query.SOURCE_GRADIENT)),
        })  # fmt: skip
        for values, view in ((self.scales, scale), (self.shifts, shift)):
            for value in values:
                program.alias(value, view._replace(layout=Descriptor.plain(value.type.shape)))

    def _repeated(self, program: Program, layout: Descriptor) -> View:
        """A gradient that is the same along some axes, such as that of a mean, in the shape of the images."""
        x = self.forward.x
        return View(program.converted(program.broadcast(self.g, x.type.shape), own(x, layout)).buffer, layout)


def _is_total(node: Node, match: Match) -> bool:
    """Whether a node is the sum of g * xc with axes of size 1."""
    products = {n.output for n in match.nodes if {*n.inputs} == {match["g"], match["xc"]}}
    sums = {n.output for n in match.nodes if n.primitive.name == "sum" and n.inputs[0] in products}
    return node.primitive.name == "reshape" and node.inputs[0] in sums


def _is_product(node: Node, r: Value) -> bool:
    return node.primitive.name == "mul" and r in node.inputs


def _is_sum(node: Node, axes: tuple[int, ...]) -> bool:
    is_sum = node.primitive.name == "sum"
    return is_sum and normalise_axes(node.attrs.get("axis"), node.inputs[0].type.rank) == axes
