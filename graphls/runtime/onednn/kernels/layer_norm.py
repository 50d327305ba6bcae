"""Layer normalisation of rows of one axis or several, forward and backward, as one kernel of oneDNN each.

Group and instance normalisation contain one without factors and sums, on rows that are made by a reshape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isclose, prod

from graphls.ir.graph import Node, Value
from graphls.ir.types import float32
from graphls.passes.patterns.matching import CLOSE, matches
from graphls.passes.patterns.terms import number_of
from graphls.passes.rewriter import users
from graphls.passes.simplify.compositions import NORMALISED
from graphls.primitives.primitive import normalise_axes
from graphls.runtime.onednn.binding import F32, Descriptor, Primitive, Role, floats
from graphls.runtime.onednn.elementwise.elementwise import elementwise
from graphls.runtime.onednn.library import library
from graphls.runtime.onednn.program.calls import View
from graphls.runtime.onednn.program.program import Group, Program

USE_SCALE, USE_SHIFT = 2, 4
TRAINING, BACKWARD = 64, 128
MOST = 64
"""Values up to which the origin of a parameter is searched."""


def layer_normalisations(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of the layer normalisations of a graph: each forward, and its backward where that is whole."""
    readers: Mapping[Value, list[Node]] = {}
    for node in nodes:
        if node.primitive.name != "mul" or node.output.type.dtype is not float32:
            continue
        forward = _forward(node, definer)
        if forward is not None:
            readers = readers or users(nodes)
            affine = _affine(forward, definer, readers)
            yield from (f.group() for f in (forward, affine) if f is not None)
            yield from _backward(forward, affine, definer, readers)


@dataclass
class Forward:
    """A normalisation: its operands, and the values that its kernel gives; `axes` are the last ones of x."""

    node: Node
    x: Value
    centred: Value
    mean: Value
    variance: Value
    root: Value
    epsilon: float
    axes: tuple[int, ...]
    gamma: Value | None = None
    beta: Value | None = None

    @property
    def size(self) -> int:
        """The number of elements of a row."""
        return prod(self.x.type.shape[i] for i in self.axes)

    @property
    def flags(self) -> int:
        """Which parameters the kernel takes."""
        return (USE_SCALE if self.gamma else 0) | (USE_SHIFT if self.beta else 0)

    def group(self) -> Group:
        """The group of the forward."""
        inputs = tuple(v for v in (self.x, self.gamma, self.beta) if v is not None)
        return Group((self.node,), inputs, (self.mean, self.variance, self.node.output), self.emit)

    def layouts(self, dtype: int = F32) -> tuple[Descriptor, Descriptor, Descriptor]:
        """The layouts of the rows, of their statistics, and of the parameters."""
        count, size = self.x.type.size // self.size, self.size
        return Descriptor.plain((count, size), dtype), Descriptor.plain((count,)), Descriptor.plain((size,))

    def primitive(self, dtype: int) -> Primitive:
        """The forward kernel."""
        rows, statistics, _ = self.layouts(dtype)
        return Primitive("layer normalisation", "layer_normalization_forward", library().engine, TRAINING, rows, rows,
                         statistics, *floats(self.epsilon), self.flags, None)  # fmt: skip

    def parameters(self, program: Program) -> dict[int, View]:
        """The views of the parameters."""
        layout = self.layouts()[2]
        operands = ((Role.SCALE, self.gamma), (Role.SHIFT, self.beta))
        return {role: program.reshaped(value, layout) for role, value in operands if value is not None}

    def emit(self, program: Program) -> None:
        """Append the forward kernel."""
        dtype = program.kernel_dtype(self.node.output, self.x)
        rows, statistics, _ = self.layouts(dtype)
        mean, variance, result = (program.scratch(layout) for layout in (statistics, statistics, rows))
        program.run(self.primitive(dtype), {
            Role.SOURCE: program.reshaped(self.x, rows), Role.MEAN: mean, Role.VARIANCE: variance, Role.RESULT: result,
            **self.parameters(program),
        })  # fmt: skip
        for value, view in ((self.mean, mean), (self.variance, variance), (self.node.output, result)):
            program.alias(value, View(view.buffer, Descriptor.plain(value.type.shape, view.layout.dtype)))


def _forward(node: Node, definer: Mapping[Value, Node]) -> Forward | None:
    """The normalisation without parameters whose last node this is."""
    match = matches(NORMALISED, node, definer)
    if match is None or match["x"].type != node.output.type:
        return None
    x, rank = match["x"], match["x"].type.rank
    axes = normalise_axes(match["AXES"], rank)
    if not axes or axes != tuple(range(axes[0], rank)) or x.type.stacked or not x.type.size:
        return None
    root = next(v for v in node.inputs if v.type != x.type or definer[v].primitive.name == "rsqrt")
    square = next(n for n in match.nodes if n.primitive.name == "square")
    means = {n.inputs[0]: n.output for n in match.nodes if n.primitive.name == "mean"}
    return Forward(node, x, square.inputs[0], means[x], means[square.output], root, match["EPSILON"], axes)


def _affine(
    forward: Forward, definer: Mapping[Value, Node], readers: Mapping[Value, list[Node]]
) -> Forward | None:  # fmt: skip
    """The normalisation with its factors, and its sums if there are some."""
    product, gamma = _with_parameter("mul", forward.node, forward, readers)
    if gamma is None or not _is_apart(gamma, forward, definer):
        return None
    total, beta = _with_parameter("add", product, forward, readers)
    if beta is None or len(readers[product.output]) > 1 or not _is_apart(beta, forward, definer):
        return replace(forward, node=product, gamma=gamma)
    return replace(forward, node=total, gamma=gamma, beta=beta)


def _is_apart(parameter: Value, forward: Forward, definer: Mapping[Value, Node]) -> bool:
    """Whether a parameter needs none of the statistics, which come with the result."""
    waiting, seen = [parameter], set[Value]()
    while waiting and len(seen) < MOST:
        value = waiting.pop()
        if value not in seen:
            seen.add(value)
            waiting.extend(definer[value].inputs if value in definer else ())
    return not waiting and seen.isdisjoint((forward.mean, forward.variance))


def _with_parameter(
    name: str, node: Node, forward: Forward, readers: Mapping[Value, list[Node]]
) -> tuple[Node, Value | None]:  # fmt: skip
    """The reader of a node that is the product or the sum with a parameter, and that; the node itself without one."""
    shape = forward.x.type.shape[forward.axes[0] :]
    for reader in readers.get(node.output, ()):
        if reader.primitive.name == name and reader.phase == node.phase:
            for value in reader.inputs:
                if value is not node.output and value.type.shape == shape != forward.x.type.shape:
                    return reader, value
    return node, None


@dataclass
class Backward:
    """The gradients of a normalisation: of its rows, its factors and its sums; g is that of its result."""

    node: Node
    forward: Forward
    g: Value
    gradient: Value
    scales: Sequence[Value] = ()
    shifts: Sequence[Value] = ()

    def group(self) -> Group:
        """The group of the backward."""
        forward = self.forward
        operands = (self.g, forward.x, forward.mean, forward.variance, forward.gamma, forward.beta)
        inputs = tuple(v for v in operands if v is not None)
        return Group((self.node,), inputs, (self.gradient, *self.scales, *self.shifts), self.emit)

    def emit(self, program: Program) -> None:
        """Append the backward kernel."""
        forward = self.forward
        dtype = program.kernel_dtype(self.gradient, forward.x, self.g)
        rows, statistics, parameters = forward.layouts(dtype)
        kernel = Primitive(
            "layer normalisation, gradients", "layer_normalization_backward", library().engine, BACKWARD, rows, rows,
            rows, statistics, *floats(forward.epsilon), forward.flags, forward.primitive(dtype), None,
        )  # fmt: skip
        gradient, scale, shift = (program.scratch(layout) for layout in (rows, parameters, parameters))
        views: dict[int, View] = {
            Role.SOURCE: program.reshaped(forward.x, rows), Role.RESULT_GRADIENT: program.reshaped(self.g, rows),
            Role.MEAN: program.reshaped(forward.mean, statistics), Role.SOURCE_GRADIENT: gradient,
            Role.VARIANCE: program.reshaped(forward.variance, statistics), **forward.parameters(program),
        }  # fmt: skip
        if forward.gamma:
            views[Role.SCALE_GRADIENT] = scale
        if forward.beta:
            views[Role.SHIFT_GRADIENT] = shift
        program.run(kernel, views)
        for values, view in (((self.gradient,), gradient), (self.scales, scale), (self.shifts, shift)):
            for value in values:
                program.alias(value, View(view.buffer, Descriptor.plain(value.type.shape, view.layout.dtype)))


def _backward(
    forward: Forward, affine: Forward | None, definer: Mapping[Value, Node], readers: Mapping[Value, list[Node]]
) -> Iterator[Group]:  # fmt: skip
    """The groups of the gradients, with those of sums of the gradient of x with others that lie within it.

    With s = g * root + slope * centred, where slope = -sum(g * centred) * root**3 / size, the gradient of x is s -
    sum(s) / size; gradients of x from elsewhere may stand in between.
    """
    for tilted in readers.get(forward.centred, ()):
        tilt = _tilted(tilted, forward, definer, readers)
        if tilt is None:
            continue
        total, g = tilt
        for node, others in _levelled(total, forward, definer, readers):
            inner = definer.get(g)
            gradient = node.output if not others else _new(node.output, "gradient")
            backward = Backward(node, forward, g, gradient)
            outer = None if affine is None or inner is None else _other(inner, "mul", affine.gamma)
            if affine is not None and outer is not None:
                backward = _scaled(replace(backward, forward=affine, g=outer), forward.node.output, readers)
            yield backward.group()
            yield from _sums(node, gradient, others)
            return
    if affine is not None:
        yield from _of_parameters(affine, forward.node.output, readers)


def _of_parameters(affine: Forward, normalised: Value, readers: Mapping[Value, list[Node]]) -> Iterator[Group]:
    """The group of the gradients of factors and sums, where nobody needs that of x."""
    for node in readers.get(normalised, ()):
        g = _other(node, "mul", normalised)
        if g is not None and g.type == affine.x.type and node.phase == "backward":
            backward = _scaled(Backward(node, affine, g, _new(g, "gradient")), normalised, readers)
            if backward.scales:
                yield backward.group()
                return


def _tilted(
    node: Node, forward: Forward, definer: Mapping[Value, Node], readers: Mapping[Value, list[Node]]
) -> tuple[Node, Value] | None:  # fmt: skip
    """The sum g * root + slope * centred, and g, where a node is its second product."""
    slope = _other(node, "mul", forward.centred)
    if slope is None or slope.type.shape != forward.root.type.shape:
        return None
    number, powers = _factors(slope, definer)
    totals = [v for v in powers if v is not forward.root]
    is_slope = powers[forward.root] == 3 and len(totals) == 1 and isclose(number * forward.size, -1, rel_tol=CLOSE)
    product = _summed(totals[0], forward.axes, definer) if is_slope else None
    g = _other(definer.get(product), "mul", forward.centred) if product is not None else None
    if g is None or g.type != forward.x.type:
        return None
    for reader in readers.get(node.output, ()):
        first = _other(reader, "add", node.output)
        if first is not None and _other(definer.get(first), "mul", forward.root) is g:
            return reader, g
    return None


def _levelled(
    total: Node, forward: Forward, definer: Mapping[Value, Node], readers: Mapping[Value, list[Node]]
) -> Iterator[tuple[Node, list[Value]]]:  # fmt: skip
    """The sums of a sum and its negative mean by rows, with the values that are added between them."""
    node, others = total, list[Value]()
    while True:
        sums = [reader for reader in readers.get(node.output, ()) if reader.primitive.name == "add"]
        for reader in sums:
            shift = _other(reader, "add", node.output)
            if shift is not None and _is_negative_mean(shift, total.output, forward, definer):
                yield reader, others
                return
        if len(sums) != 1 or sums[0].output.type != node.output.type:
            return
        other = _other(sums[0], "add", node.output)
        if other is None or other.type != node.output.type:
            return
        node, others = sums[0], [*others, other]


def _is_negative_mean(value: Value, total: Value, forward: Forward, definer: Mapping[Value, Node]) -> bool:
    if value.type.shape != forward.mean.type.shape:
        return False
    number, powers = _factors(value, definer)
    is_negative = isclose(number * forward.size, -1, rel_tol=CLOSE)
    return is_negative and [*powers.values()] == [1] and _summed(next(iter(powers)), forward.axes, definer) is total


def _scaled(backward: Backward, normalised: Value, readers: Mapping[Value, list[Node]]) -> Backward:
    """The gradients with those of factors and sums."""
    forward, g = backward.forward, backward.g
    axes = tuple(range(forward.axes[0]))
    weighted = [n for n in readers.get(g, ()) if _other(n, "mul", g) is normalised]
    scales = [n.output for w in weighted for n in readers.get(w.output, ()) if _is_sum(n, axes)]
    shifts = [n.output for n in readers.get(g, ()) if forward.beta is not None and _is_sum(n, axes)]
    return replace(backward, scales=scales, shifts=shifts)


def _sums(node: Node, gradient: Value, others: Sequence[Value]) -> Iterator[Group]:
    """The groups that add values to a gradient, the last of which gives the result of a node."""
    for number, other in enumerate(others):
        is_last = number == len(others) - 1
        result = node.output if is_last else _new(node.output, f"sum_{number}")
        total = replace(node, inputs=(gradient, other), outputs=(result,))
        yield Group((total,), total.inputs, total.outputs, partial(elementwise, nodes=(total,)), True)
        gradient = result


def _new(value: Value, name: str) -> Value:
    return Value(f"{value.name}.{name}", value.type)


def _is_sum(node: Node, axes: tuple[int, ...]) -> bool:
    is_sum = node.primitive.name == "sum"
    return is_sum and normalise_axes(node.attrs.get("axis"), node.inputs[0].type.rank) == axes


def _other(node: Node | None, name: str, value: Value | None) -> Value | None:
    """The other operand of a product or sum with a value; None where a node is none."""
    if node is None or value is None or node.primitive.name != name or value not in node.inputs:
        return None
    return node.inputs[1] if node.inputs[0] is value else node.inputs[0]


def _summed(value: Value, axes: tuple[int, ...], definer: Mapping[Value, Node]) -> Value | None:
    """What a value is the sum of along axes."""
    node = definer.get(value)
    return node.inputs[0] if node is not None and _is_sum(node, axes) else None


def _factors(value: Value, definer: Mapping[Value, Node]) -> tuple[float, Counter[Value]]:
    """A value as a number times powers of values, however its products are nested and reshaped."""
    node = definer.get(value)
    name = node.primitive.name if node is not None else ""
    if node is None or name not in ("mul", "neg", "square", "reshape", "constant"):
        return 1.0, Counter([value])
    if name == "constant":
        constant = number_of(node)
        return (1.0, Counter([value])) if constant is None else (constant, Counter())
    number, powers = _factors(node.inputs[0], definer)
    if name == "mul":
        second, others = _factors(node.inputs[1], definer)
        return number * second, powers + others
    if name == "square":
        return number * number, powers + powers
    return (-number if name == "neg" else number), powers
