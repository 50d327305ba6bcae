"""States of an optimizer that are divided among the ranks."""

from __future__ import annotations

from collections.abc import Mapping

from graphls.ir.graph import Graph
from graphls.passes import Pipeline
from graphls.passes.collectives import collectives
from graphls.passes.shard import Shard
from graphls.ranks.shards import Division, prepare
from graphls.ranks.world import find_group, world
from graphls.tensors.parameter import Parameter


def with_shards(pipeline: Pipeline, parameters: Mapping[str, Parameter], least: int | None) -> Pipeline:
    """The pipeline with a pass that divides states of `least` bytes or more among the ranks; for None, without it."""
    if least is None:
        return pipeline
    trained = tuple(name for name, parameter in parameters.items() if parameter.requires_grad)
    shard = Shard(world().rank, world().size, least, trained)
    at = next(i for i, each in enumerate(pipeline.passes) if each.name == "cse")
    return Pipeline((*pipeline.passes[:at], shard, *pipeline.passes[at:]))


def divide_states(graph: Graph, parameters: Mapping[str, Parameter]) -> None:
    """Let parameters of which a step has a shard alone be divided among the ranks."""
    divided = [state.name for state in graph.states if state.type.shape != parameters[state.name].shape]
    if divided:
        group = next(find_group(n.attrs["group"]) for n in collectives(graph) if n.primitive.name == "reduce_shards")
        prepare(group)
        for name in divided:
            parameters[name].storage.division = Division(group, parameters[name].shape)
