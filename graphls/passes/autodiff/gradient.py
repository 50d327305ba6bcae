"""The gradient pass: expands `gradient` nodes into the backward graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphls.base.errors import GraphTypeError
from graphls.ir.build import Builder, copy_nodes
from graphls.ir.graph import Graph, Node, Value, in_order, uses
from graphls.ir.reachability import reached
from graphls.ir.registry import Rule
from graphls.ir.types import float64
from graphls.passes.autodiff.gradient_loops import LoopBackward
from graphls.passes.autodiff.gradient_parts import Parts, Tape, active_values, check_gradients
from graphls.passes.manager import register_pass
from graphls.passes.rewriter import Rewriter
from graphls.primitives.faults import is_builtin, raise_from_rule


@register_pass
@dataclass(frozen=True)
class Gradient:
    """Append the backward graph to the existing forward, in place of each `gradient` node.

    Before:

        %p = matmul(%x, @w) : f32[8,1]  // forward
        %loss = mean(%p) {axis=[0, 1]} : f32[]  // forward
        %gw = gradient(%loss, %seed, @w) {of=1, wrt=1} : f32[4,1]  // backward

    After:

        %p = matmul(%x, @w) : f32[8,1]  // forward
        %loss = mean(%p) {axis=[0, 1]} : f32[]  // forward
        %seed_1 = depend(%seed) after(%loss) : f32[]  // backward
        ...
        %matmul = matmul(%x, %g) {transpose_a=true} : f32[4,1]  // backward

    Every backward node has the scope and the line of the forward node that it belongs to. A value that the
    results do not depend on gets zeros. Raises GraphTypeError, once for the whole graph, where primitives
    without a gradient rule lie on the way.
    """

    name = "gradient"

    def run(self, graph: Graph) -> Graph:
        """The graph without `gradient` nodes."""
        expansion = _Expansion(graph)
        expanded = expansion.run()
        if expansion.tape.missing:
            raise _missing_rules(expansion.tape.missing)
        has_effects = any(node.primitive.has_effect for node in expanded.nodes)
        return expanded.replace(nodes=in_order(expanded.nodes)) if has_effects else expanded


def _missing_rules(missing: dict[Node, None]) -> GraphTypeError:
    listed = "; ".join(f"{n.primitive.name}{f' ({n.loc})' if n.loc else ''}" for n in reversed(missing))
    advice = "a vjp to what calls Python" if any(n.primitive.calls_python for n in missing) else "the cell a bprop"
    return GraphTypeError(
        f"These primitives have no gradient rule: {listed}; "
        f"use ops.stop_gradient where no gradient is needed, or give {advice}."
    )


class _Expansion(Rewriter):
    """The sweep, with the position of each node so far."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.tape = Tape()
        self.position: dict[Node, int] = {}

    def block(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        return self.tape.applied(super().block(nodes))

    def define(self, node: Node) -> None:
        super().define(node)
        self.position[node] = len(self.position)

    def visit(self, node: Node) -> Node | Sequence[Value]:
        return self.expanded(node) if node.primitive.name == "gradient" else node

    def expanded(self, node: Node) -> list[Value]:
        """The gradients in place of the outputs of a `gradient` node; their nodes are emitted."""
        of, wrt = node.attrs["of"], node.attrs["wrt"]
        results, seeds = node.inputs[:of], node.inputs[of : 2 * of]
        sources, constants = node.inputs[2 * of : 2 * of + wrt], node.inputs[2 * of + wrt :]
        nodes = self.between(results, {*sources, *constants})
        with self.e.at(node, "backward") as e:
            # The backward waits for what it differentiates, so that a window can open between the two.
            seeds = tuple(e.emit("depend", (seed,), after=results, name=seed.name)[0] for seed in seeds)
            gradients = Backward(e, sources, self.tape).run(nodes, zip(results, seeds, strict=True))
        self.adopt_extended()
        return gradients

    def adopt_extended(self) -> None:
        """Register loops that yield more values now as the definers of their results."""
        for node, extended in self.tape.extended.items():
            if node in self.position:
                self.position[extended] = self.position[node]
                self.definer.update((value, extended) for value in extended.outputs)

    def between(self, results: Iterable[Value], stops: set[Value]) -> list[Node]:
        """The nodes that `results` depend on, in order, without those behind `stops`."""

        def makers(values: Iterable[Value]) -> Iterator[Node]:
            return (self.definer[v] for v in values if v in self.definer and v not in stops)

        nodes = reached(makers(results), lambda node: makers(uses(node)))
        return sorted(nodes, key=self.position.__getitem__)


class Backward(Parts):
    """Reverse accumulation over a list of nodes, with respect to `sources`."""

    def run(self, nodes: Sequence[Node], seeds: Iterable[tuple[Value, Value | None]]) -> list[Value]:
        """The gradients of the sources; `seeds` pairs results with their sensitivities."""
        self.accumulate(nodes, seeds)
        return [self.total(v) or self.zeros(v) for v in self.sources]

    def accumulate(self, nodes: Sequence[Node], seeds: Iterable[tuple[Value, Value | None]]) -> None:
        """Collect the parts of all gradients."""
        active = active_values(nodes, self.sources, self.integers)
        for result, seed in seeds:
            if seed is not None:
                self.parts.setdefault(result, []).append(seed)
        for node in reversed(nodes):
            if active.intersection(node.outputs) and any(v in self.parts for v in node.outputs):
                with self.e.at(node, "backward"):
                    self.through(node, active)

    def inside(self, builder: Builder, sources: Sequence[Value]) -> Backward:
        """The backward of a region."""
        return Backward(builder, sources, self.tape, self.integers)

    def through(self, node: Node, active: set[Value]) -> None:
        node = self.tape.latest(node)
        gradients = tuple(self.total(v) for v in node.outputs)
        if node.primitive.is_branch:
            self.through_cond(node, gradients, active)
        elif node.primitive.is_loop:
            LoopBackward(self, node, gradients, active).run()
        elif node.primitive.name == "custom_gradient":
            self.through_custom(node, gradients, active)
        elif node.primitive.vjp is None:
            self.miss(node, active)
        else:
            self.through_rule(node, node.primitive.vjp, gradients, active)

    def through_rule(self, node: Node, rule: Rule, gradients: tuple[Value | None, ...], active: set[Value]) -> None:
        g: Any = gradients[0] if len(gradients) == 1 else gradients
        values = [*node.inputs, *node.outputs]
        if node.primitive.integer_gradient == "divided" and not node.output.type.dtype.is_float:
            g, *values = (self.e.cast(v, dtype=float64) for v in (g, *values))
        try:
            with self.e.operators():
                results = rule(self.e, g, *values, **node.attrs)
        except Exception as error:
            raise_from_rule(node.primitive, "vjp", error)
        results = results if isinstance(results, tuple) else (results,)
        if not is_builtin(node.primitive):
            check_gradients(node, values, results)
        for value, gradient in zip(node.inputs, results, strict=True):
            if gradient is not None and value in active:
                self.add(value, gradient)

    def miss(self, node: Node, active: set[Value]) -> None:
        """Record a missing rule and continue past it, so that one error names all of them."""
        self.tape.missing.setdefault(node)
        for value in active.intersection(node.inputs):
            self.add(value, self.zeros(value))

    def through_cond(self, node: Node, gradients: tuple[Value | None, ...], active: set[Value]) -> None:
        """Emit a cond in which each region repeats its forward and yields the gradients of its captures."""
        captured = [v for v in uses(node)[1:] if v in active]
        if not captured:
            return
        regions = tuple(self.backward_region(r, gradients, captured) for r in node.regions)
        for value, gradient in zip(captured, self.e.emit("cond", node.inputs[:1], regions=regions), strict=True):
            self.add(value, gradient)

    def backward_region(self, region: Graph, gradients: tuple[Value | None, ...], captured: Sequence[Value]) -> Graph:
        builder = Builder(self.e.names)
        copied: dict[Value, Value] = {}
        builder.nodes = copy_nodes(region.nodes, copied, builder.names, "backward")
        results = [copied.get(v, v) for v in region.outputs]
        inner = self.inside(builder, captured)
        builder.follow(self.e, "backward")
        outputs = inner.run(list(builder.nodes), zip(results, gradients, strict=True))
        return region.replace(nodes=self.tape.applied(builder.nodes), outputs=tuple(outputs))

    def through_custom(self, node: Node, gradients: tuple[Value | None, ...], active: set[Value]) -> None:
        (region,) = node.regions
        count = node.attrs["outputs"]
        seeds = [g or self.zeros(v) for g, v in zip(gradients, node.outputs, strict=True)]
        mapping = dict(zip(region.inputs, (*node.inputs, *seeds), strict=True))
        for inner in copy_nodes(region.nodes, mapping, self.e.names, "backward"):
            self.e.append(inner)
        for value, result in zip(node.inputs[count:], region.outputs, strict=True):
            if value.type.dtype.is_float or value in active:
                self.add(value, mapping.get(result, result))
