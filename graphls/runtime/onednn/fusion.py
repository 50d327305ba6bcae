"""Fusion groups: the nodes of a graph that one kernel computes, in the order in which the groups run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from graphls.ir.graph import Graph, Node, Value, definers, uses
from graphls.runtime.onednn.elementwise.activations import activations
from graphls.runtime.onednn.elementwise.select import selections
from graphls.runtime.onednn.elementwise.trees import trees
from graphls.runtime.onednn.embeddings import embeddings
from graphls.runtime.onednn.kernels.block_maxima import maxima_of_maxima
from graphls.runtime.onednn.kernels.convolution import weight_gradients
from graphls.runtime.onednn.kernels.layer_norm import layer_normalisations
from graphls.runtime.onednn.kernels.low_precision import roundings
from graphls.runtime.onednn.kernels.max_pooling import poolings
from graphls.runtime.onednn.kernels.normalisation import normalisations
from graphls.runtime.onednn.kernels.overflow import overflow_checks
from graphls.runtime.onednn.kernels.random_rounding import random_roundings
from graphls.runtime.onednn.kernels.recurrent import layers
from graphls.runtime.onednn.kernels.resampling import resamplings
from graphls.runtime.onednn.kernels.softmax import softmax_gradients
from graphls.runtime.onednn.program.program import Group, Program
from graphls.runtime.onednn.registry import Rule
from graphls.runtime.onednn.scales import scales
from graphls.runtime.onednn.single_numbers import single_numbers


def groups_of(
    graph: Graph, rule_of: Callable[[Node], Rule], joins: Callable[[Group, Node], bool], takes: Callable[[Node], bool]
) -> list[Group]:  # fmt: skip
    """The groups that compute the results of a graph, each behind those that it needs.

    `rule_of` gives the rule of a node, which takes the node and those that have joined it; `joins` says whether a node
    can join a group whose result it reads, `takes` whether a node has a kernel. A normalisation, an activation, a
    recurrent layer, the gradient of a softmax, of a max pooling or of a convolution's weights, or an update of single
    numbers, is one group, whose results stand for those of the nodes that it replaces; nodes that nobody reads any more
    are left out.
    """
    makers = {value: _single(node, rule_of) for node in graph.nodes for value in node.outputs}
    results = (*graph.outputs, *(write.value for write in graph.writes))
    definer = definers(graph.nodes)
    fused = (
        normalisations(graph.nodes, definer), layer_normalisations(graph.nodes, definer),
        softmax_gradients(graph.nodes, definer), poolings(graph.nodes, results, definer),
        embeddings(graph.nodes, results, definer), activations(graph.nodes, definer),
        layers(graph.nodes, definer), selections(graph.nodes, definer),
        weight_gradients(graph.nodes, takes), overflow_checks(graph.nodes, definer),
        single_numbers(graph.nodes, definer), resamplings(graph.nodes, definer),
        roundings(graph.nodes, results, definer), random_roundings(graph.nodes, results, definer),
        scales(graph.nodes, results, definer), maxima_of_maxima(graph.nodes),
    )  # fmt: skip
    for group in chain(*fused):
        makers.update((value, group) for value in group.outputs)
    makers = _chained(_ordered(results, makers), makers, results, rule_of, joins)
    return _ordered(results, trees(_ordered(results, makers), makers, results, takes))


def _single(node: Node, rule_of: Callable[[Node], Rule]) -> Group:
    return Group((node,), uses(node), node.outputs, lambda program: rule_of(node)(program, (node,)), True)


def _ordered(results: Iterable[Value], makers: dict[Value, Group]) -> list[Group]:
    """The groups that results need, by depth-first search: the operands of each come before it."""
    order: dict[Group, None] = {}
    waiting: list[tuple[Value | None, Group | None]] = [(v, None) for v in reversed(list(results))]
    while waiting:
        value, group = waiting.pop()
        if group is not None:
            order.setdefault(group)
        elif value in makers and makers[value] not in order:
            group = makers[value]
            waiting.append((None, group))
            waiting.extend((v, None) for v in reversed(group.inputs) if v in makers and makers[v] not in order)
    return list(order)


def _chained(
    groups: Sequence[Group], makers: dict[Value, Group], results: Iterable[Value], rule_of: Callable[[Node], Rule],
    joins: Callable[[Group, Node], bool],
) -> dict[Value, Group]:  # fmt: skip
    """The makers of values where elementwise nodes have joined the group of their operand, if they alone read it."""
    uses = Counter(v for group in groups for v in group.inputs)
    uses.update(results)
    chained = {v: group for group in groups for v in group.outputs}
    for group in groups:
        if not group.is_chain or len(group.outputs) != 1:
            continue
        (node,) = group.nodes
        for value in node.inputs:
            head = chained.get(value)
            if head is None or not head.is_chain or uses[value] > 1:
                continue
            if head.outputs == (value,) and joins(head, node):
                nodes = (*head.nodes, node)
                inputs = (*head.inputs, *(v for v in node.inputs if v is not value))
                rule = rule_of(nodes[0])
                chained[node.output] = Group(nodes, inputs, node.outputs, _call(rule, nodes), True)
                break
    return chained


def _call(rule: Rule, nodes: tuple[Node, ...]) -> Callable[[Program], None]:
    return lambda program: rule(program, nodes)
