"""Compiles a network to an ONNX inference model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphls.base.errors import GraphTypeError, GraphValueError
from graphls.base.reporting import checked
from graphls.base.sharing.locks import COMPILING
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.trace.trace import Traced
from graphls.ir.graph import Graph
from graphls.nn.cell import Cell
from graphls.nn.tracing import evaluating, trace_graph
from graphls.passes import as_pipeline
from graphls.passes.inference import for_inference
from graphls.passes.inference.fold_weights import Weight, constants
from graphls.passes.manager import DEFAULT_PASSES
from graphls.passes.schedule.host_calls import without_effects
from graphls.step.export.dynamic_axes import DynamicAxes, symbolic
from graphls.step.export.dynamic_sizes import PASSES, Point, derive

if TYPE_CHECKING:
    from onnx import ModelProto

PRECISIONS = ("float32", "float16")
Arrays = Mapping[str, np.ndarray[Any, Any]]


@dataclass(frozen=True)
class InferenceModel:
    """A model for inference, and the arrays that it does not hold by the names of their tensors, made when read.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn
        >>> from graphls.train.inference import inference_model
        >>> made = inference_model(nn.Dense(64, 3), np.ones((1, 64), np.float32), external_data=512)
        >>> [array.nbytes for array in made.outside.values()]
        [768]
    """

    model: ModelProto
    outside: Arrays


def inference_model(
    net: Callable[..., object], *inputs: object, dynamic_axes: DynamicAxes | None = None, opset: int | None = None,
    precision: str = "float32", external_data: int | None = None, metadata: Mapping[str, str] | None = None,
) -> InferenceModel:  # fmt: skip
    """The model that `graphls.train.export` writes, without a file; the arguments are its own.

    Raises GraphTypeError and GraphValueError where `export` does.

    Examples:
        >>> import numpy as np
        >>> from graphls import nn
        >>> from graphls.train.inference import inference_model
        >>> made = inference_model(nn.ReLU(), np.ones((2, 3), np.float32))
        >>> [node.op_type for node in made.model.graph.node]
        ['Relu']
    """
    _check(net, precision, external_data, metadata)
    from graphls.step.export import inference_model as lowering

    symbols = symbolic(net, inputs or _declared(net), dynamic_axes)
    sizes = symbols.points()

    def build(point: Point) -> Traced:
        return trace_graph(net, *symbols.at(point), names=symbols.wishes)

    with COMPILING.lock, evaluating(net):
        graphs, weights = derive([sizes], build, partial(_variants, precision == "float16"))
    make = partial(
        lowering.inference_model, at=sizes, opset=opset, native_half=precision == "float16", threshold=external_data,
    )  # fmt: skip
    model, outside = checked(make, graphs, weights)
    for key, value in (metadata or {}).items():
        model.metadata_props.add(key=key, value=value)
    return InferenceModel(model, outside)


def _variants(
    narrow: bool, traced: Sequence[Traced], sizes: Sequence[Point]
) -> tuple[list[Graph], Mapping[str, Weight]]:
    """The graphs of a network for some sizes, ready for inference, and the values of their states."""
    pipeline = as_pipeline(PASSES if sizes[0] else DEFAULT_PASSES)
    graphs = [pipeline.run(without_effects(one.graph), source="trace").graph for one in traced]
    values = {name: _value(parameter) for name, parameter in traced[0].parameters.items()}
    if any(graph.writes for graph in graphs):
        return graphs, values
    steady = set.intersection(*map(constants, graphs)) if len(graphs) > 1 else None
    variants = [for_inference(graph, values, narrow, steady) for graph in graphs]
    for _, weights in variants[1:]:
        _require_equal(variants[0][1], weights, values)
    return [graph for graph, _ in variants], variants[0][1]


def _require_equal(first: Mapping[str, Weight], other: Mapping[str, Weight], values: Mapping[str, Weight]) -> None:
    """Raise GraphValueError for weights that are other ones for another size."""
    for name in first.keys() | other.keys():
        ours, theirs = first.get(name), other.get(name)
        if ours is not None and ours is theirs is values.get(name):
            continue
        if ours is None or theirs is None or not _are_equal(ours(), theirs()):
            raise GraphValueError(
                f"The network cannot be exported for any size, because what it makes of the parameter {name!r} depends "
                "on the size; give the size."
            )


def _are_equal(first: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    return first.shape == other.shape and first.dtype == other.dtype and first.tobytes() == other.tobytes()


def _value(parameter: Parameter) -> Weight:
    return parameter.asnumpy


def _declared(net: object) -> tuple[object, ...]:
    """The inputs that `set_inputs` has told of."""
    inputs = net.get_inputs() if isinstance(net, Cell) else None
    if inputs is None:
        return ()
    return tuple(inputs.values()) if isinstance(inputs, Mapping) else tuple(inputs)


def _check(net: object, precision: object, external_data: object, metadata: object) -> None:
    if not callable(net):
        raise GraphTypeError(f"For 'export', 'net' must be a Cell or a function, but got {net!r}.")
    if precision not in PRECISIONS:
        raise GraphValueError(f"For 'export', 'precision' must be one of {list(PRECISIONS)}, but got {precision!r}.")
    is_size = isinstance(external_data, int) and not isinstance(external_data, bool) and external_data >= 0
    if external_data is not None and not is_size:
        raise GraphTypeError(f"For 'export', 'external_data' must be a number of bytes, but got {external_data!r}.")
    is_text = isinstance(metadata, Mapping) and all(isinstance(t, str) for pair in metadata.items() for t in pair)
    if metadata is not None and not is_text:
        raise GraphTypeError(f"For 'export', 'metadata' must be texts by texts, but got {metadata!r}.")
