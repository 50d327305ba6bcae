"""The shard pass: divides the optimizer states among the ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from graphls.base.reporting import warn
from graphls.distributed.shards import shard_of, shard_range, shard_size
from graphls.distributed.world import WORLD
from graphls.ir.build import Builder, Names, substitute
from graphls.ir.graph import Graph, Node, Value, Write, needs, walk
from graphls.ir.registry import lookup
from graphls.ir.types import DType, Type, bool_, int32
from graphls.passes.distributed.buckets import in_buckets
from graphls.passes.distributed.shard_choice import Choice, chosen, divided_operands, is_total, sums_outside
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import users
from graphls.primitives.scaling import AbsoluteMaximum
from graphls.primitives.shape import Reshape

BUCKET = 25 << 20
"""The bytes of one bucket of parameters."""


@register_pass
@dataclass(frozen=True)
class Shard:
    """Let each rank update its shard of the optimizer states, and gather the updated parameters.

    Before, on two ranks:

        %token, %g = all_reduce(%dw) {op="sum", group="world", ranks=2} : token, f32[4]  // backward
        %v = add(@v, %g) : f32[4]  // update
        %new = sub(@w, %v) : f32[4]  // update
        @v <- %v
        @w <- %new

    After, on the first of them:

        %token_1, %g_1 = reduce_shards(%dw) {group="world", ranks=2} : token, f32[2]  // backward
        %v_1 = add(@v, %g_1) : f32[2]  // update
        %slice = slice(@w) {starts=[0], stops=[2], steps=[1]} : f32[2]  // update
        %new_1 = sub(%slice, %v_1) : f32[2]  // update
        %token_2, %w = gather_shards(%new_1) {results=["f32[4]"], group="world", ranks=2} : token, f32[4]  // update
        @v <- %v_1
        @w <- %w

    Elementwise functions of gradients and states are computed on shards. Sums of all their elements are added up over
    the ranks, and so are overflow flags. Values of fewer than `least` bytes, and those with other uses, such as means
    along an axis, are not divided: a divided state takes its slice of such a gradient. Neither are states whose names
    are in `whole`. Codes of 8 bits are divided between the blocks that share a maximum, as these maxima are. The graph
    is that of the rank with the number `rank`.
    """

    rank: int = 0
    ranks: int = 1
    least: int = 1 << 16
    whole: tuple[str, ...] = ()
    name = "shard"

    def run(self, graph: Graph) -> Graph:
        """The graph with divided states."""
        if self.ranks == 1:
            return graph
        outside = sums_outside(graph, self.ranks, self.least)
        choice = chosen(outside, self.ranks, self.least, self.whole)
        _warn_of_undivided(choice)
        if not choice.states:
            return graph
        return _Divided(outside, choice, self.rank, self.ranks).run()


def _warn_of_undivided(choice: Choice) -> None:
    """Warn once why states stay undivided on each rank."""
    states = [(state, node) for state, node in choice.undivided.items() if state.is_state]
    if states:
        node = states[0][1]
        text = f"{len(states)} states of the optimizer are not divided among the ranks, so that each stores all of them"
        warn(f"{text}, as {node.primitive.name} needs all elements of one at once.", node.loc)


class _Divided:
    """One sweep over a graph: `part` maps divided values to their shards, `replacements` all others to new values."""

    def __init__(self, graph: Graph, choice: Choice, rank: int, ranks: int) -> None:
        self.graph, self.choice = graph, choice
        self.attrs = {"group": WORLD, "ranks": ranks}
        self.rank, self.ranks = rank, ranks
        self.names = Names.of(graph)
        self.e = Builder(self.names)
        self.states = {s: self.narrow(s) for s in graph.states if s in choice.states}
        self.part: dict[Value, Value] = dict(self.states)
        self.replacements: dict[Value, Value] = {}
        self.pending: dict[Value, tuple[Node, Value]] = {}
        self.order: tuple[Value, ...] = ()
        self.constants = {n.output: n.attrs["value"] for n in walk(graph) if n.primitive.is_constant}
        self.users = users(graph.nodes)

    def narrow(self, value: Value) -> Value:
        """A new value for the shard of a value; a state keeps its name."""
        name = value.name if value.is_state else self.names.fresh(value.name)
        return Value(name, Type(value.type.dtype, (shard_size(value.type.size, self.ranks),)), value.is_state)

    def run(self) -> Graph:
        """The graph with shards."""
        for node in self.by_sums():
            if any(v in self.pending for v in needs(node)):
                self.reduce_pending()
            with self.e.at(node):
                self.step(node)
        self.reduce_pending()
        self.gather()
        states = tuple(self.states.get(s, s) for s in self.graph.states)
        writes = tuple(self.written(w) for w in self.graph.writes)
        outputs = tuple(self.replacements.get(v, v) for v in self.graph.outputs)
        return self.graph.replace(nodes=tuple(self.e.nodes), states=states, writes=writes, outputs=outputs)

    def by_sums(self) -> list[Node]:
        """The nodes in an order in which independent sums come before all nodes that need one of them."""
        level: dict[Value, int] = {}
        levels = []
        for node in self.graph.nodes:
            own = max((level.get(v, 0) for v in needs(node)), default=0)
            levels.append(own)
            level.update(dict.fromkeys(node.outputs, own + self.is_shared(node)))
        pairs = sorted(zip(levels, range(len(levels)), strict=True))
        return [self.graph.nodes[i] for _, i in pairs]

    def is_shared(self, node: Node) -> bool:
        """Whether a node reduces divided values to one number."""
        return (is_total(node) or node.primitive.is_check) and not self.choice.values.isdisjoint(node.inputs)

    # -- one node after the other -----------------------------------------------------------------------------

    def step(self, node: Node) -> None:
        """Emit the replacement of a node outside of branches."""
        if not self.choice.gradients.isdisjoint(node.outputs):
            self.reduce(node)
        elif self.is_shared(node):
            self.count(node)
        else:
            self.inner(node)
            if node.primitive.is_collective:
                self.order = self.e.nodes[-1].outputs[:1]

    def inner(self, node: Node) -> None:
        """Emit the replacement of a node without sums, perhaps in a branch."""
        if node.primitive.is_branch:
            self.branch(node)
        elif not self.choice.values.isdisjoint(node.outputs):
            self.part[node.output] = self.shard(node)
        else:
            self.e.append(replace(substitute(node, self.replacements), after=self.current(node.after)))

    def shard(self, node: Node) -> Value:
        """Emit what gives the shard of a divided result; shards are flat, so that a reshape gives its operand's."""
        if isinstance(node.primitive, Reshape):
            return self.divided(node.inputs[0])
        if isinstance(node.primitive, AbsoluteMaximum):
            return self.maxima(node)
        divided = divided_operands(node, self.ranks)
        inputs = tuple(self.divided(v) if v in divided else self.number(v) for v in node.inputs)
        shard = self.narrow(node.output)
        self.e.append(replace(node, inputs=inputs, outputs=(shard,), after=self.current(node.after)))
        return shard

    def maxima(self, node: Node) -> Value:
        """The shard of the maxima of blocks, to which padding adds nothing."""
        own, length = self.own(node.inputs[0]), shard_size(node.output.type.size, self.ranks)
        if own is None:
            return self.e.constant(0, node.output.type.dtype, (length,))
        (maxima,) = self.e.emit(node.primitive, (own,), node.attrs, after=self.current(node.after))
        return self.padded(maxima, length)

    def current(self, values: Iterable[Value]) -> tuple[Value, ...]:
        """The replacements of values that are not sharded, and for control edges from those that are."""
        return tuple(self.replacements.get(v, self.part.get(v, v)) for v in values)

    def reduce(self, node: Node) -> None:
        """Reduce gradients to shards, and undivided gradients as before."""
        pairs = list(zip(node.inputs, node.outputs[1:], strict=True))
        token = node.outputs[0]
        for is_divided in (False, True):
            some = [(g, v) for g, v in pairs if (v in self.choice.gradients) is is_divided]
            if not some:
                continue
            inputs = self.current(g for g, _ in some)
            after = (*self.current(node.after), *self.order)
            if is_divided:
                attrs = {name: value for name, value in node.attrs.items() if name != "op"}
                self.order, results = self.collective("reduce_shards", inputs, attrs, after)
                self.part.update(zip((v for _, v in some), results, strict=True))
            else:
                self.order, results = self.collective("all_reduce", inputs, node.attrs, after)
                self.replacements.update(zip((v for _, v in some), results, strict=True))
        self.replacements[token] = self.order[0]

    def collective(
        self, name: str, inputs: Iterable[Value], attrs: object, after: Iterable[Value] = ()
    ) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
        """Emit a collective after the one before it; returns its token and its results."""
        token, *results = self.e.emit(lookup(name), inputs, attrs, after=(*after, *self.order))  # type: ignore[arg-type]
        return (token,), tuple(results)

    def branch(self, node: Node) -> None:
        """Emit a condition whose branches yield shards of divided values."""
        regions = []
        for region in node.regions:
            outer, known = self.e, dict(self.part)
            self.e = Builder(self.names)
            for each in region.nodes:
                with self.e.at(each):
                    self.inner(each)
            with self.e.at(node):
                pairs = zip(region.outputs, node.outputs, strict=True)
                yields = tuple(self.divided(v) if o in self.choice.values else self.current([v])[0] for v, o in pairs)
            regions.append(region.replace(nodes=tuple(self.e.nodes), outputs=yields))
            self.e, self.part = outer, known
        outputs = tuple(self.narrow(o) if o in self.choice.values else o for o in node.outputs)
        inputs, after = self.current(node.inputs), self.current(node.after)
        self.e.append(replace(node, inputs=inputs, outputs=outputs, regions=tuple(regions), after=after))
        self.part.update((o, narrowed) for o, narrowed in zip(node.outputs, outputs, strict=True) if narrowed is not o)

    # -- shards and numbers -----------------------------------------------------------------------------------

    def divided(self, value: Value) -> Value:
        """This rank's shard of a value, cut out of an undivided one."""
        if value not in self.part:
            self.part[value] = self.cut(self.replacements.get(value, value))
        return self.part[value]

    def cut(self, value: Value) -> Value:
        if value in self.constants:
            return self.e.constant(shard_of(self.constants[value], self.rank, self.ranks))
        size, length = value.type.size, shard_size(value.type.size, self.ranks)
        start, stop = shard_range(size, self.rank, self.ranks)
        if start == stop:
            return self.e.constant(0, value.type.dtype, (length,))
        flat = value if value.type.rank == 1 else self.e.reshape(value, shape=(size,))
        return self.padded(self.e.slice(flat, starts=(start,), stops=(stop,), steps=(1,)), length)

    def padded(self, part: Value, length: int) -> Value:
        """A flat value with zeros behind it."""
        size = part.type.size
        if size == length:
            return part
        result: Value = self.e.slice_gradient(part, shape=(length,), starts=(0,), stops=(size,), steps=(1,))
        return result

    def number(self, value: Value) -> Value:
        """A single number, with no more axes than a shard."""
        value = self.replacements.get(value, value)
        return value if value.type.rank < 2 else self.e.reshape(value, shape=())

    def own(self, value: Value) -> Value | None:
        """The elements of the shard of a value without padding; None where there are none."""
        start, stop = shard_range(value.type.size, self.rank, self.ranks)
        shard = self.divided(value)
        if stop - start == shard.type.size:
            return shard
        return self.e.slice(shard, starts=(0,), stops=(stop - start,), steps=(1,)) if stop > start else None

    def count(self, node: Node) -> None:
        """Emit the sum or the overflow check of a shard, which is added to those of other ranks later."""
        after = self.current(node.after)
        if node.primitive.is_check:
            divided = self.choice.values
            inputs = [self.own(v) or self.divided(v) if v in divided else self.current([v])[0] for v in node.inputs]
            (flag,) = self.e.emit(node.primitive, inputs, node.attrs, after=after, name=node.output.name)
            if self.is_reduced(node.output):
                self.replacements[node.output] = flag
            else:
                self.pending[node.output] = node, self.e.cast(flag, dtype=int32)
        else:
            own = self.own(node.inputs[0])
            if own is None:
                total = self.e.constant(0, node.output.type.dtype)
            else:
                (total,) = self.e.emit("sum", (own,), {"axis": None, "keepdims": False}, after=after)
            self.pending[node.output] = node, total

    def is_reduced(self, flag: Value) -> bool:
        """Whether the step itself reduces a flag over the ranks."""
        casts = self.users[flag] if self.read_only_by("cast", flag) else ()
        return bool(casts) and all(self.read_only_by("all_reduce", node.output) for node in casts)

    def read_only_by(self, name: str, value: Value) -> bool:
        """Whether only nodes of that primitive read a value."""
        leaving = value in self.graph.outputs or any(w.value is value for w in self.graph.writes)
        readers = self.users.get(value, ())
        return bool(readers) and not leaving and all(node.primitive.name == name for node in readers)

    def reduce_pending(self) -> None:
        """Sum the pending numbers over all ranks, in one communication for each dtype."""
        kinds: dict[DType, list[tuple[Value, Node, Value]]] = {}
        for value, (node, own) in self.pending.items():
            kinds.setdefault(own.type.dtype, []).append((value, node, own))
        self.pending = {}
        for items in kinds.values():
            with self.e.at(items[0][1]):
                attrs = {"op": "sum", **self.attrs}
                self.order, totals = self.collective("all_reduce", [own for *_, own in items], attrs)
                for (value, *_), total in zip(items, totals, strict=True):
                    total = self.e.reshape(total, shape=value.type.shape) if value.type.rank else total
                    self.replacements[value] = self.e.cast(total, dtype=bool_) if value.type.dtype is bool_ else total

    # -- the end ----------------------------------------------------------------------------------------------

    def gather(self) -> None:
        """Gather divided values that leave the step undivided, one bucket at a time."""
        leaving = (*(w.value for w in self.graph.writes if w.state not in self.states), *self.graph.outputs)
        values = [v for v in dict.fromkeys(leaving) if v in self.choice.values]
        maker = {v: node for node in self.graph.nodes for v in node.outputs}
        for bucket in _buckets(values):
            with self.e.at(maker[bucket[0]], "update"):
                attrs = {"results": tuple(str(v.type) for v in bucket), **self.attrs}
                self.order, gathered = self.collective("gather_shards", [self.part[v] for v in bucket], attrs)
                self.replacements.update(zip(bucket, gathered, strict=True))

    def written(self, write: Write) -> Write:
        if write.state in self.states:
            return replace(write, state=self.states[write.state], value=self.part[write.value])
        return replace(write, value=self.replacements.get(write.value, write.value))


def _buckets(values: Sequence[Value]) -> Iterator[list[Value]]:
    """Buckets of values of one dtype."""
    kinds: dict[object, list[Value]] = {}
    for value in values:
        kinds.setdefault(value.type.dtype, []).append(value)
    for kind in kinds.values():
        yield from in_buckets(kind, lambda value: value.type.nbytes, BUCKET)
