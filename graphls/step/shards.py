"""Passes and state sharding for steps of several ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain

from graphls.base.errors import GraphValueError
from graphls.distributed.sharded_states import Division, prepare
from graphls.distributed.world import world
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.trace.trace import Traced
from graphls.ir.engines import require_mesh
from graphls.ir.graph import Graph, walk
from graphls.ir.sharding import Mesh
from graphls.passes import Pass, Pipeline
from graphls.passes.distributed.buckets import Buckets
from graphls.passes.distributed.regather import Regather
from graphls.passes.distributed.shard import Shard
from graphls.passes.distributed.shardings import Axes, Shardings
from graphls.passes.distributed.stages import Stages
from graphls.runtime.context import default_layout
from graphls.runtime.context.device_layout import DeviceLayout


def for_ranks(pipeline: Pipeline, parameters: Mapping[str, Parameter], least: int | None) -> Pipeline:
    """The pipeline of one rank with what several need: tensors travel together.

    States of `least` bytes or more are divided among the ranks; for None, none are.
    """
    group = world()
    if group.size == 1:
        return pipeline
    bucketed = pipeline.with_pass(Buckets(), before="order")
    if least is None:
        return bucketed
    trained = tuple(name for name, parameter in parameters.items() if parameter.requires_grad)
    return bucketed.with_pass(Shard(group.rank, group.size, least, trained), before="cse")


def for_mesh(pipeline: Pipeline, shardings: Shardings) -> Pipeline:
    """The pipeline of one device with what a mesh needs: stages, shardings, and what gathers divided parameters."""
    passes: tuple[Pass, ...] = (Stages(), shardings, *pipeline.passes)
    at = next((number for number, each in enumerate(passes) if each.name == "gradient"), None)
    if at is None or shardings.zero < 3:
        return Pipeline(passes)
    return Pipeline((*passes[: at + 1], Regather(), *passes[at + 1 :]))


def stated_layout(mesh: Mesh | None, zero: int | None) -> DeviceLayout | None:
    """The layout that a user states, None for that of the context.

    Raises GraphlsError for a level of ZeRO that there is not, or that the mesh cannot have.
    """
    if mesh is None and zero is None:
        return None
    layout = default_layout() if mesh is None else default_layout().on(require_mesh(mesh))
    layout = layout if zero is None else replace(layout, zero=zero)
    policy = Shardings(layout.zero, layout.data)
    if layout.mesh is not None:  # `simulate` may bring one
        policy.require(layout.mesh)
    return layout


def on_mesh(graph: Graph, mesh: Mesh | None, has_devices: bool) -> Graph:
    """A divided graph on a mesh of other sizes; by default on its own, or on one device where there are no more.

    Raises GraphTypeError and GraphValueError for a mesh that cannot divide it.
    """
    if mesh is not None and (require_mesh(mesh).names != (() if graph.mesh is None else graph.mesh.names)):
        own = "has no mesh" if graph.mesh is None else f"is divided on {graph.mesh}"
        raise GraphValueError(f"The step {own}, and cannot run on {mesh}, which has other axes.")
    if graph.mesh is None or (mesh is None and has_devices):
        return graph
    mesh = Mesh(**dict.fromkeys(graph.mesh.names, 1)) if mesh is None else mesh
    values = chain(graph.inputs, graph.states, (value for node in walk(graph) for value in node.outputs))
    for value in values:
        if value.sharding and (fault := value.sharding.fault(value.type.shape, mesh)) is not None:
            raise GraphValueError(f"The step cannot run on {mesh}: {value.name!r} {fault}.")
    return graph.replace(mesh=mesh)


def shardings_of(layout: DeviceLayout, traced: Traced, inputs: tuple[Axes | None, ...]) -> Shardings:
    """The pass that divides a step as a layout says, and inputs as the user says, if at all."""
    undivided = tuple(name for name, parameter in traced.parameters.items() if not parameter.parallel_optimizer)
    inputs = inputs or layout.of_inputs(len(traced.graph.inputs))
    return Shardings(layout.zero, layout.data, inputs, layout.least, undivided)


def divide_states(graph: Graph, parameters: Mapping[str, Parameter]) -> None:
    """Let parameters of which a step has a shard alone be divided among the ranks."""
    divided = [state.name for state in graph.states if state.type.shape != parameters[state.name].shape]
    if divided:
        group = world()
        prepare(group)
        for name in divided:
            storage = parameters[name].storage
            if storage.division is None:
                storage.division = Division(group, parameters[name].shape, storage.own)
