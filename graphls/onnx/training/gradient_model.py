"""The training model: the loss of a model, its outputs, and the gradients of its parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from onnx import ModelProto, ValueInfoProto, numpy_helper

from graphls.api import trace_graph
from graphls.backends.onnx import Lowered, lower
from graphls.backends.onnx.drawn import draws_itself
from graphls.backends.onnx.open_sizes import with_open_sizes
from graphls.backends.onnx.protos import rename, replace_items
from graphls.importing.files import Original
from graphls.ir.errors import GraphlsError, GraphValueError
from graphls.onnx.cell import OnnxCell, cell_of
from graphls.onnx.program import program_of
from graphls.onnx.training.sizes import LEAST_SIZES, PASSES, describe, examples, given_inputs, open_sizes, samples
from graphls.ops.gradients import value_and_grad
from graphls.passes import as_pipeline
from graphls.sharing.locks import COMPILING
from graphls.tensors.parameter import Parameter

Made = TypeVar("Made")
GRADIENT, UPDATED = "_grad", ".updated"
"""What is put behind the name of a parameter to name its gradient, and the new value of one that the step writes."""


@dataclass(frozen=True)
class TrainingModel:
    """A training model, the parameters that get gradients, and those that its steps write, such as running means."""

    model: ModelProto
    trained: tuple[str, ...]
    written: tuple[str, ...]


def training_model(original: Original, trained: Sequence[str] | None, frozen: Sequence[str]) -> TrainingModel:
    """The model that gives the outputs of another one and the gradients of its first output.

    Its inputs are those of the model, then the parameters, which are those that are trained, those that are frozen and
    those that it writes; `trained` None means all that `graphls.onnx.load` trains. Sizes that the inputs leave open
    stay open. Raises GraphlsError where that cannot be, and for operators that are missing or have no gradient.
    """
    model = original.model()
    cell = _cell(original, trained, frozen)
    return _at_samples(model, _Tracing(model, cell, frozen).model)


def name_output_sizes(original: Original, model: ModelProto) -> None:
    """Give the outputs of a model, in place, the sizes that they have for those of its inputs.

    Exporters give them names of their own, or none, where an input that is like an output, such as the target of a
    loss, needs to know them.
    """
    known = set(open_sizes(model))
    if all(_is_known(info, known) for info in model.graph.output):
        return
    cell = _cell(original, None, ())

    def name(sizes: Sequence[Mapping[str, int]]) -> None:
        inputs = given_inputs(model.graph)
        with COMPILING.lock:
            graphs = [trace_graph(cell, *examples(inputs, of)).graph for of in sizes]
        for number, info in enumerate(model.graph.output):
            if info.type.HasField("tensor_type"):
                describe(info, [graph.outputs[number].type.shape for graph in graphs], sizes)

    _at_samples(model, name)


def _is_known(info: ValueInfoProto, known: set[str]) -> bool:
    kind = info.type.tensor_type
    return kind.HasField("shape") and all(d.HasField("dim_value") or d.dim_param in known for d in kind.shape.dim)


def _cell(original: Original, trained: Sequence[str] | None, frozen: Sequence[str]) -> OnnxCell:
    program = program_of(original.model(), original.folder)
    if program.faults:
        raise GraphValueError(f"The model has operators that graphls does not compute: {', '.join(program.faults)}.")
    cell = cell_of(original, program, trained, frozen or None, None)
    cell.set_train()
    return cell


def _at_samples(model: ModelProto, make: Callable[[Sequence[Mapping[str, int]]], Made]) -> Made:
    """What is made at samples of the open sizes; raises what the first samples give where all of them fail."""
    first: GraphlsError | None = None
    for least in LEAST_SIZES:
        sizes = list(samples(model, least))
        try:
            return make(sizes)
        except GraphlsError as error:
            if not sizes[0]:
                raise
            first = first or type(error)(f"{error.message} {_advice(sizes[0])}", error.location)
    assert first is not None
    raise first


def _advice(sizes: Mapping[str, int]) -> str:
    tried = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    return f"The model leaves sizes open, which were tried as {tried}; where it depends on one, give it: sizes={{...}}."


class _Tracing:
    """The training step of a cell, traced and lowered for some sizes."""

    def __init__(self, model: ModelProto, cell: OnnxCell, frozen: Sequence[str]) -> None:
        self.proto = model
        self.cell = cell
        self.frozen = set(frozen)
        self.inputs = given_inputs(model.graph)
        self.trained = [p for p in cell.get_parameters() if p.requires_grad]
        self.names = {id(parameter): stored.name for stored, parameter in cell.stored.items()}

    def model(self, sizes: Sequence[Mapping[str, int]]) -> TrainingModel:
        """The training model for all sizes."""
        with COMPILING.lock:
            lowered = [self._lowered(of) for of in sizes]
        first, states = lowered[0]
        model = draws_itself(first)
        if len(lowered) > 1:
            model = with_open_sizes([draws_itself(each) for each, _ in lowered], sizes)
        written = [self.names[id(states[name])] for name in first.writes if id(states[name]) in self.names]
        self._hold_constants(model, first, states, written)
        self._name(model, first, states)
        return TrainingModel(model, tuple(p.name for p in self.trained), tuple(written))

    def _lowered(self, sizes: Mapping[str, int]) -> tuple[Lowered, dict[str, Parameter]]:
        traced = trace_graph(self._step, *examples(self.inputs, sizes))
        graph = as_pipeline(PASSES).run(traced.graph, source="trace").graph
        return lower(graph), traced.parameters

    def _step(self, *inputs: Any) -> Any:
        found = value_and_grad(self._outputs, None, self.trained, has_aux=True)(*inputs)
        (loss, *others), gradients = found
        return loss, *others, *gradients

    def _outputs(self, *inputs: Any) -> tuple[Any, ...]:
        found = self.cell(*inputs)
        return found if isinstance(found, tuple) else (found,)

    def _hold_constants(
        self, model: ModelProto, lowered: Lowered, states: Mapping[str, Parameter], written: Sequence[str]
    ) -> None:
        """Make constants of the states that are no parameters of the training model."""
        kept = {*(p.name for p in self.trained), *self.frozen, *written}
        held = {
            tensor: states[state] for state, tensor in lowered.states.items()
            if self.names.get(id(states[state]), state) not in kept
        }  # fmt: skip
        for name in (info.name for info in model.graph.input if info.name in held):
            array = np.ascontiguousarray(held[name].asnumpy())
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        replace_items(model.graph.input, [info for info in model.graph.input if info.name not in held])

    def _name(self, model: ModelProto, lowered: Lowered, states: Mapping[str, Parameter]) -> None:
        """Give inputs and outputs the names that they have in the model that is trained."""
        graph = self.proto.graph
        results = [info.name for info in graph.output] + [p.name + GRADIENT for p in self.trained]
        wanted = dict(zip(lowered.inputs, (info.name for info in self.inputs), strict=True))
        wanted |= {tensor: self.names.get(id(states[name]), name) for name, tensor in lowered.states.items()}
        wanted |= dict(zip(lowered.outputs, results, strict=True))
        wanted |= {tensor: self.names.get(id(states[name]), name) + UPDATED for name, tensor in lowered.writes.items()}
        rename(model.graph, wanted)
