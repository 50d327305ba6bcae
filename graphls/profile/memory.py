"""How much memory a step takes, by liveness: each value from where it is made to where it is used last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.plan import Plan
from graphls.ir.types import Type, bfloat16
from graphls.profile.lifetimes import Delayed, Lifetimes


@dataclass(frozen=True)
class Held:
    """A value that is alive, the node that makes it, and how many bytes it takes.

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

    `peak` is all of it where it is largest: `states`, `inputs`, `constants` and what is `crossing` between segments,
    which are always there, and `live`, the values that are alive while the node `at` runs, the largest first; `at` is
    None for a graph without nodes.
    `while_running` is what is there while each node runs, those in regions included, and `spans` has the values that
    are not always there: for each the numbers of the nodes of these from and to which it is alive, and its bytes.

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


def memory_of(graph: Graph, backend: str, plan: Plan | None = None) -> Memory:
    """The memory of a step on "cpu" or "cuda" of ONNX Runtime, or on "numpy", in one piece or by a plan.

    A state that is not written in place counts twice; its new value is in one of its buffers. What the host draws
    counts twice, because that of the next step is drawn ahead. A 16-bit float takes 2 bytes and, on the CPU of ONNX
    Runtime, 6 where it is computed: itself and its float32 copy. ONNX Runtime holds states and inputs in bfloat16 as
    float32. On its CPU, products that only an overflow check would read are not made; see backends/onnx/finite.py.
    What crosses between the segments of a plan is always there.
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
    """What spans (first, last, bytes) sum up to at each tick."""
    changes = [0] * (ticks + 1)
    for first, last, size in spans:
        changes[first] += size
        changes[last + 1] -= size
    return list(accumulate(changes[:ticks]))


def _states(graph: Graph, backend: str) -> int:
    twice = {write.state for write in graph.writes if not write.in_place}
    return sum(_outside(state, backend) * (2 if state in twice else 1) for state in graph.states)


def _inputs(graph: Graph, backend: str) -> int:
    drawn = [v for n in walk(graph) if n.primitive.on_host for v in n.outputs]
    return sum(_outside(v, backend) for v in graph.inputs) + 2 * sum(v.type.nbytes for v in drawn)


def _constants(graph: Graph) -> int:
    constants = (node for node in walk(graph) if node.primitive.is_constant)
    return sum(value.type.nbytes for node in constants for value in node.outputs)


def _outside(value: Value, backend: str) -> int:
    """The bytes of a value at the border of a session."""
    return _with_copy(value.type, 2 if value.type.dtype is bfloat16 and backend != "numpy" else 0)


def _crossing(plan: Plan) -> dict[Value, int]:
    """The bytes of what crosses between segments, by the values inside of those that make it.

    What takes the place of another value has none.
    """
    from graphls.backends.onnx.types import exchanged  # which loads onnx
    from graphls.backends.slots import overwritten

    crossing, replaced = set(plan.crossing), overwritten(plan)
    given = (pair for s in plan.segments for pair in zip(s.graph.outputs, s.gives, strict=True))
    return {inner: 0 if v in replaced else exchanged(v.type).nbytes for inner, v in given if v in crossing}


def _none_delayed(nodes: Sequence[Node], kept: Iterable[Value]) -> Mapping[Value, Node]:
    return {}


def _delayed_on_cpu() -> Delayed:
    from graphls.backends.onnx.finite import only_checked  # which loads onnx

    return only_checked
