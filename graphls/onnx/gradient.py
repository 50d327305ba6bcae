"""Writes the model that computes the outputs and the vector-Jacobian products of another model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, TensorProto

from graphls.base.errors import GraphlsError, GraphValueError
from graphls.base.files.files import as_path
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor, TensorLike
from graphls.frontend.trace.gradients import gradient
from graphls.frontend.trace.tracer import current_tracer
from graphls.ir.build import Names
from graphls.ir.registry import nearest
from graphls.nn.tracing import trace_graph
from graphls.onnx.cell import OnnxCell, cell_of
from graphls.onnx.importing.files import Source, read
from graphls.onnx.importing.types import element_type
from graphls.onnx.program import program_of
from graphls.onnx.selection import Selection, matching
from graphls.onnx.training.gradient_model import GRADIENT
from graphls.onnx.training.sizes import attempts, dynamic_sizes, examples, model_inputs, set_sizes
from graphls.passes import as_pipeline
from graphls.runtime.lowering import Lowered, lower
from graphls.runtime.lowering.dynamic_sizes import with_dynamic_sizes
from graphls.runtime.lowering.protos import rename, replace_items
from graphls.runtime.lowering.types import ELEMENT_TYPES
from graphls.runtime.lowering.weights import Weights, write_model
from graphls.step.export.dynamic_sizes import PASSES, Point, derive


@dataclass(frozen=True)
class Gradients:
    """The interface of the written model: its cotangents (inputs), gradients (outputs) and dynamic sizes."""

    cotangents: tuple[str, ...]
    gradients: tuple[str, ...]
    sizes: tuple[str, ...]


def write_gradient(
    source: Source, path: object, wrt: Iterable[str] | None = None, sizes: Mapping[str, int] | None = None,
    fixed: Mapping[str, TensorLike] | None = None,
) -> Gradients:  # fmt: skip
    """Write the model that gives the outputs of a model and then its gradients.

    Its inputs are those of the model, in evaluation mode, and a cotangent for each output of floats, called as that
    with `_grad` behind it, in the shape of the output. Its outputs are those of the model, and a gradient for each
    input and parameter that `wrt` names by patterns, called likewise: the product of the cotangents with the Jacobian.
    Without `wrt`, these are all inputs of floats, or all parameters where there is no such input. Parameters are
    initializers under their names. Sizes that the model leaves open stay so, but for those that `sizes` gives. Inputs
    to which `fixed` gives values are not inputs of what is written.

    Raises GraphlsError as `graphls.onnx.load` does, GraphValueError for names that nothing has, and where a size cannot
    stay open, GraphFileError where the file cannot be written.
    """
    original = read(source)
    proto = original.model()
    program = program_of(proto, original.folder)
    if program.faults:
        raise GraphValueError(f"The model has operators that graphls does not compute: {', '.join(program.faults)}.")
    cell = cell_of(original, program, Selection(), fixed)
    replace_items(proto.graph.input, [info for info in proto.graph.input if info.name not in (fixed or {})])
    set_sizes(proto, sizes or {})
    cell.set_train(False)
    model = _Model(proto, cell, *_chosen(proto, cell, wrt))
    write_model(as_path(path), model.dynamic(), model.weights.outside)
    return Gradients(tuple(model.cotangents), tuple(model.gradients), tuple(dynamic_sizes(proto)))


def _chosen(model: ModelProto, cell: OnnxCell, wrt: Iterable[str] | None) -> tuple[list[int], list[Parameter]]:
    """The positions of the inputs, and the parameters, with respect to which gradients are computed."""
    inputs = model_inputs(model.graph)
    floats = {i.name: n for n, i in enumerate(inputs) if element_type(i.type.tensor_type.elem_type).is_float}
    parameters = {p.name: p for p in cell.get_parameters()}
    if wrt is None:
        return list(floats.values()), [] if floats else [p for p in parameters.values() if p.requires_grad]
    chosen: set[str] = set()
    for pattern in wrt:
        matches = matching(pattern, (*floats, *parameters))
        if not matches:
            near = nearest(pattern, [*floats, *parameters])
            raise GraphValueError(f"No input or tensor of floats of the model is called {pattern!r}{near}.")
        chosen |= matches
    return [n for name, n in floats.items() if name in chosen], [p for n, p in parameters.items() if n in chosen]


@dataclass
class _Model:
    """The model under construction: the original, its cell, and the names of cotangents and gradients."""

    proto: ModelProto
    cell: OnnxCell
    positions: Sequence[int]
    parameters: Sequence[Parameter]
    cotangents: list[str] = field(default_factory=list)
    gradients: list[str] = field(default_factory=list)
    weights: Weights = field(default_factory=Weights)

    def dynamic(self) -> ModelProto:
        """The model for all sizes; raises GraphValueError where there is none."""
        return derive(attempts(self.proto), self.lowered, self.model, self.explained)

    def explained(self, error: GraphlsError, sizes: Point) -> GraphlsError:
        """The error for a model that cannot be derived for all sizes."""
        if not isinstance(error, GraphValueError):
            return error
        text = f"The model cannot be made with any {' and '.join(sizes)}: {error.message.rstrip('.')}"
        return GraphValueError(f"{text}; give sizes, with --size on the command line.")

    def model(self, steps: Sequence[tuple[Lowered, dict[str, Parameter]]], sizes: Sequence[Point]) -> ModelProto:
        """The one model that generalizes those of some sizes."""
        lowered, states = steps[0]
        if any(each.host for each, _ in steps):
            raise GraphValueError("A model with gradients draws no random numbers, as this does in evaluation.")
        model = with_dynamic_sizes([each.model for each, _ in steps], sizes)
        self.add_parameters(model, lowered, states)
        rename(model.graph, self.names(lowered, states))
        return model

    def lowered(self, sizes: Point) -> tuple[Lowered, dict[str, Parameter]]:
        """The lowered graph of outputs and gradients for some sizes."""
        inputs = examples(model_inputs(self.proto.graph), sizes)
        types = [value.type for value in trace_graph(self.outputs, *inputs).graph.outputs]
        vectors = [np.zeros(kind.shape, kind.dtype.numpy) for kind in types if kind.dtype.is_float]
        self.cotangents = [
            info.name for info, kind in zip(self.proto.graph.output, types, strict=True) if kind.dtype.is_float
        ]
        if not vectors:
            raise GraphValueError("The model gives no floats, so it has no gradient.")
        traced = trace_graph(self.with_gradients, *inputs, *vectors)
        graph = as_pipeline(PASSES).run(traced.graph, source="trace").graph
        if graph.writes:
            text = f"The model writes {graph.writes[0].state.name!r} in evaluation, too"
            raise GraphValueError(f"{text}; a model with gradients keeps no state.")
        return lower(graph), traced.parameters

    def outputs(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The outputs of the model."""
        results = self.cell(*inputs)
        return results if isinstance(results, tuple) else (results,)

    def with_gradients(self, *arguments: Tensor) -> tuple[Tensor, ...]:
        """The outputs for the inputs, and the gradients for the cotangents, which are the last arguments."""
        tracer = current_tracer()
        assert tracer is not None
        count = len(model_inputs(self.proto.graph))
        cotangents = arguments[count:]
        outputs, by_input, by_weight = gradient(
            tracer, self.outputs, arguments[:count], self.positions, self.parameters, cotangents
        )
        return *outputs, *by_input, *by_weight

    def add_parameters(self, model: ModelProto, lowered: Lowered, states: Mapping[str, Parameter]) -> None:
        """Replace the inputs that are parameters by initializers."""
        parameters = {tensor: states[name] for name, tensor in lowered.states.items()}
        self.weights = Weights(lowered.outside, sum(len(tensor.raw_data) for tensor in model.graph.initializer))
        for name, parameter in parameters.items():
            kind = ELEMENT_TYPES[parameter.dtype]
            tensor: TensorProto = model.graph.initializer.add(name=name, data_type=kind, dims=parameter.shape)
            self.weights.fill(tensor, np.ascontiguousarray(parameter.asnumpy()))
        replace_items(model.graph.input, [info for info in model.graph.input if info.name not in parameters])

    def names(self, lowered: Lowered, states: Mapping[str, Parameter]) -> dict[str, str]:
        """The final names of inputs, outputs and constants by their names in the lowered model."""
        inputs = [info.name for info in model_inputs(self.proto.graph)]
        outputs = [info.name for info in self.proto.graph.output]
        stored = {id(parameter): stored.name for stored, parameter in self.cell.stored.items()}
        constants = {tensor: stored.get(id(states[name]), name) for name, tensor in lowered.states.items()}
        fresh = Names([*inputs, *outputs, *constants.values()])
        moved = [*(inputs[i] for i in self.positions), *(p.name for p in self.parameters)]
        self.cotangents = [fresh.fresh(name.removesuffix(GRADIENT) + GRADIENT) for name in self.cotangents]
        self.gradients = [fresh.fresh(name + GRADIENT) for name in moved]
        names = dict(zip(lowered.inputs, (*inputs, *self.cotangents), strict=True))
        return names | dict(zip(lowered.outputs, (*outputs, *self.gradients), strict=True)) | constants
