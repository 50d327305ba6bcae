"""The training model: the loss of a model, its outputs, and the gradients of its parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from graphls.base.errors import GraphlsError, GraphValueError
from graphls.frontend.tensors.parameter import Parameter
from graphls.frontend.tensors.tensor import Tensor
from graphls.ir.graph import Graph, Node
from graphls.nn.tracing import trace_graph
from graphls.onnx.cell import OnnxCell, cell_of
from graphls.onnx.importing.files import Original
from graphls.onnx.program import program_of
from graphls.onnx.selection import Selection
from graphls.onnx.training.sizes import attempts, describe, dynamic_sizes, examples, model_inputs
from graphls.ops.gradients import value_and_grad
from graphls.passes import as_pipeline
from graphls.runtime.lowering import Lowered, lower
from graphls.runtime.lowering.dynamic_sizes import with_dynamic_sizes
from graphls.runtime.lowering.protos import copied, rename, replace_items
from graphls.step.export.dynamic_sizes import PASSES, Point, derive

GRADIENT, UPDATED = "_grad", ".updated"
"""The suffixes of a parameter's name in the names of its gradient and of its new value."""


@dataclass(frozen=True)
class TrainingModel:
    """A training model, the names of trained parameters, and of those that its steps write, such as running means."""

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
    tracing = _Tracing(model, cell, frozen)
    return derive(attempts(model), tracing.build, tracing.model, _explained)


def name_output_sizes(original: Original, model: ModelProto) -> None:
    """Name the sizes of the outputs of a model, in place, by those of its inputs.

    Exporters give them other names, or none; an input of the shape of an output, such as the target of a loss, needs
    them.
    """
    known = set(dynamic_sizes(model))
    if all(_is_known(info, known) for info in model.graph.output):
        return
    cell, inputs = _cell(original, None, ()), model_inputs(model.graph)

    def name(graphs: Sequence[Graph], sizes: Sequence[Point]) -> None:
        for number, info in enumerate(model.graph.output):
            if info.type.HasField("tensor_type"):
                describe(info, [graph.outputs[number].type.shape for graph in graphs], sizes)

    derive(attempts(model), lambda sizes: trace_graph(cell, *examples(inputs, sizes)).graph, name, _explained)


def _is_known(info: ValueInfoProto, known: set[str]) -> bool:
    kind = info.type.tensor_type
    return kind.HasField("shape") and all(d.HasField("dim_value") or d.dim_param in known for d in kind.shape.dim)


def _cell(original: Original, trained: Sequence[str] | None, frozen: Sequence[str]) -> OnnxCell:
    program = program_of(original.model(), original.folder)
    if program.faults:
        raise GraphValueError(f"The model has operators that graphls does not compute: {', '.join(program.faults)}.")
    cell = cell_of(original, program, Selection(trained, frozen or None), None)
    cell.set_train()
    return cell


def _explained(error: GraphlsError, sizes: Point) -> GraphlsError:
    return type(error)(f"{error.message} {_advice(sizes)}", error.location)


def _advice(sizes: Point) -> str:
    tried = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    return f"The model leaves sizes open, which were tried as {tried}; where it depends on one, give it: sizes={{...}}."


class _Tracing:
    """The training step of a cell, traced and lowered for some sizes."""

    def __init__(self, model: ModelProto, cell: OnnxCell, frozen: Sequence[str]) -> None:
        self.proto = model
        self.cell = cell
        self.frozen = set(frozen)
        self.inputs = model_inputs(model.graph)
        self.trained = [p for p in cell.get_parameters() if p.requires_grad]
        self.names = {id(parameter): stored.name for stored, parameter in cell.stored.items()}

    def model(self, lowered: Sequence[tuple[Lowered, dict[str, Parameter]]], sizes: Sequence[Point]) -> TrainingModel:
        """The training model for all sizes."""
        first, states = lowered[0]
        model = with_dynamic_sizes([_with_random_operators(each) for each, _ in lowered], sizes)
        written = [self.names[id(states[name])] for name in first.writes if id(states[name]) in self.names]
        self._hold_constants(model, first, states, written)
        self._name(model, first, states)
        return TrainingModel(model, tuple(p.name for p in self.trained), tuple(written))

    def build(self, sizes: Point) -> tuple[Lowered, dict[str, Parameter]]:
        """The lowered step for some sizes, and its states."""
        traced = trace_graph(self._step, *examples(self.inputs, sizes))
        graph = as_pipeline(PASSES).run(traced.graph, source="trace").graph
        return lower(graph), traced.parameters

    def _step(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        (loss, *others), gradients = value_and_grad(self._outputs, None, self.trained, has_aux=True)(*inputs)
        return loss, *others, *gradients

    def _outputs(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        results = self.cell(*inputs)
        return results if isinstance(results, tuple) else (results,)

    def _hold_constants(
        self, model: ModelProto, lowered: Lowered, states: Mapping[str, Parameter], written: Sequence[str]
    ) -> None:
        """Replace the states that are not parameters of the training model by constants."""
        parameters = {*(p.name for p in self.trained), *self.frozen, *written}
        constants = {
            tensor: states[state] for state, tensor in lowered.states.items()
            if self.names.get(id(states[state]), state) not in parameters
        }  # fmt: skip
        for name in (info.name for info in model.graph.input if info.name in constants):
            array = np.ascontiguousarray(constants[name].asnumpy())
            model.graph.initializer.append(numpy_helper.from_array(array, name))
        replace_items(model.graph.input, [info for info in model.graph.input if info.name not in constants])

    def _name(self, model: ModelProto, lowered: Lowered, states: Mapping[str, Parameter]) -> None:
        """Rename inputs and outputs as in the original model."""
        graph = self.proto.graph
        results = [info.name for info in graph.output] + [p.name + GRADIENT for p in self.trained]
        names = dict(zip(lowered.inputs, (info.name for info in self.inputs), strict=True))
        names |= {tensor: self.names.get(id(states[name]), name) for name, tensor in lowered.states.items()}
        names |= dict(zip(lowered.outputs, results, strict=True))
        names |= {tensor: self.names.get(id(states[name]), name) + UPDATED for name, tensor in lowered.writes.items()}
        rename(model.graph, names)


def _with_random_operators(lowered: Lowered) -> ModelProto:
    """The model with random operators of ONNX in place of its random inputs, which draws other numbers than graphls.

    The state of random numbers is removed. Raises GraphValueError for a distribution without an operator of ONNX.
    """
    model = copied(lowered.model)
    graph, random = model.graph, {name for _, name in lowered.host}
    state = {node.inputs[0].name for node, _ in lowered.host}
    removed = random | {lowered.states[name] for name in state if name in lowered.states}
    nodes: list[NodeProto] = []
    for number, (node, name) in enumerate(lowered.host):
        shape = f"random.shape.{number}"
        graph.initializer.append(numpy_helper.from_array(np.array(node.output.type.shape, np.int64), shape))
        nodes += _random_operators(node, name, shape)
    replace_items(graph.input, [info for info in graph.input if info.name not in removed])
    removed_outputs = {lowered.writes[name] for name in state if name in lowered.writes}
    replace_items(graph.output, [info for info in graph.output if info.name not in removed_outputs])
    nodes += [node for node in graph.node if not removed_outputs.intersection(node.output)]
    replace_items(graph.node, nodes)
    return model


def _random_operators(node: Node, name: str, shape: str) -> list[NodeProto]:
    """The operators that draw the random tensor of a node."""
    primitive = node.primitive.name
    zeros = helper.make_node("ConstantOfShape", [shape], [f"{name}.zeros"], f"{name}.zeros")
    kinds = {"random_uniform": "RandomUniformLike", "random_normal": "RandomNormalLike"}
    if primitive in kinds:
        return [zeros, helper.make_node(kinds[primitive], [f"{name}.zeros"], [name], name)]
    if primitive != "random_bernoulli":
        text = f"A model that runs without graphls cannot draw as {primitive} does; leave that out."
        raise GraphValueError(text, node.loc)
    probability = numpy_helper.from_array(np.array(node.attrs["probability"], np.float32))
    return [
        zeros,
        helper.make_node("RandomUniformLike", [f"{name}.zeros"], [f"{name}.uniform"], f"{name}.uniform"),
        helper.make_node("Constant", [], [f"{name}.probability"], f"{name}.probability", value=probability),
        helper.make_node("Less", [f"{name}.uniform", f"{name}.probability"], [name], name),
    ]
