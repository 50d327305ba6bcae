"""The memory of a step by liveness: each value counts from its definition to its last use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from graphls.ir.graph import Graph, Node, Value, uses, walk
from graphls.ir.plan import Plan
from graphls.ir.types import Type, bfloat16


@dataclass(frozen=True)
class Held:
    """A value that is alive, the node that computes it, and its bytes.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> x = np.ones((8, 8), np.float32)
        >>> memory = graphls.compile(nn.Dense(8, 8), x).profile(x, steps=2).memory
        >>> [(held.value.name, held.bytes) for held in memory.live][:1]
        [('matmul', 256)]
    """

    value: Value
    node: Node
    bytes: int


@dataclass(frozen=True)
class Memory:
    """The memory of a step whose nodes run in the order of the graph, in bytes.

    `peak` is all of it where it is largest: `states`, `inputs`, `constants` and values `crossing` between segments,
    which are always in memory, and `live`, the values that are alive while the node `at` runs, the largest first; `at`
    is None for a graph without nodes.
    `while_running` is the memory while each node runs, those in regions included, and `spans` has the values that are
    not always in memory: for each the numbers of the first and the last of these nodes at which it is alive, and its
    bytes.

    Examples:
        >>> import numpy as np
        >>> import graphls
        >>> from graphls import nn
        >>> x = np.ones((8, 8), np.float32)
        >>> memory = graphls.compile(nn.Dense(8, 8), x).profile(x, steps=2).memory
        >>> memory.states, memory.inputs, memory.peak >= memory.states + memory.inputs
        (288, 256, True)
    """

    peak: int
    states: int
    inputs: int
    constants: int
    at: Node | None
    live: tuple[Held, ...]
    while_running: Mapping[Node, int]
    crossing: int = 0
    spans: tuple[tuple[Value, int, int, int], ...] = ()

    @property
    def held(self) -> str:
        """The meaning of the bytes of `live` and `spans`, in a sentence or two."""
        text = "A value is held from the node that computes it to its last use."
        has_copies = any(size > value.type.nbytes for value, _, _, size in self.spans)
        copies = " A 16-bit float is held with the float32 copy that kernels on a CPU take: 6 bytes an element, not 2."
        return text + (copies if has_copies else "")


def memory_of(graph: Graph, backend: str, plan: Plan | None = None) -> Memory:
    """The memory of a step on "cpu" or "cuda" of ONNX Runtime, or on "numpy", in one piece or by a plan.

    A state that is not written in place counts twice; its new value is in one of its buffers. Host random inputs
    count twice, because those of the next step are drawn ahead. A 16-bit float takes 2 bytes and, on the CPU of ONNX
    Runtime, 6 where it is computed: itself and its float32 copy. ONNX Runtime holds states and inputs in bfloat16 as
    float32. On its CPU, products that only an exact overflow check reads are not computed; see
    runtime/lowering/finite.py. Values that cross between the segments of a plan are always in memory.
    """
    life = Lifetimes(graph, _delayed_on_cpu() if backend == "cpu" else _none_delayed)
    copies = 4 if backend == "cpu" else 0
    crossing = _crossing(plan) if plan else {}
    sizes = {value: 0 if value in crossing else _with_copy(value.type, copies) for value in life.spans}
    alive = _sums([(s.first, s.last, sizes[v]) for v, s in life.spans.items()], len(life.ticks))
    states = _states(plan.graph if plan else graph, backend)
    inputs, constants, crossed = _inputs(graph, backend), _constants(graph), sum(crossing.values())
    fixed, peak = states + inputs + constants + crossed, max(alive, default=0)
    tick = alive.index(peak) if alive else -1
    live = [Held(v, s.node, sizes[v]) for v, s in life.spans.items() if s.first <= tick <= s.last and sizes[v]]
    return Memory(
        peak=fixed + peak,
        states=states,
        inputs=inputs,
        constants=constants,
        crossing=crossed,
        at=life.ticks[tick] if alive else None,
        live=tuple(sorted(live, key=lambda held: -held.bytes)),
        while_running={node: fixed + size for node, size in zip(life.ticks, alive, strict=True)},
        spans=tuple((v, s.first, s.last, sizes[v]) for v, s in life.spans.items()),
    )


def _with_copy(type: Type, copy: int) -> int:
    """The bytes of a value, with `copy` more for each element that is a 16-bit float."""
    return type.nbytes + (copy * type.size if type.dtype.is_half else 0)


def _sums(spans: Iterable[tuple[int, int, int]], ticks: int) -> list[int]:
    """The sum of the bytes of spans (first, last, bytes) at each tick."""
    changes = [0] * (ticks + 1)
    for first, last, size in spans:
        changes[first] += size
        changes[last + 1] -= size
    return list(accumulate(changes[:ticks]))


def _states(graph: Graph, backend: str) -> int:
    twice = {write.state for write in graph.writes if not write.in_place}
    return sum(_outside(state, backend) * (2 if state in twice else 1) for state in graph.states)


def _inputs(graph: Graph, backend: str) -> int:
    random = [v for n in walk(graph) if n.primitive.on_host for v in n.outputs]
    return sum(_outside(v, backend) for v in graph.inputs) + 2 * sum(v.type.nbytes for v in random)


def _constants(graph: Graph) -> int:
    constants = (node for node in walk(graph) if node.primitive.is_constant)
    return sum(value.type.nbytes for node in constants for value in node.outputs)


def _outside(value: Value, backend: str) -> int:
    """The bytes of a value as an input or a state of a session."""
    return _with_copy(value.type, 2 if value.type.dtype is bfloat16 and backend != "numpy" else 0)


def _crossing(plan: Plan) -> dict[Value, int]:
    """The bytes of the values that cross between segments, by the values inside of the segments that compute them.

    A value in the buffer of another one has none.
    """
    from graphls.runtime.boundary_buffers import overwritten
    from graphls.runtime.lowering.types import exchanged  # which loads onnx

    crossing, replaced = set(plan.boundary_values), overwritten(plan)
    pairs = (pair for s in plan.segments for pair in zip(s.graph.outputs, s.gives, strict=True))
    return {inner: 0 if v in replaced else exchanged(v.type).nbytes for inner, v in pairs if v in crossing}


def _none_delayed(nodes: Sequence[Node], results: Iterable[Value]) -> Mapping[Value, Node]:
    return {}


def _delayed_on_cpu() -> Delayed:
    from graphls.runtime.lowering.finite import only_checked  # which loads onnx

    return only_checked


Delayed = Callable[[Sequence[Node], Iterable[Value]], Mapping[Value, Node]]
"""A function of the nodes and the results of a block that returns the nodes, by their values, that are not computed at
their positions; see runtime/lowering/finite.py."""


@dataclass(slots=True)
class Span:
    """The node that computes a value, and the first and the last tick at which the value is alive."""

    node: Node
    first: int
    last: int


class Lifetimes:
    """The spans of the values that take memory of their own.

    Each node has a tick, in the order of execution: one with regions before those in its regions. Its operands, results
    and captured values are alive until its last region has ended, values of a region until their last use there. A
    value that a branch yields is in the memory of the node's result, one that is written to a state in that of the
    state. Inputs, states, constants and host random inputs are always in memory and have no span; nor has a delayed
    value, whose operands stay alive instead.
    """

    def __init__(self, graph: Graph, delayed: Delayed) -> None:
        self.delayed = delayed
        self.ticks: list[Node] = []
        self.spans: dict[Value, Span] = {}
        self._owners: dict[Value, Value] = {}
        self._waiting: dict[Value, Node] = {}
        self._block(graph.nodes, (*graph.outputs, *(w.value for w in graph.writes)))
        self._use(graph.outputs)
        for write in graph.writes:
            self.spans.pop(self._owner(write.value), None)

    def _block(self, nodes: Sequence[Node], results: Iterable[Value]) -> None:
        self._waiting.update(self.delayed(nodes, results))
        for node in nodes:
            if not (node.outputs and node.outputs[0] in self._waiting):
                self._run(node)

    def _run(self, node: Node) -> None:
        tick = len(self.ticks)
        self.ticks.append(node)
        if node.primitive.is_view and not node.regions:
            for value, operand in zip(node.outputs, node.inputs, strict=False):
                self._owners.setdefault(value, operand)
        elif not is_permanent(node):
            self._make(node, node.outputs, tick)
        for region in node.regions:
            self._region(node, region, tick)
        self._use((*uses(node), *node.outputs))

    def _region(self, node: Node, region: Graph, tick: int) -> None:
        self._make(node, region.inputs, tick)
        if node.primitive.is_branch:
            own = {value for inner in region.nodes for value in inner.outputs}
            results = zip(region.outputs, node.outputs, strict=True)
            self._owners.update((value, result) for value, result in results if value in own)
        self._block(region.nodes, region.outputs)
        self._use(region.outputs)

    def _make(self, node: Node, values: Iterable[Value], tick: int) -> None:
        self.spans.update((v, Span(node, tick, tick)) for v in values if v not in self._owners)

    def _use(self, values: Iterable[Value]) -> None:
        """Extend the spans of values to the present tick."""
        for value in values:
            owner = self._owner(value)
            if owner in self._waiting:
                self._use(self._waiting[owner].inputs)
            elif owner in self.spans:
                self.spans[owner].last = len(self.ticks) - 1

    def _owner(self, value: Value) -> Value:
        while value in self._owners:
            value = self._owners[value]
        return value


def is_permanent(node: Node) -> bool:
    """Whether the results of a node are in memory before a step begins."""
    return node.primitive.is_constant or node.primitive.on_host
