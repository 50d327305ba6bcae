"""Recurrent layers, forward and backward, as one kernel of oneDNN each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphls.ir.graph import Graph, Node, Value, definers
from graphls.ir.types import bfloat16
from graphls.passes.patterns.matching import Match, joint_match, matches
from graphls.passes.rewriter import users
from graphls.passes.simplify.recurrent import INPUTS
from graphls.primitives.primitive import normalise_axes
from graphls.runtime.onednn.kernels.recurrent_layers import Backward, Forward
from graphls.runtime.onednn.kernels.recurrent_units import UNITS, Unit
from graphls.runtime.onednn.program.program import COMPUTED, Group

_TOTALS = ("add(hidden, g)", "add(g, hidden)", "hidden")
"""The gradient of what an iteration gives, with or without that of the stacked results."""

_WITH_BIAS = "matmul_add(x, w, b1, transpose_b=True)"


def _without_casts(region: Graph) -> Graph:
    """An iteration in bfloat16 without the casts to float32 and back: its kernel has float32 within.

    In an iteration on states of float32, a cast to bfloat16 rounds on purpose.
    """
    if not region.inputs or region.inputs[0].type.dtype is not bfloat16:
        return region
    sources: dict[Value, Value] = {}
    nodes = []
    for node in region.nodes:
        inputs = tuple(sources.get(v, v) for v in node.inputs)
        if node.primitive.name == "cast" and {inputs[0].type.dtype, node.output.type.dtype} <= {*COMPUTED}:
            sources[node.output] = inputs[0]
        else:
            nodes.append(replace(node, inputs=inputs))
    return replace(region, nodes=tuple(nodes), outputs=tuple(sources.get(v, v) for v in region.outputs))


def layers(nodes: Sequence[Node], definer: Mapping[Value, Node]) -> Iterator[Group]:
    """The groups of the recurrent layers in a graph: those without a backward, and those with one that fits."""
    loops = [node for node in nodes if node.primitive.name == "scan"]
    readers = users(nodes) if loops else {}
    for node in loops:
        forward = _forward(node, definer)
        if forward is None:
            continue
        layer, stacks = forward
        backwards = filter(None, (_backward(other, layer, stacks, definer, readers) for other in loops))
        backward = next(backwards, None)
        if backward is not None:
            yield _forward_group(layer)
            yield _backward_group(backward)
        elif not stacks.values:
            yield _forward_group(layer)


@dataclass(frozen=True)
class _Stacks:
    """The values of iterations, by their names in the patterns, and those that a loop stacks for its backward."""

    names: Mapping[str, Value]
    results: Mapping[Value, Value]
    values: Mapping[Value, Value] = field(default_factory=dict)

    def agree(self, match: Match) -> bool:
        """Whether each stacked value of a match is the one of that name."""
        stacked = {**self.results, **self.values}
        return all(stacked.get(value) is self.names[name] for name, value in match.values.items())


def _forward_group(layer: Forward) -> Group:
    outputs = (*layer.node.outputs[: len(layer.first)], *layer.results)
    return Group((layer.node,), tuple(layer.operands), outputs, layer.emit)


def _backward_group(backward: Backward) -> Group:
    layer = backward.forward
    gradients = (*backward.node.inputs[: len(layer.first)], *([backward.g] if backward.g is not None else []))
    inputs = (*layer.operands, layer.node.outputs[0], *gradients)
    return Group((backward.node,), inputs, tuple(backward.outputs), backward.emit)


def _forward(node: Node, definer: Mapping[Value, Node]) -> tuple[Forward, _Stacks] | None:
    """The layer that a loop computes; None where it is another one."""
    region = _without_casts(node.regions[0])
    carries = node.attrs["carries"]
    if len(region.inputs) != carries + 1 or node.after:
        return None
    steps = ((unit, _step(region, unit)) for unit in UNITS if len(unit.states) == carries)
    unit, match = next(((unit, match) for unit, match in steps if match is not None), (None, None))
    projection = _projection(node.inputs[-1], definer)
    if unit is None or match is None or projection is None:
        return None
    hidden = region.outputs[0].type.shape[-1]
    places = _places(unit, match, hidden)
    w, r = projection["w"], match["r"]
    biases = projection.values.get("b1"), projection.values.get("b2") if unit.joint else match.values.get("b")
    is_outside = r not in {v for each in region.nodes for v in each.outputs} and r not in region.inputs
    rows = len(unit.gates) * hidden
    fits = is_outside and r.type.shape == (rows, hidden) and w.type.shape[0] == rows
    dtype = projection["x"].type.dtype
    is_of_one_dtype = dtype in unit.bounds and all(v.type.dtype is dtype for v in (w, r, node.inputs[0]))
    if places is None or not fits or not is_of_one_dtype:
        return None
    are_biases = all(b is None or b.type.shape == (rows,) for b in biases)
    if not are_biases or ("b2" in projection.values and not unit.joint):
        return None
    pairs = list(zip(region.outputs[carries:], node.outputs[carries:], strict=True))
    results = {outer: inner for inner, outer in pairs if inner is region.outputs[0]}
    stacks = [outer for outer in results if outer.type.dtype is dtype]
    layer = Forward(node, unit, places, projection["x"], w, r, biases, node.inputs[:carries], stacks)
    if not _is_faster(layer):
        return None
    names = _values(region, unit, match)
    stacked = {outer: inner for inner, outer in pairs if outer not in stacks}
    return layer, _Stacks(names, results, stacked)


def _is_faster(layer: Forward) -> bool:
    """Whether the kernels of a layer are at least as fast as a loop."""
    most = layer.unit.bounds[layer.x.type.dtype]
    weights, gates = layer.w.type.size + layer.r.type.size, layer.batch * layer.gates * layer.hidden
    return weights <= most.weights * layer.length and gates <= most.gates


def _step(region: Graph, unit: Unit) -> Match | None:
    """The match of an iteration with that of a unit."""
    match = joint_match(unit.states, region.outputs, definers(region.nodes))
    names = ("h", "c", "projection") if len(unit.states) > 1 else ("h", "projection")
    return match if match is not None and [match[name] for name in names] == [*region.inputs] else None


def _values(region: Graph, unit: Unit, match: Match) -> dict[str, Value]:
    """The values of an iteration by their names in the patterns."""
    definer = definers(region.nodes)
    names = {name: match[name] for name in ("h", "c") if name in match.values}
    for node in match.nodes:
        for name, text in unit.values.items():
            step = matches(text, node, definer)
            if step is not None and step.values.items() <= match.values.items():
                names.update({name: node.output} if step.numbers.items() <= match.numbers.items() else {})
    return names


def _places(unit: Unit, match: Match, hidden: int) -> list[int] | None:
    """The positions of the gates of a unit, in the order of oneDNN, among the rows of the weights."""
    if len(unit.gates) == 1:
        return [0]
    rows = [(0, hidden * number) for number in range(len(unit.gates))]
    starts = [match[gate] for gate in unit.gates]
    return [rows.index(start) for start in starts] if sorted(starts) == rows else None


def _projection(value: Value, definer: Mapping[Value, Node]) -> Match | None:
    """The match of the products of the inputs with the weights."""
    maker = definer.get(value)
    tried = (matches(text, maker, definer) for text in (*INPUTS, _WITH_BIAS)) if maker is not None else iter(())
    match = next((m for m in tried if m is not None), None)
    return match if match is not None and (match["x"].type.rank, match["w"].type.rank) == (3, 2) else None


def _backward(
    node: Node, layer: Forward, stacks: _Stacks, definer: Mapping[Value, Node],
    readers: Mapping[Value, Sequence[Node]],
) -> Backward | None:  # fmt: skip
    """The backward of a layer, where a loop is that."""
    region = _without_casts(node.regions[0])
    is_fit = node.attrs["carries"] == len(layer.first) and not node.after
    if not is_fit or node.attrs.get("reverse") == layer.node.attrs.get("reverse"):
        return None
    step = _step_back(region, layer)
    if step is None:
        return None
    outer = dict(zip(region.inputs, node.inputs, strict=True))
    values = {name: outer[value] for name, value in step.match.values.items() if value in outer}
    if not stacks.agree(Match({name: value for name, value in values.items() if name in layer.unit.values})):
        return None
    for name, text in layer.unit.factors.items():
        maker = definer.get(values[name])
        match = matches(text, maker, definer) if maker is not None else None
        if match is None or not stacks.agree(match):
            return None
    backward = Backward(node, layer, values.get("g"))
    old = [outer for outer, inner in stacks.values.items() if inner is stacks.names["h"]]
    gates = dict(zip(node.outputs[len(layer.first) :], step.products, strict=True))
    are_known = all(_find_readers(backward, value, kinds, old, definer, readers) for value, kinds in gates.items())
    return backward if are_known else None


@dataclass(frozen=True)
class _StepBack:
    """The match of an iteration backwards; of each stacked result, whose products' gradient it is."""

    match: Match
    products: Sequence[tuple[bool, bool]]
    """Whether it is that of the inputs' products with weights, and of the states'."""


def _step_back(region: Graph, layer: Forward) -> _StepBack | None:
    """The match of an iteration with the backward of a layer."""
    definer = definers(region.nodes)
    states = len(layer.first)
    for total in _TOTALS:
        patterns = layer.unit.gradients(total)
        inputs, products = (_concatenated(layer, gates) for gates in (patterns.inputs, patterns.states))
        product = f"matmul({products}, r, transpose_a=A, transpose_b=B)"
        carried = [text.replace("product", product) for text in patterns.carried]
        match = joint_match(carried, region.outputs, definer)
        if match is None or match["A"] or match["B"] or match["r"] is not layer.r:
            continue
        names = {name for name in match.values if name != "r"}
        are_carried = [match["hidden"], *([match["cell"]] if states > 1 else [])] == list(region.inputs[:states])
        if not are_carried or not {match[name] for name in names} <= {*region.inputs}:
            continue
        results = [
            (_is(inputs, value, match, definer), _is(products, value, match, definer))
            for value in region.outputs[states:]
        ]
        return _StepBack(match, results) if all(map(any, results)) else None
    return None


def _concatenated(layer: Forward, gates: Mapping[str, str]) -> str:
    """The pattern of the gradients of all gates, in the order of the rows of the weights."""
    if len(gates) == 1:
        return next(iter(gates.values()))
    pairs = sorted(zip(layer.places, layer.unit.gates, strict=True))
    return f"concat({', '.join(gates[gate] for _, gate in pairs)}, axis=1)"


def _is(text: str, value: Value, match: Match, definer: Mapping[Value, Node]) -> bool:
    """Whether a value is what a pattern says, with the names of a match."""
    step = joint_match([text], [value], definer)
    return step is not None and step.values.items() <= match.values.items()


def _find_readers(
    backward: Backward, gates: Value, kinds: tuple[bool, bool], old: Sequence[Value], definer: Mapping[Value, Node],
    readers: Mapping[Value, Sequence[Node]],
) -> bool:  # fmt: skip
    """Find the gradients that are computed from those of the gates; False where something else is computed of them."""
    of_inputs, of_states = kinds
    sources = {
        **({backward.forward.x: backward.w_gradients} if of_inputs else {}),
        **(dict.fromkeys(old, backward.r_gradients) if of_states else {}),
    }
    matrices = [n.output for n in readers.get(gates, ()) if n.primitive.name == "reshape" and _has_rows_of(gates, n)]
    pairs = [(value, node) for value in (gates, *matrices) for node in readers.get(value, ())]
    for value, node in pairs:
        if node.outputs[0] in matrices:
            continue
        gradients = _gradients_of(backward, value, of_inputs, node, sources, definer)
        if gradients is None:
            return False
        gradients.append(node.output)
    return True


def _has_rows_of(stack: Value, node: Node) -> bool:
    return node.output.type.shape[-1] == stack.type.shape[-1]


def _gradients_of(
    backward: Backward, gates: Value, of_inputs: bool, node: Node, sources: Mapping[Value, list[Value]],
    definer: Mapping[Value, Node],
) -> list[Value] | None:  # fmt: skip
    """The list of gradients that the result of a node belongs to; None for another result."""
    attrs, name = node.attrs, node.primitive.name
    if name == "sum":
        axes = tuple(range(gates.type.rank - 1))
        is_plain = normalise_axes(attrs.get("axis"), gates.type.rank) == axes and node.output.type.rank == 1
        return backward.b_gradients[0 if of_inputs else 1] if is_plain else None
    if name != "matmul" or node.inputs[0] is not gates or attrs.get("transpose_b"):
        return None
    if attrs.get("transpose_a"):
        return sources.get(_unshaped(node.inputs[1], definer)) if gates.type.rank == 2 else None
    return backward.x_gradients if of_inputs and node.inputs[1] is backward.forward.w else None


def _unshaped(value: Value, definer: Mapping[Value, Node]) -> Value:
    """The stack that a matrix is, if it is one with the iterations and examples as rows."""
    maker = definer.get(value)
    if maker is None or maker.primitive.name != "reshape":
        return value
    (source,) = maker.inputs
    return source if source.type.shape[-1:] == value.type.shape[-1:] else value
