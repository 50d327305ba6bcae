"""The proof that a step on a mesh decides alike on every device, and leaves its states as it takes them."""

from __future__ import annotations

from collections.abc import Iterable

from graphls.ir.graph import Graph, Node, Value, walk
from graphls.ir.sharding import Sharding
from graphls.ir.verify import fault
from graphls.passes.distributed.shard_choice import is_pointwise


def verify_shardings(graph: Graph) -> None:
    """Prove that a step on a mesh decides alike on every device; raises VerifyError at the node or write that does not.

    Overflow flags, conditions and the states of one element that they are computed from are whole, by the rule that a
    mesh divides axes evenly. Types are those of whole values, so that a check reads all elements wherever they are. It
    remains that no node computes on each device what is its own: a collective of ranks; and that a state which takes a
    value from a `shard` is divided as that requires, so that a step leaves each state as the next one takes it.
    """
    if graph.mesh is None:
        return
    for node in walk(graph):
        if node.primitive.is_collective:
            text = f"{node.primitive.name} combines numbers of ranks, and a step on a mesh is one for all devices"
            raise fault(graph, node, text)
    stated = stated_shardings(graph.nodes, ())
    for write in graph.writes:
        if write.value in stated and stated[write.value] != write.state.sharding:
            raise fault(graph, write, "the state is divided in another way than the value from a shard that it takes")


def stated_shardings(nodes: Iterable[Node], ends: Iterable[Value]) -> dict[Value, Sharding | None]:
    """The values of a block with stated shardings: `ends`, results of `shard`, and what is computed from one alone.

    None stands for a whole value.
    """
    stated = {value: value.sharding for value in ends}
    for node in nodes:
        if node.primitive.result_sharding(node.attrs) is not None:
            stated[node.output] = node.output.sharding
        elif is_pointwise(node):
            like = [v for v in node.inputs if v.type.shape == node.output.type.shape]
            if len(like) == 1 and like[0] in stated:
                stated[node.output] = stated[like[0]]
    return stated
