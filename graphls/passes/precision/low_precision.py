"""The low_precision pass: products read operands of 8 bits or 4, each quantized once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, NamedTuple

from graphls.base.errors import GraphValueError
from graphls.ir.build import Builder
from graphls.ir.graph import Graph, Node, Value, Write, in_order, uses, walk
from graphls.ir.types import Type, float32, int64, type_of
from graphls.passes.adapters.weights import matches
from graphls.passes.manager import register_pass
from graphls.passes.precision.forms import Form
from graphls.passes.precision.recipes import RECIPES, Recipe, product_of
from graphls.passes.precision.scales import absolute_maximum
from graphls.passes.precision.second_runs import SecondRuns
from graphls.passes.rewriter import Rewriter
from graphls.primitives.shape import Reshape

RANDOM = "random_state"
SITES = 1 << 32
"""The number of the first random call site of the pass, above those of traces."""


class LowCell(NamedTuple):
    """The recipe of a cell, and the names of its states: by the role of a tensor, then by the name in its form."""

    recipe: Recipe
    states: Mapping[str, Mapping[str, str]]

    def of_products(self, has_weight: bool) -> LowCell | None:
        """The cell for products with a weight, or for those of two activations; None where they stay as they are."""
        return self if has_weight or self.recipe.attention else None


@register_pass
@dataclass(frozen=True)
class LowPrecision:
    """Let the products of cells read operands of 8 bits or 4, which are quantized and dequantized before them.

    Before:

        state @fc.weight: f32[4,2]
        %y = matmul(%x, @fc.weight) : f32[8,2]  // forward fc

    After, with `recipe=current`:

        state @fc.weight: f32[4,2]
        ...
        %quantized = quantize(%x, %scale) {block=[0, 0], dtype=f8e4m3fn} : f8e4m3fn[8,4]  // forward fc
        %x_1 = dequantize(%quantized, %inverse) {block=[0, 0], dtype=f32} : f32[8,4]  // forward fc
        ...
        %y = matmul(%x_1, %weight) : f32[8,2]  // forward fc

    It comes after `gradient`: the gradient is that of products which do not round (straight through), and then the
    products of the backward read low operands, too. A tensor is quantized once, and once more only where its blocks lie
    along another axis. An operand has the role of a weight, where it is a state behind casts and views, of a gradient
    or of an input. `recipe` is a name or a `Recipe`, `match` a shell-style pattern, or several, for the cells; a step
    that is compiled gives `cells`, a LowCell for each scope, instead.

    States of a form, such as the history of maxima of delayed scaling, are read where their values are rounded, and
    written in steps that have a backward and no overflow. A product in a branch or a loop cannot write them: it reads
    those of a tensor of the cell outside, as where a forward runs again, or takes the scale from the tensor itself. A
    maximum that is not finite counts as 0.

    Where ranks reduce gradients, the maximum of a complete input or gradient is the greatest of all ranks; a weight is
    the same on all of them. Those of branches and loops, in which nothing communicates, are those of each rank; a
    forward that runs again in one has the maxima of its first run.

    Raises GraphValueError for the name of a recipe that there is not.
    """

    recipe: Any = "current"
    match: Any = None
    cells: Any = None
    name = "low_precision"

    def __post_init__(self) -> None:
        if isinstance(self.recipe, str) and self.recipe not in RECIPES:
            text = f"There is no recipe {self.recipe!r}"
            raise GraphValueError(f"{text}; there are {', '.join(RECIPES)}, and objects of your own class.")

    def run(self, graph: Graph) -> Graph:
        """The graph whose products read low operands."""
        return _LowPrecision(graph, self).run()

    def cell(self, node: Node) -> LowCell | None:
        """The recipe for a product, if it has one."""
        if self.cells is not None:
            cell: LowCell | None = self.cells.get(node.scope)
            return cell
        if not matches(self.match, node.scope):
            return None
        recipe = RECIPES[self.recipe]() if isinstance(self.recipe, str) else self.recipe
        roles = ("input", "weight", "gradient") if node.scope else ()
        names = {role: {s: f"{node.scope}.{role}_{s}" for s in ("amax_history", "scale")} for role in roles}
        return LowCell(recipe, names)


@dataclass
class _Tensor:
    """One role of a cell whose scale is a state: its form, the states, and the maxima of this step."""

    node: Node
    form: Form
    states: Mapping[str, Value]
    maxima: list[Value] = field(default_factory=list)


class More:
    """What forms need besides the value: the states of the tensor, its maximum on all ranks, and random numbers."""

    def __init__(
        self, rewriting: _LowPrecision, value: Value, role: str, states: Mapping[str, Value],
        before: Iterable[Value] = (),
    ) -> None:  # fmt: skip
        self.rewriting, self.value, self.role, self.states = rewriting, value, role, states
        self.before = iter(before)
        self.maxima: list[Value] = []
        """The maxima of all ranks in the order in which a form asks for them; `before` has those of a first run."""

    def absolute_maximum(self, x: Value) -> Value:
        """The float32 absolute maximum of all elements, the greatest of all ranks where these have other elements."""
        e = self.rewriting.e
        own = absolute_maximum(e, x, (0,) * x.rank)
        if self.role == "weight":
            return own
        before = next(self.before, None)
        if before is None:
            (greatest,) = self.rewriting.of_all_ranks(e, [own], bucket=(1,))
        else:
            greatest = e.maximum(own, before)
        self.maxima.append(greatest)
        return greatest

    def uniform(self, kind: Type) -> Value:
        """Float32 numbers between -1/2 and 1/2 of that shape, which differ in every step and are drawn once a tensor.

        So the roundings of a gradient for two products read the same ones, and each has the gradient as its mean.
        """
        drawn = self.rewriting.drawn_for(self.value, kind)
        return drawn if drawn.shape == kind.shape else self.rewriting.e.reshape(drawn, shape=kind.shape)

    def in_branch(self, form: Form, x: Value) -> Graph:
        """A region that rounds x to a form without states, from the maxima of this rank."""
        return self.rewriting.in_branch(form, x, self.role)


class _LowPrecision(Rewriter):
    """The sweep; `gradients` are the values that depend on the gradient of a result of the forward."""

    def __init__(self, graph: Graph, options: LowPrecision) -> None:
        super().__init__(graph)
        self.options = options
        self.depth = self.sites = 0
        self.gradients: set[Value] = set()
        self.rounded: list[dict[tuple[Value, Form | Type], Value]] = []
        self.with_weight: set[tuple[str, Value]] = set()
        self.known = {state.name: state for state in graph.states}
        self.added: list[Value] = []
        self.tensors: dict[tuple[str, str], _Tensor] = {}
        self.flags: list[Value] = []
        self.ranks = _ranks(graph)
        self.runs = SecondRuns()
        self.maxima: dict[tuple[Value, Form], list[Value]] = {}

    def run(self) -> Graph:
        trains = any(_starts_backward(node) for node in self.graph.nodes)
        graph = super().run()
        tail = Builder(self.names)
        writes = [*self.random_write(tail), *(self.writes(tail) if trains else ())]
        states = (*graph.states, *self.added)
        nodes = (*graph.nodes, *tail.nodes)
        nodes = in_order(nodes) if self.ranks else nodes  # so that all ranks communicate in one order
        return graph.replace(nodes=nodes, states=states, writes=(*graph.writes, *writes))

    def block(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        self.depth += 1
        self.rounded.append({})
        try:
            return super().block(nodes)
        finally:
            self.depth -= 1
            self.rounded.pop()

    def exchanged(self, node: Node) -> Node:
        for region in node.regions:  # a loop hands its operands to the last parameters of its region
            pairs = zip(reversed(region.inputs), reversed(node.inputs), strict=False)
            self.gradients.update(own for own, value in pairs if value in self.gradients)
        return super().exchanged(node)

    def define(self, node: Node) -> None:
        super().define(node)
        if _starts_backward(node) or not self.gradients.isdisjoint(uses(node)):
            self.gradients.update(node.outputs)

    def visit(self, node: Node) -> Node | Sequence[Value]:
        if self.ranks:
            self.runs.note(node, self.depth > 1)
        if node.primitive.is_check and self.depth == 1:
            self.flags += node.outputs
        if node.primitive.summed_axes is None or (cell := self.options.cell(node)) is None:
            return node
        operands = node.inputs[:2]
        roles = [self.role(value) for value in operands]
        product = product_of(roles)
        if product == "forward" and "weight" in roles:
            self.with_weight.update((node.scope, self.base(value, is_cast=True)) for value in operands)
        has_weight = "weight" in roles if product == "forward" else self.has_weight(node, roles)
        cell = cell.of_products(has_weight)
        if product is None or cell is None:
            return node
        axes = node.primitive.summed_axes(*(v.type for v in node.inputs), **node.attrs)
        ends = zip(operands, roles, axes, strict=True)
        read = [self.low(cell, node, value, role, product, own) for value, role, own in ends]
        return replace(node, inputs=(*read, *node.inputs[2:]))

    def role(self, value: Value) -> str:
        """What a value is for a product: a gradient, a weight, or an input."""
        if value in self.gradients:
            return "gradient"
        return "weight" if self.base(value, is_cast=True).is_state else "input"

    def has_weight(self, node: Node, roles: Sequence[str]) -> bool:
        """Whether a product of the backward belongs to one with a weight."""
        known = (v for v, role in zip(node.inputs[:2], roles, strict=True) if role != "gradient")
        return any((node.scope, self.base(value, is_cast=True)) in self.with_weight for value in known)

    def base(self, value: Value, is_cast: bool = False) -> Value:
        """The value behind nodes that move it, and behind casts where `is_cast`."""
        while (node := self.mover(value)) is not None or (is_cast and (node := self.cast(value)) is not None):
            value = node.inputs[0]
        return value

    def mover(self, value: Value) -> Node | None:
        """The node that moves the elements of another value to this one."""
        node = self.definer.get(value)
        return node if node is not None and node.primitive.moves and len(node.inputs) == 1 else None

    def cast(self, value: Value) -> Node | None:
        node = self.definer.get(value)
        return node if node is not None and node.primitive.is_transparent and len(node.inputs) == 1 else None

    def low(
        self, cell: LowCell, node: Node, value: Value, role: str, product: str, axes: tuple[int, ...]
    ) -> Value:
        """An operand after rounding; as it is where the recipe has no form for it."""
        form = cell.recipe.form(role, product, value.type, axes)
        if form is None or not value.type.dtype.is_float or not value.type.size:
            return value
        is_outside = self.depth == 1 or (node.scope, role) in self.tensors
        if form.states and not (is_outside and role in cell.states):
            form = form.without_states
        return self.seen(value, form) or self.through(cell, node, value, role, form)

    def through(self, cell: LowCell, node: Node, value: Value, role: str, form: Form) -> Value:
        """The rounded value; a form of the whole tensor rounds the tensor behind the nodes that move it."""
        mover = self.mover(value) if form.is_whole else None
        if mover is None:
            tensor = self.tensor(cell, node, role, form)
            start = len(self.e.nodes)
            result = self.rounded_by(form, value, role, tensor)
            self.say_role(start, role)
            return self.remember(value, form, result)
        source = self.seen(mover.inputs[0], form) or self.through(cell, node, mover.inputs[0], role, form)
        (result,) = self.e.emit(mover.primitive, (source,), mover.attrs, after=mover.after, name=value.name)
        return self.remember(value, form, result)

    def say_role(self, start: int, role: str) -> None:
        """Write the role on the nodes from `start` on that bring low values back, for readers of the graph."""
        for at, node in enumerate(self.e.nodes[start:], start):
            if node.primitive.name == "dequantize":
                self.e.nodes[at] = replace(node, attrs={**node.attrs, "role": role})

    def rounded_by(self, form: Form, value: Value, role: str, tensor: _Tensor | None) -> Value:
        """The rounded value; where the form has states, the maximum of the value is for their next ones."""
        if tensor is None:
            more = More(self, value, role, {}, self.maxima.get((self.runs.first.get(value, value), form), ()))
            result = form.rounded(self.e, value, more)
            if self.depth == 1:
                self.maxima[value, form] = more.maxima
            return result
        start = len(self.e.nodes)
        result = form.rounded(self.e, value, More(self, value, role, tensor.states))
        if self.depth > 1:  # a second run of what has been measured outside
            return result
        measured = [n for n in self.e.nodes[start:] if n.primitive.name == "absolute_maximum" and n.inputs[0] is value]
        block = (0,) * value.type.rank
        tensor.maxima.append(measured[0].output if measured else self.e.absolute_maximum(value, block=block))
        return result

    def in_branch(self, form: Form, x: Value, role: str) -> Graph:
        """A region that rounds x to a form without states."""
        around, self.e, self.depth = self.e, Builder(self.names), self.depth + 1
        self.rounded.append({})
        try:
            self.e.follow(around)
            result = form.rounded(self.e, x, More(self, x, role, {}))
            return Graph("region", (), (), tuple(self.e.nodes), (), (result,))
        finally:
            self.e, self.depth = around, self.depth - 1
            self.rounded.pop()

    def seen(self, value: Value, form: Form | Type) -> Value | None:
        """The rounded value, or random numbers of a type for it, where this block or one around it has them."""
        return next((block[value, form] for block in reversed(self.rounded) if (value, form) in block), None)

    def remember(self, value: Value, form: Form | Type, result: Value) -> Value:
        self.rounded[-1][value, form] = result
        return result

    def tensor(self, cell: LowCell, node: Node, role: str, form: Form) -> _Tensor | None:
        """The states of a role of a cell, and its maxima in this step; None for a form without states."""
        if not form.states:
            return None
        key = node.scope, role
        if key not in self.tensors:
            names = cell.states[role]
            states = {name: self.state(names[name], type_of(initial)) for name, initial in form.states.items()}
            self.tensors[key] = _Tensor(node, form, states)
        return self.tensors[key]

    def state(self, name: str, kind: Type) -> Value:
        """A state of the graph, added where it has none of that name."""
        if name not in self.known:
            self.known[name] = Value(name, kind, is_state=True)
            self.names.taken.add(name)
            self.added.append(self.known[name])
        return self.known[name]

    def writes(self, e: Builder) -> Iterator[Write]:
        """The new states of all tensors, from the greatest of their maxima on all ranks."""
        tensors = [*self.tensors.values()]
        for tensor, maximum in zip(tensors, self.of_all_ranks(e, [_greatest(e, t) for t in tensors]), strict=True):
            e.follow(tensor.node, "update")
            maximum = e.where(e.is_finite(maximum), maximum, e.constant(0, float32))
            new = tensor.form.updated(e, maximum, tensor.states)
            for name, value in new.items():
                yield Write(tensor.states[name], self.unless_skipped(e, tensor.states[name], value))

    def of_all_ranks(self, e: Builder, maxima: list[Value], **bucket: tuple[int, ...]) -> Sequence[Value]:
        """The greatest of each maximum on all ranks, in one communication; in branches and loops those of this rank."""
        if not self.ranks or not maxima or self.depth > 1:
            return maxima
        return e.emit("all_reduce", maxima, {"op": "max", **self.ranks, **bucket})[1:]

    def unless_skipped(self, e: Builder, old: Value, new: Value) -> Value:
        """The new state, or the old one in a step that an overflow skips."""
        for flag in self.flags:
            new = e.where(flag, old, new)
        return new

    def drawn_for(self, value: Value, kind: Type) -> Value:
        """Random numbers for a value, the same for all its shapes."""
        while (mover := self.mover(value)) is not None and isinstance(mover.primitive, Reshape):
            value = mover.inputs[0]
        flat = kind.with_shape((kind.size,))
        return self.seen(value, flat) or self.remember(value, flat, self.uniform(kind))

    def uniform(self, kind: Type) -> Value:
        """The middles of 256 parts of [-1/2, 1/2), by bytes of the host and a call site of their own.

        PTX's cvt.rs.satfinite.e2m1x4.f32 reads 32 random bits for four numbers, 8 for each. The middles leave the mean
        of the rounded numbers within 1/512 of the distance between two neighbours.
        """
        state = self.state(RANDOM, Type(int64, (2,)))
        self.sites += 1
        (drawn,) = self.e.emit("random_bytes", (state,), {"shape": kind.shape, "site": SITES + self.sites})
        numbers = self.e.mul(self.e.cast(drawn, dtype=float32), 2.0**-8)
        return self.e.add(numbers, 2.0**-9 - 0.5)  # type: ignore[no-any-return]

    def random_write(self, e: Builder) -> Iterable[Write]:
        """The next step of the random state, where nothing else advances it."""
        state = self.known.get(RANDOM)
        if not self.sites or state is None or any(write.state is state for write in self.graph.writes):
            return
        e.phase = "update"
        yield Write(state, e.add(state, e.constant([0, 1], int64)))


def _ranks(graph: Graph) -> Mapping[str, Any]:
    """The group of ranks that reduces gradients, and their number, as attributes; none where nothing is reduced."""
    reduced = [node for node in walk(graph) if node.primitive.is_collective and node.phase == "backward"]
    largest = max(reduced, key=lambda node: node.attrs["ranks"], default=None)
    return {} if largest is None else {name: largest.attrs[name] for name in ("group", "ranks")}


def _greatest(e: Builder, tensor: _Tensor) -> Value:
    """The greatest of the maxima of a tensor, a scalar."""
    e.follow(tensor.node, "update")
    first, *others = (e.reshape(maximum, shape=()) for maximum in tensor.maxima)
    greatest: Value = reduce(e.maximum, others, first)
    return greatest


def _starts_backward(node: Node) -> bool:
    """Whether a node hands in the gradient of a result, as the gradient pass does it."""
    is_depend = node.primitive.name == "depend" and node.phase == "backward"
    return is_depend and not node.attrs.get("recompute", False)
