"""The layouts in which the states of a plan live: those that kernels of convolutions want, which updates take over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphls.ir.graph import Node, Value
from graphls.ir.plan import Segment
from graphls.ir.types import float32
from graphls.runtime.engine import PlanContext
from graphls.runtime.onednn.binding import DATA_TYPES, Descriptor
from graphls.runtime.onednn.blocked import BlockedArray
from graphls.runtime.onednn.kernels.convolution import weights_layout
from graphls.runtime.onednn.program.program import COMPUTED
from graphls.runtime.onednn.rules import takes


@dataclass(frozen=True, eq=False)
class StateLayouts:
    """The layouts of values of a plan, and those of the states among them by their names; others are in row-major
    order, as those in `rows` have to be."""

    values: Mapping[Value, Descriptor] = field(default_factory=dict)
    states: Mapping[str, Descriptor] = field(default_factory=dict)
    rows: frozenset[str] = frozenset()

    def are_current(self, context: PlanContext) -> bool:
        """Whether no state of a plan lives in another layout, into which another step has brought it."""
        blocked = ((n, layout) for n, layout in _living(context) if n not in self.rows)
        return all(n in self.states and layout.equals(self.states[n]) for n, layout in blocked)


def layouts_of(context: PlanContext, engine: str) -> StateLayouts:
    """The layouts of a plan; states that segments of other engines read or write too are in row-major order.

    Values that elementwise nodes connect share one: a weight, its gradient, its moments and their new values. It is
    that in which one of the states lives already, if the step that has brought it there writes states or this one does
    not, else what the kernel of a convolution wants.
    """
    segments = [segment for segment in context.plan.segments if segment.engine == engine]
    others = [segment for segment in context.plan.segments if segment.engine != engine]
    nodes = [node for segment in segments for node in segment.graph.nodes]
    states = {state.name: state for segment in segments for state in segment.graph.states}
    layouts = [(states[name], layout) for name, layout in _living(context) if name in states]
    layouts += _of_convolutions(nodes)
    if not layouts:
        return StateLayouts()
    sets = _Sets(states)
    sets.join_all(segments, nodes, {value.type.shape for value, _ in layouts})
    chosen: dict[Value, Descriptor] = {}
    for value, layout in layouts:
        chosen.setdefault(sets.first(value), layout)
    fixed = {state.name for segment in others for state in segment.graph.states}
    fixed.update(name for name, state in states.items() if not _may_be_blocked(state, context))
    refused = {sets.first(states[name]) for name in fixed if name in states}
    owned = {first for state in states.values() if (first := sets.first(state)) in chosen} - refused
    values = sets.with_layouts({first: chosen[first] for first in owned})
    rows = fixed | {name for name, state in states.items() if sets.first(state) in refused}
    return StateLayouts(values, {name: values[s] for name, s in states.items() if s in values}, frozenset(rows))


def _living(context: PlanContext) -> Iterator[tuple[str, Descriptor]]:
    """The states that live in a layout that counts for a plan, with that."""
    writes = bool(context.plan.graph.writes)
    for name, parameter in context.parameters.items():
        buffer = parameter.storage.current
        if isinstance(buffer, BlockedArray) and buffer.is_written >= writes:
            yield name, buffer.layout


def _of_convolutions(nodes: Sequence[Node]) -> Iterator[tuple[Value, Descriptor]]:
    """Weights of convolutions, with the layouts that their kernels want, unless these are padded or row-major."""
    for node in nodes:
        name = node.primitive.name
        if name in ("convolution", "convolution_add") and node.attrs.get("groups", 1) == 1 and takes(node):
            weights, layout = node.inputs[1], weights_layout(node)
            if layout.is_dense and not layout.is_plain:
                yield weights, layout


def _may_be_blocked(state: Value, context: PlanContext) -> bool:
    return state.type.dtype is float32 and context.parameters[state.name].storage.division is None


class _Sets:
    """Sets of values that share a layout; each is known by the first value that is reached from its members."""

    def __init__(self, states: Mapping[str, Value]) -> None:
        self.states = states
        self.next: dict[Value, Value] = {}

    def first(self, value: Value) -> Value:
        """The value by which the set of a value is known."""
        value = self.states[value.name] if value.is_state else value
        while value in self.next:
            value = self.next[value]
        return value

    def join(self, values: Sequence[Value]) -> None:
        """Let values be in one set."""
        for value in values[1:]:
            one, other = self.first(values[0]), self.first(value)
            if one is not other:
                self.next[other] = one

    def join_all(self, segments: Sequence[Segment], nodes: Sequence[Node], shapes: set[tuple[int, ...]]) -> None:
        """Join what elementwise nodes, writes and borders of segments connect, of some shapes."""
        pairs = [(write.state, write.value) for segment in segments for write in segment.graph.writes]
        pairs += [pair for segment in segments for pair in zip(segment.graph.outputs, segment.gives, strict=True)]
        nodes = [node for node in nodes if node.primitive.elementwise and takes(node)]
        for values in (*pairs, *((node.output, *node.inputs) for node in nodes)):
            if values[0].type.shape in shapes:
                self.join([v for v in values if v.type.shape == values[0].type.shape and v.type.dtype in COMPUTED])

    def with_layouts(self, chosen: Mapping[Value, Descriptor]) -> dict[Value, Descriptor]:
        """The members of sets, with the layouts of these in their dtypes."""
        members = (*self.states.values(), *self.next, *chosen)
        layouts: dict[tuple[Value, int], Descriptor] = {}
        values: dict[Value, Descriptor] = {}
        for value in dict.fromkeys(members):
            first, dtype = self.first(value), DATA_TYPES.get(value.type.dtype, 0)
            if first in chosen:
                key = first, dtype
                if key not in layouts:
                    layouts[key] = chosen[first].with_dtype(dtype)
                values[value] = layouts[key]
        return values
