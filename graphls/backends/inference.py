"""Models for inference: the states of a graph become constants, its outputs get plain names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto

from graphls.backends.onnx.lowering import lower
from graphls.backends.onnx.metadata import described
from graphls.backends.onnx.shapes import subgraphs
from graphls.backends.onnx.types import ELEMENT_TYPES, exchanged
from graphls.backends.onnx.weights import Weights
from graphls.ir.build import Names
from graphls.ir.errors import GraphValueError
from graphls.ir.graph import Graph
from graphls.ir.types import Type


def inference_model(
    graph: Graph, states: Mapping[str, np.ndarray[Any, Any]]
) -> tuple[ModelProto, dict[str, np.ndarray[Any, Any]]]:
    """A graph as an ONNX model whose only inputs are those of the graph; `states` are the values of its states.

    The outputs are called `output`, or `output_0`, `output_1` and so on. Operators, inputs, outputs and weights tell
    where they come from, as those of a saved step do. Beside the model come the arrays that it does not hold, by the
    names of their tensors. Raises GraphValueError for a graph that writes states or draws random numbers.
    """
    _check(graph)
    lowered = lower(graph)
    model = described(lowered, graph)
    main = model.graph
    declared = {info.name: info for info in main.input}
    weights = Weights(lowered.outside, sum(len(tensor.raw_data) for tensor in main.initializer))
    for state in graph.states:
        info = declared[lowered.states[state.name]]
        _add_weight(main, info, exchanged(state.type), states[state.name], weights)
    del main.input[:]
    main.input.extend(declared[name] for name in lowered.inputs)
    _rename(main, _output_names(main))
    if not weights.outside:  # the checker reads what lies outside
        onnx.checker.check_model(model)
    return model, weights.outside


def _add_weight(
    main: GraphProto, info: ValueInfoProto, kind: Type, value: np.ndarray[Any, Any], weights: Weights
) -> None:
    """Make what was an input a constant of this value."""
    tensor = main.initializer.add(
        name=info.name, data_type=ELEMENT_TYPES[kind.dtype], dims=kind.shape, doc_string=info.doc_string
    )
    weights.fill(tensor, np.asarray(value, kind.dtype.numpy))
    tensor.metadata_props.extend(info.metadata_props)


def _check(graph: Graph) -> None:
    drawn = next((node for node in graph.nodes if node.primitive.on_host), None)
    if drawn is not None:
        raise GraphValueError("A model for inference draws no random numbers, as this does in evaluation.", drawn.loc)
    if graph.writes:
        name = graph.writes[0].state.name
        raise GraphValueError(
            f"A model for inference keeps no state, and the network writes {name!r} in evaluation, too; leave that out."
        )


def _output_names(main: GraphProto) -> dict[str, str]:
    used = {info.name for info in (*main.input, *main.initializer)} | {n for node in main.node for n in node.output}
    names, count = Names(used), len(main.output)
    wishes = ["output"] if count == 1 else [f"output_{i}" for i in range(count)]
    pairs = zip(main.output, wishes, strict=True)
    return {info.name: names.fresh(wish) for info, wish in pairs if info.name != wish}


def _rename(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Call tensors by other names, in branches and loops, too."""
    for info in graph.output:
        info.name = names.get(info.name, info.name)
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for _, body in subgraphs(node):
            _rename(body, names)
