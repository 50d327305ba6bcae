"""Faults of an overflow window, in the graph before it becomes a model: the check looks at other values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from graphls.ir.graph import Node, Value, definers
from tests.networks.agreement import Prepared
from tests.networks.faults.fault import Faulty, Generator, one


def _with_checked(prepared: Prepared, where: str, change: Callable[[Sequence[Value]], Sequence[Value]]) -> Faulty:
    """Let the check look at other values."""

    def changed(node: Node) -> Node:
        return replace(node, inputs=tuple(change(node.inputs))) if node.primitive.is_check else node

    graph = prepared.graph.replace(nodes=tuple(map(changed, prepared.graph.nodes)))
    return Faulty(where, prepared.lowered("cuda", graph))


def _checked(prepared: Prepared) -> tuple[Value, ...]:
    return next(node.inputs for node in prepared.graph.nodes if node.primitive.is_check)


def overflow_starts_later(prepared: Prepared, rng: Generator) -> Faulty:
    """Of the values of the window only the last quarter is looked at."""
    definer = definers(prepared.graph.nodes)
    order = {node: number for number, node in enumerate(prepared.graph.nodes)}
    values = sorted((v for v in _checked(prepared) if v in definer), key=lambda v: order[definer[v]])
    early = set(values[: 3 * len(values) // 4])
    return _with_checked(prepared, f"{len(early)} values", lambda given: [v for v in given if v not in early])


def overflow_starts_earlier(prepared: Prepared, rng: Generator) -> Faulty:
    """The values of the forward are looked at, too."""
    made = (v for node in prepared.graph.nodes if node.phase == "forward" for v in node.outputs)
    floats = [v for v in made if v.type.dtype.is_float]
    return _with_checked(prepared, f"{len(floats)} values", lambda given: [*given, *floats])


def gradient_is_not_looked_at(prepared: Prepared, rng: Generator) -> Faulty:
    """One operand of the check is missing."""
    value = one(rng, [v for v in _checked(prepared) if v.type.dtype.is_float])
    return _with_checked(prepared, value.name, lambda given: [v for v in given if v is not value])
