"""Layers of LSTM, forward and backward, as one kernel of oneDNN each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from graphls.ir.graph import Graph, Node, Value, definers
from graphls.ir.types import bfloat16
from graphls.passes.rewrite import users
from graphls.passes.simplify.patterns import Match, matches
from graphls.passes.simplify.recurrent import CELL, HIDDEN, INPUTS
from graphls.primitives.primitive import normalise_axes
from graphls.runtime.onednn.kernels.lstm import Backward, Forward
from graphls.runtime.onednn.program.program import COMPUTED, Group

_GATES = ("INPUT", "FORGET", "CELL", "OUTPUT")
"""The gates of an LSTM, in the order of oneDNN, which is that of the rows of its weights, too."""

_STATES = ("add(hidden, g)", "hidden")
"""The gradient of what an iteration gives, with or without that of the stacked results."""


def _cell(state: str) -> str:
    return f"add(cell, mul({state}, to_cell))"


def _gates(state: str) -> str:
    parts = ", ".join(f"mul({_cell(state)}, {name})" for name in ("to_input", "to_forget", "to_candidate"))
    return f"concat({parts}, mul({state}, to_output), axis=1)"


_FACTORS = {
    "to_cell": "mul(output, sub(1.0, square(tanh)))",
    "to_output": "mul(tanh, mul(output, sub(1.0, output)))",
    "to_input": "mul(candidate, mul(input, sub(1.0, input)))",
    "to_candidate": "mul(input, sub(1.0, square(candidate)))",
    "to_forget": "mul(cell, mul(forget, sub(1.0, forget)))",
}
"""What gradients are multiplied by, of values that the forward has stacked."""


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
    """The groups of the layers of LSTM in a graph: those without a backward, and those with one that fits."""
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
    """The values of iterations that a loop stacks for its backward, by their names in the patterns."""

    names: Mapping[str, Value]
    values: Mapping[Value, Value] = field(default_factory=dict)

    def agree(self, match: Match) -> bool:
        """Whether each stacked value of a match is the one of that name."""
        return all(self.values.get(value) is self.names[name] for name, value in match.values.items())


def _forward_group(layer: Forward) -> Group:
    inputs = (layer.x, layer.w, layer.r, *layer.biases, *layer.first)
    return Group((layer.node,), inputs, (*layer.node.outputs[:2], *layer.results), layer.emit)


def _backward_group(backward: Backward) -> Group:
    layer = backward.forward
    gradients = (*backward.node.inputs[:2], *([backward.g] if backward.g is not None else []))
    inputs = (layer.x, layer.w, layer.r, *layer.biases, *layer.first, layer.node.outputs[0], *gradients)
    return Group((backward.node,), inputs, tuple(backward.outputs), backward.emit)


def _forward(node: Node, definer: Mapping[Value, Node]) -> tuple[Forward, _Stacks] | None:
    """The layer that a loop computes; None where it is another one."""
    region = _without_casts(node.regions[0])
    if node.attrs["carries"] != 2 or len(region.inputs) != 3 or node.after:
        return None
    step, projection = _step(region), _projection(node.inputs[2], definer)
    if step is None or projection is None:
        return None
    match, names = step
    w, r = projection["w"], match["r"]
    biases = [projection[name] for name in ("b1", "b2") if name in projection.values]
    hidden = region.outputs[0].type.shape[-1]
    is_outside = r not in {v for each in region.nodes for v in each.outputs} and r not in region.inputs
    fits = is_outside and r.type.shape == (4 * hidden, hidden) and w.type.shape[0] == 4 * hidden
    dtype = projection["x"].type.dtype
    is_of_one_dtype = all(v.type.dtype is dtype for v in (w, r, node.inputs[0]))
    if not fits or not is_of_one_dtype or any(b.type.shape != (4 * hidden,) for b in biases):
        return None
    pairs = list(zip(region.outputs[2:], node.outputs[2:], strict=True))
    results = [outer for inner, outer in pairs if inner is region.outputs[0] and outer.type.dtype is dtype]
    layer = Forward(node, projection["x"], w, r, biases, node.inputs[:2], results)
    return layer, _Stacks(names, {outer: inner for inner, outer in pairs if inner is not region.outputs[0]})


def _step(region: Graph) -> tuple[Match, dict[str, Value]] | None:
    """The match of an iteration with that of an LSTM, and its values by their names in the patterns."""
    definer = definers(region.nodes)
    makers = [definer.get(value) for value in region.outputs[:2]]
    if makers[0] is None or makers[1] is None:
        return None
    match, cell = matches(HIDDEN, makers[0], definer), matches(CELL, makers[1], definer)
    if match is None or cell is None or cell.nodes[0] not in match.nodes:
        return None
    if [match[name] for name in ("h", "c", "projection")] != list(region.inputs):
        return None
    hidden = region.outputs[0].type.shape[-1]
    if [match[name] for name in _GATES] != [(0, hidden * number) for number in range(4)]:
        return None
    slices = {n.attrs["starts"]: n.output for n in match.nodes if n.primitive.name == "slice"}
    activations = {n.inputs[0]: n.output for n in match.nodes if len(n.inputs) == 1 and n.primitive.name != "slice"}
    values = [activations[slices[match[name]]] for name in _GATES]
    names = dict(zip(("input", "forget", "candidate", "output"), values, strict=True))
    return match, {**names, "tanh": activations[region.outputs[1]], "cell": region.inputs[1], "h": region.inputs[0]}


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
    is_of_gates = len(node.outputs) > 2 and len({*region.outputs[2:]}) == 1
    is_fit = node.attrs["carries"] == 2 and is_of_gates and not node.after
    if not is_fit or node.attrs.get("reverse") == layer.node.attrs.get("reverse"):
        return None
    step = _step_back(region, layer.r)
    if step is None:
        return None
    outer = dict(zip(region.inputs, node.inputs, strict=True))
    values = {name: outer[value] for name, value in step.values.items() if value in outer}
    if not stacks.agree(Match({"forget": values["forget"]})):
        return None
    for name, text in _FACTORS.items():
        maker = definer.get(values[name])
        match = matches(text, maker, definer) if maker is not None else None
        if match is None or not stacks.agree(match):
            return None
    backward = Backward(node, layer, values.get("g"))
    old = [outer for outer, inner in stacks.values.items() if inner is stacks.names["h"]]
    are_known = all(_find_readers(backward, gates, old, definer, readers) for gates in node.outputs[2:])
    return backward if are_known else None


def _step_back(region: Graph, r: Value) -> Match | None:
    """The match of an iteration with the backward of an LSTM."""
    definer = definers(region.nodes)
    product, cell, gates = (definer.get(value) for value in region.outputs[:3])
    if product is None or cell is None or gates is None or product.primitive.name != "matmul":
        return None
    is_plain = not (product.attrs.get("transpose_a") or product.attrs.get("transpose_b"))
    if not is_plain or product.inputs != (gates.output, r):
        return None
    for state in _STATES:
        match, old = matches(_gates(state), gates, definer), matches(f"mul({_cell(state)}, forget)", cell, definer)
        if match is not None and old is not None:
            both = match.with_value("forget", old["forget"])
            names = [name for name in old.values if name != "forget"]
            is_same = both is not None and all(old[name] is match[name] for name in names)
            are_carried = [match["hidden"], match["cell"]] == list(region.inputs[:2])
            return both if is_same and are_carried and {*match.values.values()} <= {*region.inputs} else None
    return None


def _find_readers(
    backward: Backward, gates: Value, old: Sequence[Value], definer: Mapping[Value, Node],
    readers: Mapping[Value, Sequence[Node]],
) -> bool:  # fmt: skip
    """Find the gradients that are computed from those of the gates; False where something else is computed of them."""
    sources = {backward.forward.x: backward.w_gradients, **dict.fromkeys(old, backward.r_gradients)}
    matrices = [n.output for n in readers.get(gates, ()) if n.primitive.name == "reshape" and _has_rows_of(gates, n)]
    pairs = [(value, node) for value in (gates, *matrices) for node in readers.get(value, ())]
    for value, node in pairs:
        if node.outputs[0] in matrices:
            continue
        gradients = _gradients_of(backward, value, node, sources, definer)
        if gradients is None:
            return False
        gradients.append(node.output)
    return True


def _has_rows_of(stack: Value, node: Node) -> bool:
    return node.output.type.shape[-1] == stack.type.shape[-1]


def _gradients_of(
    backward: Backward, gates: Value, node: Node, sources: Mapping[Value, list[Value]], definer: Mapping[Value, Node]
) -> list[Value] | None:  # fmt: skip
    """The list of gradients that the result of a node belongs to; None for another result."""
    attrs, name = node.attrs, node.primitive.name
    if name == "sum":
        axes = tuple(range(gates.type.rank - 1))
        is_plain = normalise_axes(attrs.get("axis"), gates.type.rank) == axes and node.output.type.rank == 1
        return backward.b_gradients if is_plain else None
    if name != "matmul" or node.inputs[0] is not gates or attrs.get("transpose_b"):
        return None
    if attrs.get("transpose_a"):
        return sources.get(_unshaped(node.inputs[1], definer)) if gates.type.rank == 2 else None
    return backward.x_gradients if node.inputs[1] is backward.forward.w else None


def _unshaped(value: Value, definer: Mapping[Value, Node]) -> Value:
    """The stack that a matrix is, if it is one with the iterations and examples as rows."""
    maker = definer.get(value)
    if maker is None or maker.primitive.name != "reshape":
        return value
    (source,) = maker.inputs
    return source if source.type.shape[-1:] == value.type.shape[-1:] else value
