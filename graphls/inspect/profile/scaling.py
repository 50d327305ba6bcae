"""Predicts the time and the memory of a training step on many ranks, from that of one rank and a network model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from graphls.base.errors import GraphValueError
from graphls.distributed.cost import Network
from graphls.inspect.profile.memory import memory_of
from graphls.ir.graph import Graph, Node, Value, needs, walk
from graphls.ir.plan import flattened, is_plan
from graphls.ir.reachability import dependencies, dependents
from graphls.passes.distributed.buckets import in_buckets

MOST_RANKS = 1 << 20
"""The most ranks that are considered for the point at which data parallel training stops paying."""
LEAST_EFFICIENCY = 0.5
"""The efficiency below which data parallel training does not pay."""


@dataclass(frozen=True)
class Bucket:
    """Gradients that ranks exchange together: their bytes, and the seconds of computation since the previous bucket."""

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Workload:
    """A training step of one rank.

    `buckets` are the gradients in the order in which the backward computes them, `rest` the seconds of the other nodes
    before the update, `update` those of the update. `parameters` and `moments` are bytes, `memory` those of the step at
    its peak.
    """

    buckets: tuple[Bucket, ...]
    rest: float
    update: float
    parameters: int
    moments: int
    memory: int

    @property
    def seconds(self) -> float:
        """The time of a step of one rank."""
        return self.before + self.update

    @property
    def before(self) -> float:
        """The time of forward and backward."""
        return sum(bucket.seconds for bucket in self.buckets) + self.rest

    @property
    def gradients(self) -> int:
        """The bytes of gradients that ranks exchange."""
        return sum(bucket.bytes for bucket in self.buckets)


@dataclass(frozen=True)
class Prediction:
    """A step on `ranks` ranks: its seconds, those of communication and of waiting for it, and bytes of each rank."""

    ranks: int
    seconds: float
    communication: float
    waiting: float
    memory: int

    @property
    def hidden(self) -> float:
        """The share of communication that takes place while the rank computes."""
        return max(0.0, 1 - self.waiting / self.communication) if self.communication else 1.0


@dataclass(frozen=True)
class Machines:
    """Machines with `ranks` ranks each, and cores that compute `places` steps of one rank at the same time.

    More ranks than that share the cores. While all cores compute, communication on one machine takes cores from
    computation, so that none of it is hidden.
    """

    ranks: int = 1
    places: float = 1

    def share(self, ranks: int) -> float:
        """The factor by which computation slows down with this number of ranks in all."""
        return max(1.0, min(ranks, self.ranks) / self.places)

    def may_hide(self, ranks: int) -> bool:
        """Whether communication overlaps with computation."""
        return ranks > self.ranks or ranks < self.places


@dataclass(frozen=True)
class Simulation:
    """A workload on a network; with `overlaps` a bucket is exchanged while the backward goes on."""

    work: Workload
    network: Network
    overlaps: bool = True
    machines: Machines = Machines()

    def on(self, ranks: int, is_sharded: bool = False, divided: int = 1) -> Prediction:
        """Predicts a step on `ranks` ranks, with a sharded optimizer or not, and with 1 / `divided` of the batch."""
        now = done = communication = 0.0
        share = self.machines.share(ranks)
        for bucket in self.work.buckets:
            seconds = self._reduced(ranks, bucket.bytes, is_sharded)
            now += share * bucket.seconds / divided
            done = max(now, done) + seconds
            communication += seconds
        now += share * self.work.rest / divided
        hides = self.overlaps and self.machines.may_hide(ranks)
        before = max(now, done) if hides else now + communication
        update = share * self.work.update / (ranks if is_sharded else 1) + self._scaled(ranks, is_sharded)
        gather = self._gathered(ranks) if is_sharded else 0.0
        waiting = before - now + gather
        memory = self._memory(ranks, is_sharded)
        return Prediction(ranks, before + update + gather, communication + gather, waiting, memory)

    def _reduced(self, ranks: int, size: int, is_sharded: bool) -> float:
        """The seconds to reduce a bucket; with shards, those of each rank are copied behind each other first."""
        if is_sharded and ranks > 1:
            return self.network.reduce_scatter(ranks, size) + self.network.passing(size)
        return self.network.all_reduce(ranks, size)

    def _scaled(self, ranks: int, is_sharded: bool) -> float:
        """The seconds to turn sums into means; with shards, those of parameters are cut out and written, too."""
        if ranks == 1:
            return 0.0
        return self.network.passing(self.work.gradients * (3 / ranks if is_sharded else 1))

    def _gathered(self, ranks: int) -> float:
        """The seconds to gather the shards of the parameters, and to copy them into these."""
        if ranks == 1:
            return 0.0
        return self.network.all_gather(ranks, self.work.parameters) + self.network.passing(self.work.parameters)

    def _memory(self, ranks: int, is_sharded: bool) -> int:
        """The bytes of each rank: received arrays replace the gradients, which one rank has, too; shards are packed."""
        work = self.work
        if ranks == 1 or not is_sharded:
            return work.memory
        return work.memory + work.gradients - (work.moments - -(-work.moments // ranks))

    def efficiency(self, prediction: Prediction) -> float:
        """The rows that each rank trains in a second, relative to those of one rank alone."""
        return self.work.seconds / prediction.seconds

    def pays_up_to(self) -> int | None:
        """The largest power of two of ranks with an efficiency of a half; None where that is beyond MOST_RANKS."""
        for ranks in _powers():
            if self.efficiency(self.on(ranks)) < LEAST_EFFICIENCY:
                return ranks // 2
        return None

    def best_for_one_batch(self) -> Prediction:
        """The fastest step where the batch of one rank is divided among a power of two of ranks."""
        predictions = [self.on(ranks, divided=ranks) for ranks in (1, *_powers())]
        return min(predictions, key=lambda prediction: prediction.seconds)


def _powers() -> Iterator[int]:
    ranks = 2
    while ranks <= MOST_RANKS:
        yield ranks
        ranks *= 2


def one_rank(graph: Graph) -> Graph:
    """The graph of a step of one rank, in one piece; raises GraphValueError for collectives and calls of Python."""
    flat = flattened(graph) if is_plan(graph) else graph
    for node in walk(flat):
        if node.primitive.is_collective:
            text = f"@{flat.name} is a step of several ranks, with {node.primitive.name}"
            raise GraphValueError(f"{text}; give that of one, which a script makes that python starts alone.")
        if node.primitive.calls_python:
            text = f"@{flat.name} calls Python by {node.primitive.name}, which a file of IR text does not hold"
            raise GraphValueError(f"{text}; leave it out of the step.")
    return flat


def workload(graph: Graph, seconds: Mapping[Node, float], bucket: int) -> Workload:
    """The workload of a step of one rank; `seconds` are those of its nodes, with those of their regions.

    Raises GraphValueError for a step that updates nothing by a gradient.
    """
    gradients = _gradients(graph)
    if not gradients:
        raise GraphValueError(f"@{graph.name} updates no state by a gradient; give the graph of a training step.")
    affected = dependents(graph.nodes, gradients, lambda node: tuple(needs(node)))
    updating = {n for n in graph.nodes if n.phase == "update" or any(v in affected for v in needs(n))}
    parts, remaining = [], [node for node in graph.nodes if node not in updating]
    for values in in_buckets(_by_time(remaining, gradients, seconds), _exchanged_bytes, bucket):
        preceding = set(dependencies(remaining, values))
        parts.append(Bucket(sum(map(_exchanged_bytes, values)), sum(seconds[node] for node in preceding)))
        remaining = [node for node in remaining if node not in preceding]
    read = {v for node in walk(graph) if node.phase in ("forward", "backward") for v in needs(node) if v.is_state}
    states = [write.state for write in graph.writes]
    return Workload(
        tuple(parts),
        sum(seconds[node] for node in remaining),
        sum(seconds[node] for node in updating),
        sum(state.type.nbytes for state in gradients.values()),
        sum(state.type.nbytes for state in states if state not in read and state.type.size > 1),
        memory_of(graph, "cpu").peak,
    )


def _exchanged_bytes(gradient: Value) -> int:
    """The bytes of a gradient as ranks exchange it: 16-bit floats are added in float32."""
    return gradient.type.size * max(4, gradient.type.dtype.itemsize)


def _by_time(nodes: Sequence[Node], gradients: Iterable[Value], seconds: Mapping[Node, float]) -> list[Value]:
    """Gradients by the time of the longest path to each."""
    ready: dict[Value, float] = {}
    for node in nodes:
        end = max((ready.get(v, 0.0) for v in needs(node)), default=0.0) + seconds[node]
        ready.update(dict.fromkeys(node.outputs, end))
    return sorted(gradients, key=lambda value: ready.get(value, 0.0))


def _gradients(graph: Graph) -> dict[Value, Value]:
    """The states that are updated by a gradient, by their gradients."""
    makers = {v: node for node in walk(graph) for v in node.outputs}
    yields = {v: values for node in walk(graph) if node.regions for v, *values in _branch_yields(node)}
    gradients: dict[Value, Value] = {}
    for write in graph.writes:
        gradient = _nearest(write.value, write.state, makers, yields)
        if gradient is not None:
            gradients.setdefault(gradient, write.state)
    return gradients


def _branch_yields(node: Node) -> Iterator[tuple[Value, ...]]:
    """Each result of a branch with the values that its regions yield for it."""
    if node.primitive.is_branch:
        yield from zip(node.outputs, *(region.outputs for region in node.regions), strict=True)


def _nearest(
    value: Value, state: Value, makers: Mapping[Value, Node], yields: Mapping[Value, Sequence[Value]]
) -> Value | None:
    """The nearest value behind the update of a state that the backward computes in the shape of the state."""
    level, seen = [value], {value}
    while level:
        following = []
        for v in level:
            node = makers.get(v)
            if node is None or node.primitive.is_constant:
                continue
            if node.phase in ("forward", "backward"):
                if node.phase == "backward" and v.type.shape == state.type.shape and v.type.dtype.is_float:
                    return v
                continue
            following += [w for w in yields.get(v, node.inputs) if w not in seen]
            seen.update(following)
        level = following
    return None
