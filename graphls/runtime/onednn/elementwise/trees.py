"""Trees of elementwise nodes: a node joins the groups that compute its operands, where one kernel computes all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from graphls.ir.graph import Node, Value
from graphls.passes.patterns.terms import number_of
from graphls.runtime.onednn.elementwise.chain import compute
from graphls.runtime.onednn.elementwise.expressions import NAMES, Expression, Numbers, expression_of
from graphls.runtime.onednn.program.program import COMPUTED, Group


def trees(
    groups: Sequence[Group], makers: Mapping[Value, Group], results: Iterable[Value], takes: Callable[[Node], bool]
) -> dict[Value, Group]:  # fmt: skip
    """The makers of values where elementwise nodes have joined the groups of their operands.

    `groups` are in the order in which they run. A node joins a group whose result it alone reads, or which only
    multiplies an operand by numbers: that is computed again by every reader, which costs no pass over memory.
    """
    uses = Counter(v for group in groups for v in group.inputs)
    uses.update(results)
    joined, known = dict(makers), dict[Value, tuple[Node, ...]]()
    numbers = _numbers(makers)
    for group in groups:
        stem = _stem(group, makers, numbers, takes)
        if stem:
            node = stem[-1]
            operands = [v for v in dict.fromkeys(node.inputs) if v in known]
            parts = [known[v] for v in operands if _may_join(v, node, known[v], uses, numbers)]
            known[node.output] = nodes = _largest(stem, parts, numbers)
            expression = expression_of(nodes, numbers)
            if len(nodes) > 1 and expression is not None:
                joined[node.output] = group_of(nodes, expression)
    return joined


def _stem(
    group: Group, makers: Mapping[Value, Group], numbers: Numbers, takes: Callable[[Node], bool]
) -> tuple[Node, ...]:  # fmt: skip
    """The node of a group if it may be one of a tree, behind the comparison of a gate; empty for others."""
    node = group.nodes[0]
    if len(group.nodes) != 1 or group.inputs != node.inputs:
        return ()
    name = node.primitive.name
    if name in NAMES:
        return (node,) if takes(node) else ()
    if name != "where" or node.phase != "backward" or node.output.type.dtype not in COMPUTED:
        return ()
    comparisons = (makers[v].nodes[0] for v in node.inputs[:1] if v in makers)
    stem = *(each for each in comparisons if len(each.outputs) == 1), node
    return stem if expression_of(stem, numbers) is not None else ()


def group_of(nodes: Sequence[Node], expression: Expression) -> Group:
    """The group of a tree."""
    result = nodes[-1].output
    inner = {node.output for node in nodes}
    inputs = tuple(v for node in nodes for v in node.inputs if v not in inner)
    return Group(tuple(nodes), inputs, (result,), lambda program: compute(program, expression, result))


def _numbers(makers: Mapping[Value, Group]) -> Numbers:
    def number(value: Value) -> float | None:
        maker = makers[value].nodes[0] if value in makers else None
        is_constant = maker is not None and maker.primitive.is_constant and value.type.size == 1
        return number_of(maker) if maker is not None and is_constant else None

    return number


def _may_join(value: Value, node: Node, nodes: Sequence[Node], uses: Mapping[Value, int], numbers: Numbers) -> bool:
    """Whether the nodes that compute an operand of a node may be in its tree."""
    is_own = uses[value] == node.inputs.count(value) or _is_factor(nodes, numbers)
    return value.type.shape == node.output.type.shape and is_own


def _is_factor(nodes: Sequence[Node], numbers: Numbers) -> bool:
    """Whether nodes only multiply an operand by numbers."""
    expression = expression_of(nodes, numbers)
    return expression is not None and expression.is_bare


def _largest(
    stem: tuple[Node, ...], parts: Sequence[tuple[Node, ...]], numbers: Numbers
) -> tuple[Node, ...]:  # fmt: skip
    """The largest tree of a node that one kernel computes."""
    trees = ((*dict.fromkeys(n for part in (*chosen, stem[:-1]) for n in part), stem[-1]) for chosen in _subsets(parts))
    return next((tree for tree in trees if expression_of(tree, numbers) is not None), stem)


def _subsets(parts: Sequence[tuple[Node, ...]]) -> Iterator[Sequence[tuple[Node, ...]]]:
    """All of the parts, then each alone, the largest first."""
    yield parts
    if len(parts) > 1:
        for part in sorted(parts, key=len, reverse=True):
            yield (part,)
