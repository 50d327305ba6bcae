"""The gradients of a step as its backward computes them, and as it would without 16-bit floats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphls.diagnosis.gradients import GradientRange, gradient_range
from graphls.diagnosis.probe import Array, Probe
from graphls.ir.errors import GraphValueError
from graphls.ir.graph import Graph, Node, Value, definers
from graphls.ir.types import DType
from graphls.passes import Pipeline
from graphls.passes.cse import Cse
from graphls.passes.dce import Dce
from graphls.passes.rescale import Rescale, outer_gradients
from graphls.passes.widen import Widen


def gradients(traced: Graph) -> dict[str, tuple[Value, ...]]:
    """The gradients of every state that the outer `gradient` nodes of a traced graph take, by its name."""
    found: dict[str, tuple[Value, ...]] = {}
    top = set(traced.nodes)
    for node in reversed([n for n in outer_gradients(traced) if n in top]):
        start = 2 * node.attrs["of"]
        for source, gradient in zip(node.inputs[start : start + node.attrs["wrt"]], node.outputs, strict=True):
            if source.is_state:
                found[source.name] = (*found.get(source.name, ()), gradient)
    return found


@dataclass(frozen=True)
class _Part:
    name: str
    dtype: DType


class Backward:
    """The scaled gradients of a step, in two probes: as they are, and with the backward in float32."""

    def __init__(self, traced: Graph, pipeline: Pipeline, open_probe: Callable[[Graph], Probe]) -> None:
        found = gradients(traced)
        if not found:
            message = "This step takes no gradients of parameters, or only inside of branches."
            raise GraphValueError(message)
        wanted = tuple(v for values in found.values() for v in values)
        named = traced.replace(name=f"{traced.name}_gradients", outputs=wanted)
        made = Pipeline((Rescale(), *pipeline.passes)).run(named, keep=False, source="trace").graph
        names = [name for name, values in found.items() for _ in values]
        definer = definers(made.nodes)
        leaves = [(n, leaf) for n, v in zip(names, made.outputs, strict=False) for leaf in parts(v, definer)]
        self.parts = [_Part(name, leaf.type.dtype) for name, leaf in leaves]
        outputs = tuple(leaf for _, leaf in leaves)
        only = made.replace(outputs=outputs, writes=())
        self.narrow = open_probe(Pipeline((Dce(),)).run(only, keep=False).graph)
        self.wide = open_probe(Pipeline((Widen(), Cse(), Dce())).run(only, keep=False).graph)

    @property
    def dtypes(self) -> set[DType]:
        """The dtypes in which gradients are computed."""
        return {part.dtype for part in self.parts}

    def ranges(self, arrays: Sequence[Array]) -> tuple[GradientRange, ...]:
        """The range of every gradient, for these inputs, at the present scale."""
        found = list(zip(self.parts, self.narrow.run(arrays), self.wide.run(arrays), strict=True))
        keys: Iterable[_Part] = dict.fromkeys(self.parts)
        groups: Mapping[_Part, list[tuple[Any, Any]]] = {k: [(n, w) for p, n, w in found if p == k] for k in keys}
        return tuple(gradient_range(k.name, k.dtype, *zip(*pairs, strict=True)) for k, pairs in groups.items())


def parts(value: Value, definer: Mapping[Value, Node]) -> list[Value]:
    """The 16-bit values that a gradient is the sum of behind casts; the gradient itself where there are none."""
    return list(dict.fromkeys(_halves(value, definer))) or [value]


def _halves(value: Value, definer: Mapping[Value, Node]) -> list[Value]:
    node = definer.get(value)
    if value.type.dtype.is_half:
        return [value]
    if node is None or not (node.primitive.is_transparent or node.primitive.name == "add"):
        return []
    if node.inputs[0].type.size != value.type.size:  # a number that is repeated is a part with other elements
        return []
    return [half for v in node.inputs for half in _halves(v, definer)]
