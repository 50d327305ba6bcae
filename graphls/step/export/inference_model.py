"""ONNX inference models of a graph: states become constants, outputs get plain names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto

from graphls.base.errors import GraphValueError
from graphls.ir.build import Names
from graphls.ir.graph import Graph
from graphls.ir.types import Type
from graphls.runtime.lowering.dynamic_sizes import generalized
from graphls.runtime.lowering.kernel_tables import OLDEST_RUNTIME, chosen_opset
from graphls.runtime.lowering.lowering import Lowered, lower
from graphls.runtime.lowering.metadata import described
from graphls.runtime.lowering.protos import names_read, remove_dead, rename, replace_items
from graphls.runtime.lowering.size_terms import Sizes
from graphls.runtime.lowering.target import target_of
from graphls.runtime.lowering.types import ELEMENT_TYPES, exchanged
from graphls.runtime.lowering.weights import Weights

Array = np.ndarray[Any, Any]
OPSET = 20
"""The opset of a model for inference where nobody asks for one: the first that has Gelu."""


def inference_model(
    variants: Sequence[Graph], weights: Mapping[str, Callable[[], Array]], *, at: Sizes, opset: int | None = None,
    native_half: bool = False, threshold: int | None = None,
) -> tuple[ModelProto, Mapping[str, Array]]:  # fmt: skip
    """A graph as an ONNX model whose only inputs are those of the graph; `weights` give the values of its states.

    `variants` are the same graph for the sizes `at`, which stay open; one graph where there are none. The outputs are
    called `output`, or `output_0`, `output_1` and so on. Operators, inputs, outputs and weights tell where they come
    from, as those of a saved step do. With `native_half`, float16 is computed as such. Beside the model come the arrays
    that it does not hold, by the names of their tensors: weights from `threshold` bytes on, or what is too much for a
    file. Raises GraphValueError for a graph that writes states or draws random numbers, or that
    is not the same for all sizes.
    """
    for graph in variants:
        _check(graph)
    target = target_of("cpu", chosen_opset(OPSET if opset is None else opset, None), OLDEST_RUNTIME)
    target = target.for_any_runtime(native_half)
    models = [without_dead(lower(graph, target=target)) for graph in variants]
    lowered = generalized(models, at)
    model = described(lowered, variants[0])
    outside = _with_weights(model, lowered, variants[0], weights, threshold)
    rename(model.graph, _output_names(model.graph))
    if not outside:  # the checker reads what lies outside
        onnx.checker.check_model(model)
    return model, outside


def without_dead(lowered: Lowered) -> Lowered:
    """The same model, in place, without operators and constants that nothing reads, as operands of compositions."""
    for name in lowered.outside.keys() - remove_dead(lowered.model.graph):
        del lowered.outside[name]
    return lowered


def _with_weights(
    model: ModelProto, lowered: Lowered, graph: Graph, values: Mapping[str, Callable[[], Array]], threshold: int | None,
) -> Mapping[str, Array]:  # fmt: skip
    """Make constants of the inputs that are states; those that lie outside of the model."""
    main = model.graph
    declared = {info.name: info for info in main.input}
    read = {*names_read(main.node), *(info.name for info in main.output)}
    inside = sum(len(tensor.raw_data) for tensor in main.initializer)
    weights = Weights(lowered.outside, inside, threshold)
    for state in graph.states:
        info = declared[lowered.states[state.name]]
        if info.name in read:
            _add_weight(main, info, exchanged(state.type), values[state.name], weights)
    replace_items(main.input, [declared[name] for name in lowered.inputs])
    return weights.outside


def _add_weight(
    main: GraphProto, info: ValueInfoProto, kind: Type, value: Callable[[], Array], weights: Weights
) -> None:
    """Turn an input into a constant of this value."""
    tensor = main.initializer.add(
        name=info.name, data_type=ELEMENT_TYPES[kind.dtype], dims=kind.shape, doc_string=info.doc_string
    )
    weights.fill_later(tensor, kind.size * kind.dtype.itemsize, lambda: np.asarray(value(), kind.dtype.numpy))
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
