"""Prediction models of a bundle: the step for any number of rows, and its network in evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphls.base.errors import GraphlsError, GraphValueError
from graphls.base.sharing.locks import COMPILING
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.frontend.trace.trace import PLACE, Traced, trace
from graphls.ir.graph import Graph, Value
from graphls.nn.cell import Cell, input_names
from graphls.nn.tracing import evaluating
from graphls.passes import Pipeline, as_pipeline
from graphls.passes.inference import recognised
from graphls.passes.schedule.host_calls import without_effects
from graphls.step.export.dynamic_sizes import BATCH, ROWS, Point, derive, points

if TYPE_CHECKING:
    from graphls.runtime.lowering import Lowered
    from graphls.step.export.predict import Prediction

PASSES = "gradient, fold, cse, dce, order"


def wished_prediction(
    wish: Cell | bool, cells: Sequence[object], graph: Graph, states: Mapping[str, Parameter], opset: int | None
) -> Prediction | None:
    """The prediction of a cell, or of the network that a step has; None where none is wished or that has none.

    Raises as `prediction` does for a cell that was named.
    """
    if isinstance(wish, Cell):
        return prediction(wish, graph.inputs, states, opset)
    network = _network_of(cells) if wish else None
    try:
        return None if network is None else prediction(network, graph.inputs, states, opset)
    except GraphlsError:
        return None


def dynamic_step(cell: Cell, inputs: Sequence[Value], pipeline: Pipeline, lower: Callable[[Graph], Lowered]) -> Lowered:
    """The model of a step for any number of rows of all its inputs.

    Raises GraphValueError, with the user's line, for a step that is another one for other numbers of rows.
    """
    from graphls.runtime.lowering.dynamic_sizes import generalized

    names = input_names(cell, len(inputs))

    def build(sizes: Point) -> Lowered:
        traced = trace(cell, _examples(inputs, sizes), names, type(cell).__name__)
        return lower(without_effects(pipeline.run(traced.graph, source="trace").graph))

    return derive([points([BATCH], ROWS)], build, generalized)


def is_place(leaf: object) -> bool:
    """Whether a leaf of a result stands for a tensor."""
    return leaf is PLACE


def _network_of(cells: Sequence[object]) -> Cell | None:
    """The network among the cells of a step that has a loss behind it, where there is one."""
    networks = (getattr(cell, "backbone_network", None) for cell in cells)
    return next((network for network in networks if isinstance(network, Cell)), None)


def prediction(
    network: Cell, inputs: Sequence[Value], states: Mapping[str, Parameter], opset: int | None
) -> Prediction:
    """The model of a network in evaluation mode for the first of the inputs of a step, as many as it takes.

    Its states have the names that they have in the step, and it takes any number of rows where the network does.
    Raises GraphValueError for a network that draws random numbers or writes states in evaluation, and what a trace
    raises.
    """
    from graphls.runtime.lowering.dynamic_sizes import generalized
    from graphls.step.export.inference_model import without_dead
    from graphls.step.export.predict import Prediction

    names = input_names(network, len(inputs))
    network_inputs = inputs[: len(names)]

    def build(sizes: Point) -> tuple[Traced, Lowered]:
        traced = trace(network, _examples(network_inputs, sizes), names, type(network).__name__)
        traced.graph = recognised(as_pipeline(PASSES).run(without_effects(traced.graph), source="trace").graph)
        return traced, _lowered(traced.graph, opset)

    def combine(built: Sequence[tuple[Traced, Lowered]], sizes: Sequence[Point]) -> tuple[Traced, Lowered]:
        return built[0][0], without_dead(generalized([lowered for _, lowered in built], sizes))

    with COMPILING.lock, evaluating(network):
        traced, lowered = derive([points([BATCH], ROWS), [{}]], build, combine)  # else the rows are part of the network
    known = {id(parameter): name for name, parameter in states.items()}
    state_names = {name: known.get(id(p)) for name, p in traced.parameters.items()}
    own = {name: p.asnumpy() for name, p in traced.parameters.items() if state_names[name] is None}
    return Prediction(lowered, network, traced.outputs, is_place, state_names, own)


def _examples(inputs: Sequence[Value], sizes: Point) -> tuple[Tensor, ...]:
    """Inputs of these types, with another number of rows where the sizes give one."""
    examples = []
    for value in inputs:
        shape = value.type.shape
        shape = (sizes[BATCH], *shape[1:]) if sizes and shape else shape
        examples.append(Tensor(np.broadcast_to(np.zeros((), value.type.dtype.numpy), shape)))
    return tuple(examples)


def _lowered(graph: Graph, opset: int | None) -> Lowered:
    from graphls.runtime.lowering import lower
    from graphls.runtime.onnxruntime.runtime import installed_version
    from graphls.step.export.inference_model import without_dead

    if graph.writes or any(node.primitive.on_host for node in graph.nodes):
        raise GraphValueError("The network writes states or draws random numbers in evaluation, which no model can.")
    return without_dead(lower(graph, opset=opset, runtime=installed_version()))
